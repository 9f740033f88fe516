/*
 * A trace span of one request or connection, for export to a trace collector: made where it is
 * recorded (lb/proxy/trace.c, tunnel/node/stream_server.c, hub/ingress/client_conn_trace.c),
 * serialised by tracing/otlp_span.c. Plain data on the heap, owned by the holder of its list;
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

/* Which part of the path the span covers. */
enum trace_part {
	TRACE_REQUEST, /* the agent's proxy: an HTTP request */
	TRACE_RELAY, /* the agent's proxy: a TCP connection */
	TRACE_SERVED, /* the agent's end of the tunnel: a stream opened by the hub */
	TRACE_ASKED, /* the hub's ingress: an HTTP request, or CONNECT */
	TRACE_LED, /* the hub's ingress: a connection whose target is not from a request */
	TRACE_PARTS,
};

/* An event while connecting to an endpoint. */
enum trace_what {
	TRACE_DIAL, /* a connection to it was started */
	TRACE_REUSE, /* an idle one is used */
	TRACE_CONNECTED,
	TRACE_REFUSED,
	TRACE_SILENT,
	TRACE_RESET,
	TRACE_STALE, /* it had closed the idle connection: not an error */
	TRACE_EJECTED, /* it is ejected for a while */
	TRACE_TLS, /* the TLS handshake with it failed */
};

struct trace_event {
	uint64_t at_us; /* of the clock of begin_us */
	enum trace_what what;
	struct in6_addr ip;
	uint16_t port;
};

/* Details of tunnelled traffic; "" in a text: none, or unknown. All are truncated to fit. */
struct trace_carried {
	char door[32]; /* the hub's listener */
	char caller[128]; /* as in the audit log */
	char client[46]; /* its address */
	uint16_t client_port;
	char node[254]; /* the node whose tunnel carries it, or that serves it */
	char meant[254]; /* the intended node, if it is reached through its neighbour `node` */
	char replica[64]; /* the replica where that tunnel ends, if not this one */
	char kind[16]; /* the rule of tunnel.allow that applies */
	char to[64]; /* what was dialled, IP:port */
	char why[160]; /* how it ended */
	bool minor_0; /* HTTP/1.0 */
	bool broken; /* ended abnormally */
};

struct trace_span {
	struct trace_span *next;
	struct trace_context context; /* its own */
	uint8_t parent[TRACE_SPAN_BYTES];
	bool has_parent;
	uint8_t part; /* enum trace_part */
	struct trace_carried *carried; /* in the same allocation; NULL for the proxy's */
	uint64_t begin_ns; /* since 1970 */
	uint64_t begin_us, end_us; /* CLOCK_MONOTONIC */
	uint64_t bytes_up, bytes_down;
	struct in6_addr client_ip; /* the proxy's; IPv4 as ::ffff:a.b.c.d */
	uint16_t client_port, port; /* port: of the service or the target */
	uint16_t status; /* sent to the client; 0: none */
	bool http2;
	uint8_t grpc; /* 1 + the status of a call of gRPC; 0: none */
	char end[3]; /* as in the access log; "": no error */
	unsigned retries;
	bool has_endpoint;
	bool endpoint_far; /* reached through the hub */
	struct in6_addr endpoint_ip; /* the last endpoint connected */
	uint16_t endpoint_port;
	char method[64 + 1]; /* "": not an HTTP request */
	char host[256]; /* Host without a port; truncated to fit, like the following */
	char path[512]; /* target without query */
	char namespace[64], service[128]; /* "" when the service is gone */
	unsigned n_events, n_lost; /* n_lost: events that did not fit */
	struct trace_event events[TRACE_EVENTS_MAX];
};

/* All 0 except `part` and, for tunnelled traffic, `carried`. */
struct trace_span *span_new(enum trace_part part);
/* parent NULL: starts a new trace. */
void span_link(struct trace_span *s, const struct trace_context *parent, const uint64_t random[3]);
/* Reads the head's traceparent. False: none, or invalid. */
bool span_parent(const struct http1_head *h, struct trace_context *parent);
/* Fills in method, host (`fallback` if there is none) and path. */
void span_request(struct trace_span *s, const struct http1_head *h, const char *fallback);
/* Copies, truncated to fit. */
void span_copy(char *to, size_t size, const char *from, size_t len);

/* Sampling and delivery of spans on one thread: plain data, owned by the component that passes it
 * to the code that makes spans. */
struct span_source {
	bool on; /* false: the other members are unused */
	uint64_t below; /* sampling rate of spans without a parent, of 2^32 */
	uint32_t per_s; /* and at most so many per second */
	void (*take)(void *arg, struct trace_span *spans, unsigned dropped); /* the list */
	void *arg;
	uint64_t second, limited; /* limited: spans not recorded because of per_s */
	uint32_t made; /* in this second */
};

/* NULL: it is not recorded. */
struct trace_span *span_begin(struct span_source *from, enum trace_part part,
	const struct trace_context *parent, const struct trace_moment *now);
/* Ends the span and delivers it; *span NULL: does nothing. */
void span_end(struct span_source *from, struct trace_span **span, uint64_t now_us);

#endif
