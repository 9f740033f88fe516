/*
 * What is told of one request or connection to whoever collects traces: made where it is recorded
 * (lb/trace.c, tunnel/node/stream_server.c, hub/ingress/client_conn_trace.c), written by
 * tracing/otlp_span.c. Plain data on the heap, owned by whoever holds the list that it is in;
 * free() frees all of it.
 *
 *	span = span_begin(source, TRACE_SERVED, &parent, &now);	// NULL: not recorded
 *	span_end(source, &span, trace_clock_us());
 */
#ifndef EDGEWAY_MODEL_SPAN_H
#define EDGEWAY_MODEL_SPAN_H

#include <netinet/in.h>

#include "base/http/http1.h"
#include "base/http/traceparent.h"

enum { TRACE_EVENTS_MAX = 16 };

/* Whose part of the way it tells. */
enum trace_part {
	TRACE_REQUEST, /* the agent's proxy: a request of HTTP */
	TRACE_RELAY, /* the same: a connection of TCP */
	TRACE_SERVED, /* the agent's end of the tunnel: a stream that the hub has opened */
	TRACE_ASKED, /* the hub's ingress: a request of HTTP, or CONNECT */
	TRACE_LED, /* the same: a connection whose target somebody else has said */
	TRACE_PARTS,
};

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

/* Of what the tunnel carries; "" in a text: there is none, or it is not known. All are cut to
 * fit. */
struct trace_carried {
	char door[32]; /* the hub's listener */
	char caller[128]; /* as the audit has it */
	char client[46]; /* its address */
	uint16_t client_port;
	char node[254]; /* whose tunnel it goes through, or at which it is served */
	char meant[254]; /* the node beside that one which is meant */
	char replica[64]; /* where that tunnel ends, when it is not here */
	char kind[16]; /* which rule of tunnel.allow counts */
	char to[64]; /* what was dialled, IP:port */
	char why[160]; /* how it ended, in words */
	bool minor_0; /* HTTP/1.0 */
	bool broken; /* not in good order */
};

struct trace_span {
	struct trace_span *next;
	struct trace_context context; /* its own */
	uint8_t parent[TRACE_SPAN_BYTES];
	bool has_parent;
	uint8_t part; /* enum trace_part */
	struct trace_carried *carried; /* in the same block; NULL for the proxy's */
	uint64_t begin_ns; /* since 1970 */
	uint64_t begin_us, end_us; /* CLOCK_MONOTONIC */
	uint64_t bytes_up, bytes_down;
	uint32_t client_ip; /* host byte order; the proxy's */
	uint16_t client_port, port; /* port: of the service or the target */
	uint16_t status; /* told to the client; 0: none */
	char end[3]; /* as in the access log; "": nobody's fault */
	unsigned retries;
	bool has_endpoint;
	bool endpoint_far; /* through the hub */
	struct in6_addr endpoint_ip; /* the last that it was connected with */
	uint16_t endpoint_port;
	char method[64 + 1]; /* "": no request of HTTP */
	char host[256]; /* Host without a port; cut to fit, as what follows */
	char path[512]; /* target without query */
	char namespace[64], service[128]; /* "" when the service is gone */
	unsigned n_events, n_lost; /* lost: more than fit */
	struct trace_event events[TRACE_EVENTS_MAX];
};

/* All 0 but the part and, where it is carried, `carried`. */
struct trace_span *span_new(enum trace_part part);
/* parent NULL: it begins a trace. */
void span_link(struct trace_span *s, const struct trace_context *parent, const uint64_t random[3]);
/* The head's traceparent. False: none, or none that may be used. */
bool span_parent(const struct http1_head *h, struct trace_context *parent);
/* Method, host (without one: `fallback`) and path. */
void span_request(struct trace_span *s, const struct http1_head *h, const char *fallback);
/* Cut to fit. */
void span_copy(char *to, size_t size, const char *from, size_t len);

/* Which spans are made on one thread, and who takes them: plain data of whoever hands it to those
 * that make them. */
struct span_source {
	bool on; /* false: nobody asks for anything below */
	uint64_t below; /* in 2^32: how many of those without a parent are recorded */
	uint32_t per_s; /* and how many in a second, at most */
	void (*take)(void *arg, struct trace_span *spans, unsigned dropped); /* the list */
	void *arg;
	uint64_t second, limited; /* limited: not recorded because of per_s */
	uint32_t made; /* in this second */
};

/* NULL: it is not recorded. */
struct trace_span *span_begin(struct span_source *from, enum trace_part part,
	const struct trace_context *parent, const struct trace_moment *now);
/* It is over, and handed over; NULL in *span: nothing. */
void span_end(struct span_source *from, struct trace_span **span, uint64_t now_us);

#endif
