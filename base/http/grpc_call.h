/*
 * One health check of gRPC (grpc.health.v1.Health/Check) over a connection of its own, as a codec
 * above base/http/h2.h: bytes in, bytes out. Used by lb's health checks and by edgewayctl trace.
 *
 *	c = grpc_call_new("web.default:80", "", now_ms);
 *	grpc_call_output(c, &out);		// send it
 *	rc = grpc_call_input(c, bytes, n, now_ms);	// 1: grpc_call_result; -EPROTO: no HTTP/2
 *	grpc_call_free(&c);
 */
#ifndef EDGEWAY_BASE_HTTP_GRPC_CALL_H
#define EDGEWAY_BASE_HTTP_GRPC_CALL_H

#include "base/http/grpc.h"

#define GRPC_HEALTH_PATH "/grpc.health.v1.Health/Check"

enum { GRPC_SERVICE_MAX = 253 };

struct grpc_call;

struct grpc_result {
	int http; /* status of the response; 0: none */
	int status; /* grpc-status; -1: none */
	bool serving; /* the service says SERVING */
};

/* service: which one is asked about, at most GRPC_SERVICE_MAX bytes; "": the server as a whole. */
struct grpc_call *grpc_call_new(const char *authority, const char *service, uint64_t now_ms);
void grpc_call_output(struct grpc_call *c, struct buf *out);
int grpc_call_input(struct grpc_call *c, const void *bytes, size_t n, uint64_t now_ms);
const struct grpc_result *grpc_call_result(const struct grpc_call *c);
void grpc_call_free(struct grpc_call **c);

/* If the path of a health check is GRPC_HEALTH_PATH, perhaps with "?service=NAME", returns the
 * name, "" for none; else NULL. */
const char *grpc_health_service(const char *path);

#endif
