/*
 * Finds an upstream for an exchange: picks an endpoint, takes an idle connection of the pool or
 * makes one, and goes on to another endpoint when that fails, as often as choice.h allows. Nothing
 * has been sent by then, so this is always safe. The outcome is returned, or told later by
 * exchange_connected / relay_connected and exchange_dial_failed / relay_dial_failed.
 *
 * A dial that takes longer than HEDGE_MS, or three times as long as is usual for its endpoint, gets
 * a rival: another endpoint is dialled as well (the same one where there is no other), and the
 * first that connects wins. All connections under way hang on ex->back, the youngest first
 * (back->rival). The losers go on without an exchange, for what becomes of them tells how the
 * endpoint is, and end up in the pool.
 *
 * A request that was sent is watched too (dial_sent): where the endpoint has not even acknowledged
 * the bytes, as TCP_INFO tells, it is silent. If the request may be sent twice and another endpoint
 * is there, it goes there.
 */
#ifndef EDGEWAY_LB_DIAL_H
#define EDGEWAY_LB_DIAL_H

#include "lb/private.h"

enum dial {
	DIAL_READY, /* ex->back can be written to */
	DIAL_WAIT, /* under way */
	DIAL_FAILED, /* nothing left to try: ex->full, ex->short_of, ex->timed_out say why */
	DIAL_HELD, /* of dial_turn: there is no room yet */
};

/* The first attempt, and the next. */
enum dial dial_start(struct exchange *ex, bool may_reuse);
enum dial dial_next(struct exchange *ex, bool may_reuse);
/* The turn of an exchange that waits in a line has come (turn.h): it leaves the line, unless it is
 * held. What comes of it is told as ever. */
enum dial dial_turn(struct exchange *ex);
/* It has waited too long. */
void dial_gave_up(struct exchange *ex);
/* The request, or its beginning, was handed to ex->back's socket. */
void dial_sent(struct exchange *ex);
/* Events of a connection under way. */
void dial_on_event(struct back *b);
/* Its expiry: a connection under way, or one that was sent a request and is silent. */
void dial_on_time(struct back *b);
/* The endpoint failed ex: remembered for the policy, and not asked again by ex. */
void dial_blame(struct exchange *ex, struct target *t, enum target_fault fault);

#endif
