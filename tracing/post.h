/*
 * Sends bodies to a collector over HTTP/1.1, one after the other, on a connection that is reused if
 * the server allows. Everything runs on one loop and nothing blocks. The connection goes directly
 * to the address of the name or of the cluster's service, with a mark that exempts it from our own
 * rules, so that the agent does not record its own requests.
 *
 *	post_new(&post, &(struct post_config){...}, &err);
 *	post_send(post, body, len);	// done() comes later, once; not before that the next
 *	post_free(&post);		// done() does not come any more
 */
#ifndef EDGEWAY_TRACING_POST_H
#define EDGEWAY_TRACING_POST_H

#include "base/core/buf.h"
#include "base/core/loop.h"
#include "base/core/sock.h"
#include "tracing/collector.h"
#include "tracing/tracing.h"

enum {
	POST_MS = 10 * 1000, /* OTEL_EXPORTER_OTLP_TIMEOUT */
};

struct post;
struct ssl_ctx_st;

struct post_result {
	int status; /* 0: no response came */
	unsigned retry_after_s; /* 0: not said */
	const char *why; /* with status 0: in words */
	const char *body; /* if there is a status */
	size_t len;
};

struct post_config {
	struct loop *loop;
	const struct collector *to; /* borrowed until post_free */
	struct ssl_ctx_st *tls; /* if to->tls is set; taken */
	uint32_t mark;
	tracing_find_fn *find;
	void *find_arg;
	void (*done)(void *arg, const struct post_result *result);
	void *arg;
};

void post_new(struct post **p, const struct post_config *config);
void post_free(struct post **p);
/* The DNS servers to use from the next connection on. */
void post_use_upstreams(struct post *p, const struct addr *upstreams, size_t n);
/* body: JSON, compressed with gzip; must stay valid until done(). attempt: how many requests in a
 * row have failed before. */
void post_send(struct post *p, const struct buf *body, unsigned attempt);

#endif
