/*
 * Spans of HTTP requests and of relayed connections (model/span.h), if tracing is configured: sends
 * W3C Trace Context to the endpoint, and records the request's course for the exporter. A request
 * with a parent is recorded if the parent says so, one without at random (lb_tracing); never more
 * than the limit per second. A request that is not recorded is forwarded unchanged.
 *
 *	trace_begin(ex, head, &forward, text);	// before the head is written for the endpoint
 *	trace_note(ex, TRACE_DIAL, target);
 *	trace_end(ex);
 *
 * The worker collects spans and passes them to loop 0 at its ticks, or when it has TRACE_PARCEL.
 * With tracing off all of this is one branch. On the worker's loop.
 */
#ifndef EDGEWAY_LB_PROXY_TRACE_H
#define EDGEWAY_LB_PROXY_TRACE_H

#include "lb/proxy/worker.h"

enum {
	TRACE_PARCEL = 64, /* spans */
	TRACE_WAITING_MAX = 1024, /* on their way to loop 0; more are dropped */
};

/* If the request is recorded, it is forwarded with `text` as traceparent. */
void trace_begin(struct exchange *ex, const struct http1_head *h, struct http1_forward *forward,
	char text[TRACEPARENT_LEN + 1]);
/* A connection that will be relayed: treated as a request without a parent. */
void trace_relay(struct exchange *ex);
void trace_add(struct exchange *ex, enum trace_what what, const struct target *t);
/* ex->upstream can be written to. */
void trace_connected(struct exchange *ex);
/* The span is over. Later ends of the exchange add nothing. */
void trace_end(struct exchange *ex);
/* Passes the collected spans to loop 0. */
void trace_flush(struct worker *w);

/* ex may be NULL. */
static inline void
trace_note(struct exchange *ex, enum trace_what what, const struct target *t)
{
	if (ex != NULL && ex->span != NULL)
		trace_add(ex, what, t);
}

/* The status of a call of gRPC. */
static inline void
trace_call(struct exchange *ex, unsigned status)
{
	if (ex->span != NULL)
		ex->span->grpc = (uint8_t)(1 + MIN(status, 254u));
}

static inline enum trace_what
trace_fault(enum target_fault fault)
{
	return fault == TARGET_REFUSED   ? TRACE_REFUSED
		: fault == TARGET_SILENT ? TRACE_SILENT
		: fault == TARGET_TLS    ? TRACE_TLS
					 : TRACE_RESET;
}

#endif
