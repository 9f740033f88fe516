/*
 * Exports spans to an OpenTelemetry collector (OTLP over HTTP, JSON). The folder's door; loop 0.
 * Spans wait in a queue of bounded length; what does not fit is dropped and counted, and nobody
 * ever waits for the collector. They go out TRACING_BATCH at once, or delay_ms after the first, one
 * request at a time, which is written in many short turns of the loop; what may be tried again is,
 * ever more slowly, for TRACING_GIVE_UP_MS.
 *
 *	rc = tracing_new(&t, &(struct tracing_config){...}, &err);
 *	tracing_upstreams(t, servers, n);
 *	tracing_take(t, spans, 0);		// lb_config's take_spans
 *	tracing_stop(&t, 2000, on_stopped, me);	// sends what is left first
 */
#ifndef EDGEWAY_TRACING_TRACING_H
#define EDGEWAY_TRACING_TRACING_H

#include "base/core/loop.h"
#include "base/core/metric.h"
#include "base/core/sock.h"
#include "model/span.h"
#include "tracing/otlp.h"

enum { /* as OpenTelemetry's batch processor has them by default */
	TRACING_QUEUE = 2048,
	TRACING_BATCH = 512,
	TRACING_GIVE_UP_MS = 5 * 60 * 1000,
};

struct tracing;

/* Begins a connection where the host is a service of the cluster: 1, *fd as sock_connect gives it;
 * where *far, one byte comes when it is made. 0: no such service. -errno and why: there is one, but
 * not to be reached now. attempt: of how many failures before in a row. */
struct tracing_way {
	const char *host;
	uint16_t port;
	unsigned attempt;
	int fd;
	bool far;
};
typedef int tracing_find_fn(void *arg, struct tracing_way *way, struct err *err);

struct tracing_config {
	struct loop *loop;
	const char *endpoint; /* URL */
	const char *const *headers; /* NAME=VALUE, ended by NULL */
	const char *ca_pem; /* NULL: the system's CAs */
	struct otlp_resource who; /* copied */
	uint32_t mark; /* SO_MARK of its connections */
	tracing_find_fn *find;
	void *find_arg;
	uint64_t delay_ms; /* spans gather for so long, or until there are TRACING_BATCH */
};

/* Is it an endpoint? -EINVAL with a reason that repeats no header's value. */
int tracing_check(const char *endpoint, const char *const *headers, struct err *err);
int tracing_new(struct tracing **t, const struct tracing_config *config, struct err *err);
/* Who is asked for the collector's name. */
void tracing_upstreams(struct tracing *t, const struct addr *upstreams, size_t n);
/* Takes the list (NULL: none); `dropped`: how many more there were. */
void tracing_take(void *tracing, struct trace_span *spans, unsigned dropped);
/* What waits is sent, for `within_ms` at most and unless the collector fails, then `stopped` comes,
 * perhaps at once. NULL in *t: that. */
void tracing_stop(struct tracing **t, uint64_t within_ms, loop_fn *stopped, void *arg);

/* t NULL: nothing, null. */
/* from: those that make them on loop 0. */
void tracing_metrics(const struct tracing *t, const struct span_source *from, struct metrics *m);
void tracing_state(const struct tracing *t, struct buf *out); /* JSON object */

#endif
