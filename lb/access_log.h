/*
 * The access log (lb.accessLog): a line for each request and each relayed connection, written when
 * it is over.
 *
 *	2026-01-31T23:59:59.999Z access lb: client=172.17.0.4:53312 to=9.251.1.2:80 service=default/web
 *	endpoint=172.17.0.2:8080 request="GET /x" id=9f… status=200 end=-- bytes_up=0 bytes_down=12 connect_ms=0.21
 *	first_ms=1.04 total_ms=1.10 retries=0
 *
 * Behind id, where the request belongs to a trace: trace=4bf9… and, where it is recorded (trace.h),
 * span=00f0….
 *
 * `end` tells who ended it and when, as HAProxy does. Who: - nobody, C the client, c the client's
 * time was up, S the endpoint or the lack of one, s its time was up, P we refused, K our own end.
 * When: R request's head, C connecting, H waiting for the answer's head, D in the bodies, - at the
 * end.
 *
 * Of those that went well lb.accessLogSample may leave one in N: each worker counts, the first is
 * written. Lines then end with sample=N, or sample=1 where all of the kind are written, so that a
 * reader can multiply.
 *
 * Lines gather in the worker and go to a thread that writes (base/core/log_queue.h): no request
 * waits for a log. With the log off nothing is measured. All of this on the worker's loop.
 */
#ifndef EDGEWAY_LB_ACCESS_LOG_H
#define EDGEWAY_LB_ACCESS_LOG_H

#include "lb/private.h"

/* It begins; times are taken from here on. */
void access_log_begin(struct exchange *ex);
/* ex->back can be written to. */
void access_log_connected(struct exchange *ex);
/* The answer's head, or the first byte of a relay's endpoint, has come. */
void access_log_first(struct exchange *ex);
/* Why it ends; the first word counts. code: two letters. */
void access_log_end(struct exchange *ex, const char *code);
/* It is over: the line. */
void access_log_write(struct exchange *ex);
/* A head that could not be read. */
void access_log_refused(const struct front *f, int status);
/* Method and target of the request as it was sent on, borrowed; empty: a relay. */
struct http1_str access_log_request(const struct exchange *ex);
/* Hands over what has gathered: at every tick, and at the end. */
void access_log_flush(struct worker *w);

#endif
