/*
 * What is told of one request to whoever collects traces: made by lb/trace.c where the request is recorded, written by
 * tracing/otlp.c. Plain data on the heap, owned by whoever holds the list that it is in.
 */
#ifndef EDGEWAY_MODEL_SPAN_H
#define EDGEWAY_MODEL_SPAN_H

#include <netinet/in.h>

#include "base/traceparent.h"

enum { TRACE_EVENTS_MAX = 16 };

/* What happened on the way to an endpoint. */
enum trace_what {
	TRACE_DIAL, /* a connection to it was begun */
	TRACE_REUSE, /* an idle one is used */
	TRACE_CONNECTED,
	TRACE_REFUSED,
	TRACE_SILENT,
	TRACE_RESET,
	TRACE_STALE, /* it had hung up while the connection was idle: no fault */
	TRACE_EJECTED, /* it is left out for a while */
};

struct trace_event {
	uint64_t at_us; /* of the clock of begin_us */
	enum trace_what what;
	struct in6_addr ip;
	uint16_t port;
};

struct trace_span {
	struct trace_span *next;
	struct trace_context context; /* its own */
	uint8_t parent[TRACE_SPAN_BYTES];
	bool has_parent;
	uint64_t begin_ns; /* since 1970 */
	uint64_t begin_us, end_us; /* CLOCK_MONOTONIC */
	uint64_t bytes_up, bytes_down;
	uint32_t client_ip; /* host byte order */
	uint16_t client_port, port; /* port: of the service */
	uint16_t status; /* told to the client; 0: none */
	char end[3]; /* as in the access log; "": nobody's fault */
	unsigned retries;
	bool has_endpoint;
	bool endpoint_far; /* through the hub */
	struct in6_addr endpoint_ip; /* the last that it was connected with */
	uint16_t endpoint_port;
	char method[64 + 1];
	char host[256]; /* Host without a port; cut to fit, as what follows */
	char path[512]; /* target without query */
	char namespace[64], service[128]; /* "" when the service is gone */
	unsigned n_events, n_lost; /* lost: more than fit */
	struct trace_event events[TRACE_EVENTS_MAX];
};

#endif
