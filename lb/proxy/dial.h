/*
 * Finds an upstream connection for an exchange: picks an endpoint, takes an idle connection from
 * the pool or opens one, and tries another endpoint when that fails, as often as pick.h allows.
 * Nothing has been sent before that, so trying again is always safe. The result is returned, or
 * reported later by the exchange's kind: connected or dial_failed.
 *
 * If connecting takes longer than HEDGE_MS, or three times as long as usual for its endpoint, a
 * rival connection is started: to another endpoint (to the same one if there is no other). The
 * first that connects wins. All connections being made are linked from ex->upstream, the youngest
 * first (upstream_conn.rival). The losers continue without an exchange, because their result shows
 * the endpoint's health, and end in the pool.
 *
 * A request that was sent is watched too (dial_sent): if the endpoint has not even acknowledged the
 * bytes (TCP_INFO), it is silent. If the request may be sent twice and another endpoint is
 * available, it is sent there.
 */
#ifndef EDGEWAY_LB_PROXY_DIAL_H
#define EDGEWAY_LB_PROXY_DIAL_H

#include "lb/proxy/worker.h"

enum dial {
	DIAL_READY, /* ex->upstream can be written to */
	DIAL_WAIT, /* connecting */
	/* nothing left to try: ex->full, ->out_of_resources, ->over_quota, ->timed_out say why */
	DIAL_FAILED,
	DIAL_HELD, /* from dial_turn only: there is no room yet */
};

/* The first attempt, and each later one. */
enum dial dial_start(struct exchange *ex, bool may_reuse);
enum dial dial_next(struct exchange *ex, bool may_reuse);
/* An exchange in a wait queue (wait_queue.h) may try now: it leaves the queue unless the result is
 * DIAL_HELD. The result of a dial is reported as for the other calls. */
enum dial dial_turn(struct exchange *ex);
/* Tries the next endpoint; the result is reported as for dial_turn. */
void dial_resume(struct exchange *ex);
/* The exchange has waited too long. */
void dial_gave_up(struct exchange *ex);
/* The request, or its beginning, was written to ex->upstream's socket. */
void dial_sent(struct exchange *ex);
/* Events of a connection being made. */
void dial_on_event(struct upstream_conn *b);
/* The expiry of a connection being made, or of one whose endpoint does not acknowledge the
 * request. */
void dial_on_time(struct upstream_conn *b);
/* An endpoint that has the request and processes it: detects when it dies meanwhile. One that
 * acknowledges nothing: the kernel gives up after a while. */
void dial_keep_alive(struct upstream_conn *b);
void dial_give_up_late(struct upstream_conn *b);
/* The endpoint failed ex: records that for the policy, and ex does not try that endpoint again. */
void dial_report_failure(struct exchange *ex, struct target *t, enum target_fault fault);

#endif
