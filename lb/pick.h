/*
 * Which endpoint an exchange asks next, and whether it may. Its worker's loop; sends and dials
 * nothing.
 *
 * Second attempts are charged to the request (edgeway.io/retries) and to the service port's budget,
 * as each is work for endpoints that may have too much already. But a move is free: from an
 * endpoint that executed nothing and is to blame for it (ex->moves), to one that seems well. Each
 * such failure brings its endpoint nearer to being left out, so there cannot be many; and where all
 * are out, nothing is free.
 *
 *	t = pick_next(ex);				// NULL: nobody; ex->full tells whether some have no room
 *	if (pick_is_free(ex, t) || pick_may_charge(ex))
 *		...					// a connection takes what was counted; on a failure pick_avoid(ex, t)
 *	else
 *		pick_undo(ex, t);
 */
#ifndef EDGEWAY_LB_PICK_H
#define EDGEWAY_LB_PICK_H

#include "lb/private.h"

/* Attempts that may be charged to one request of the group, with the first one. */
unsigned pick_tries(const struct group *g);
/* One more is in flight there from now on (target_begin), so that no other worker takes the last
 * connection meanwhile. */
struct target *pick_next(struct exchange *ex);
/* No connection to it came of that. */
void pick_undo(const struct exchange *ex, struct target *t);
/* Is it for the service's limit of connections that there is no endpoint for ex? */
bool pick_all_full(const struct exchange *ex);
/* May one more attempt be charged? */
bool pick_may_charge(const struct exchange *ex);
bool pick_is_free(const struct exchange *ex, const struct target *t);
/* It has not been heard of since the dial or the request: no matter whose, nothing gets through. */
bool pick_is_mute(const struct back *b);
/* Could the exchange leave b for an endpoint that seems to be well and was not tried? */
bool pick_another(const struct exchange *ex, const struct back *b);
/* ex does not ask it again. */
void pick_avoid(struct exchange *ex, struct target *t);

#endif
