/*
 * The access log (lb.accessLog): one line for each request and each relayed connection, written
 * when it ends.
 *
 *	2026-01-31T23:59:59.999Z access lb: client=172.17.0.4:53312 to=9.251.1.2:80
 *	service=default/web endpoint=172.17.0.2:8080 request="GET /x" id=9f… status=200 end=--
 *	bytes_up=0 bytes_down=12 connect_ms=0.21 first_ms=1.04 total_ms=1.10 retries=0
 *
 * If the request belongs to a trace, trace=4bf9… follows id; if it is also recorded (trace.h),
 * span=00f0… follows.
 *
 * Where a rule of an HTTPRoute or GRPCRoute decided, route=namespace/name/index of the rule follows
 * service, and backend=namespace/name:port, the Service that it led to, if any.
 *
 * `end` says who ended it and when, as HAProxy's termination state does. Who: - nobody, C the
 * client, c the client timed out, S the endpoint or the lack of one, s the endpoint timed out, P we
 * refused, K our own shutdown. When: R reading the request's head, C connecting, H waiting for the
 * response's head, D in the bodies, - at the end.
 *
 * lb.accessLogSample may reduce the successful ones to one line in N: each worker counts, and
 * writes the first. Lines then end with sample=N, or with sample=1 if all of that kind are written,
 * so that a reader can multiply.
 *
 * The worker collects lines and passes them to a writer thread (base/core/log_queue.h): no request
 * waits for the log. With the log off nothing is measured. All functions run on the worker's loop.
 */
#ifndef EDGEWAY_LB_PROXY_ACCESS_LOG_H
#define EDGEWAY_LB_PROXY_ACCESS_LOG_H

#include "lb/proxy/worker.h"

/* The exchange begins; times are measured from here on. */
void access_log_begin(struct exchange *ex);
/* ex->upstream is connected and can be written to. */
void access_log_connected(struct exchange *ex);
/* The response's head, or the first byte from the endpoint of a relay, has arrived. */
void access_log_first(struct exchange *ex);
/* Why the exchange ends; only the first call counts. code: two letters. */
void access_log_end(struct exchange *ex, const char *code);
/* The exchange is over: adds its line. */
void access_log_write(struct exchange *ex);
/* Logs a request head that could not be parsed. */
void access_log_refused(const struct downstream *f, int status);
/* Method and target of the request as forwarded, borrowed; empty for a relay. */
struct http1_str access_log_request(const struct exchange *ex);
/* Passes the collected lines to the writer: at every tick, and at the end. */
void access_log_flush(struct worker *w);

#endif
