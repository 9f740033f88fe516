/*
 * Picks the endpoint that an exchange tries next, and decides whether it may. On its worker's loop;
 * sends and dials nothing.
 *
 * Retries are charged to the request (edgeway.io/retries) and to the service port's budget, as each
 * one is load on endpoints that may already be overloaded. One case is free: leaving an endpoint
 * that executed nothing and is at fault for that (ex->moves), for one that seems healthy. Each such
 * failure brings its endpoint nearer to ejection, so there cannot be many; and when all endpoints
 * are ejected, nothing is free.
 *
 *	t = pick_next(ex);		// NULL: none; ex->full: some have no room
 *	if (pick_is_free(ex, t) || pick_may_charge(ex))
 *		...			// connection takes it; failure: pick_avoid
 *	else
 *		pick_undo(ex, t);
 */
#ifndef EDGEWAY_LB_PROXY_PICK_H
#define EDGEWAY_LB_PROXY_PICK_H

#include "lb/proxy/worker.h"

/* Attempts that may be charged to the request, including the first. */
unsigned pick_tries(const struct exchange *ex);
/* Counts one more in flight on the endpoint (target_begin), so that no other worker takes its last
 * connection meanwhile. */
struct target *pick_next(struct exchange *ex);
/* Undoes pick_next: no connection was made. */
void pick_undo(const struct exchange *ex, struct target *t);
/* Returns whether the service's connection limit is the reason that ex has no endpoint. */
bool pick_all_full(const struct exchange *ex);
/* Returns whether one more attempt may be charged. */
bool pick_may_charge(const struct exchange *ex);
bool pick_is_free(const struct exchange *ex, const struct target *t);
/* Nothing has been heard from b's endpoint, on any connection, since the dial or the request:
 * nothing gets through. */
bool pick_is_mute(const struct upstream_conn *b);
/* Returns whether the exchange could leave t for an untried endpoint that seems healthy; `free`:
 * without being charged. */
bool pick_another(const struct exchange *ex, struct target *t, bool free);
/* The answer of t is not taken, and pick_may_charge() has been asked. Another endpoint is tried; if
 * there is none, all of them anew, which is charged at once. */
void pick_leave(struct exchange *ex, struct target *t, bool free);
/* ex does not try it again. */
void pick_avoid(struct exchange *ex, struct target *t);

#endif
