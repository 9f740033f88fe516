/*
 * What a proxy needs to know of gRPC (grpc.io, "gRPC over HTTP2"), pure: which requests are calls,
 * their deadline, and errors in gRPC's form, which are a response of status 200 without a body.
 *
 *	if (grpc_is_call(&head))
 *		limit_ms = grpc_timeout_ms(&head);	// 0: none
 *	status = grpc_status_of(503);			// GRPC_UNAVAILABLE
 */
#ifndef EDGEWAY_BASE_HTTP_GRPC_H
#define EDGEWAY_BASE_HTTP_GRPC_H

#include "base/http/http1.h"

enum grpc_status {
	GRPC_OK = 0,
	GRPC_UNKNOWN = 2,
	GRPC_INVALID_ARGUMENT = 3,
	GRPC_DEADLINE_EXCEEDED = 4,
	GRPC_PERMISSION_DENIED = 7,
	GRPC_RESOURCE_EXHAUSTED = 8,
	GRPC_UNIMPLEMENTED = 12,
	GRPC_INTERNAL = 13,
	GRPC_UNAVAILABLE = 14,
	GRPC_DATA_LOSS = 15,
	GRPC_UNAUTHENTICATED = 16,
	GRPC_STATUSES = 17,
};

enum { GRPC_MESSAGE_MAX = 1024 };

/* Is it application/grpc, perhaps with a suffix? */
bool grpc_is_call(const struct http1_head *request);
/* grpc-timeout in milliseconds, rounded up; 0: none, or malformed. */
uint64_t grpc_timeout_ms(const struct http1_head *request);
/* The status that stands for one of HTTP, and the other way round: 5xx are the server's faults. */
enum grpc_status grpc_status_of(int http);
unsigned grpc_http_of(unsigned status);
/* The number in a grpc-status field; -1: none. */
int grpc_status_parse(struct http1_str value);
/* Percent-encoded, as grpc-message has it; longer texts are cut. */
const char *grpc_message(const char *text, char to[GRPC_MESSAGE_MAX]);

#endif
