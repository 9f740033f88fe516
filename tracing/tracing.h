/*
 * Exports spans to an OpenTelemetry collector (OTLP over HTTP, JSON). The public interface of
 * tracing/; loop 0. Spans wait in a bounded queue; what does not fit is dropped and counted, and
 * nothing ever waits for the collector. They are sent when there are TRACING_BATCH, or delay_ms
 * after the first, one request at a time, which is written in many short turns of the loop.
 * Retryable failures are retried with back-off, for TRACING_GIVE_UP_MS.
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

enum { /* the defaults of OpenTelemetry's batch processor */
	TRACING_QUEUE = 2048,
	TRACING_BATCH = 512,
	TRACING_GIVE_UP_MS = 5 * 60 * 1000,
};

struct tracing;

/* Starts a connection if the host is a service of the cluster. Returns 1 and *fd as sock_connect
 * does; if *far, one byte arrives on it when the connection is established. 0: no such service.
 * -errno and err: the service exists, but cannot be reached now. attempt: number of failures in a
 * row before. */
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
	uint64_t delay_ms; /* spans are collected for this time, or until there are TRACING_BATCH */
};

/* Checks the endpoint and headers. -EINVAL with a reason that contains no header's value. */
int tracing_check(const char *endpoint, const char *const *headers, struct err *err);
int tracing_new(struct tracing **t, const struct tracing_config *config, struct err *err);
/* The DNS servers to ask for the collector's name. */
void tracing_upstreams(struct tracing *t, const struct addr *upstreams, size_t n);
/* Takes the list (NULL: none); `dropped`: how many more spans were dropped. */
void tracing_take(void *tracing, struct trace_span *spans, unsigned dropped);
/* Sends what is queued, for at most `within_ms` and unless the collector fails; then calls
 * `stopped`, possibly at once. With *t NULL it only calls `stopped`. */
void tracing_stop(struct tracing **t, uint64_t within_ms, loop_fn *stopped, void *arg);

/* With t NULL: no metrics, and the state is null. */
/* from: the source that makes spans on loop 0. */
void tracing_metrics(const struct tracing *t, const struct span_source *from, struct metrics *m);
void tracing_state(const struct tracing *t, struct buf *out); /* JSON object */

#endif
