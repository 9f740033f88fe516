/*
 * Who waits for room at an endpoint, and whose turn it is. An exchange waits where
 *
 * - all endpoints that it may use have all the connections in use that the service allows
 *   (edgeway.io/max-connections), or
 * - the endpoint's own queue of connections seems to be full. A dial that is not answered in time
 *   (dial.c) was probably dropped there, and more of them at once would only be dropped as well. So
 *   the endpoint's `window` of dials under way closes to one; each that is answered opens it by
 *   one, until nothing is left of it. What must wait, waits here and not in the kernel, which would
 *   dial again after a second only, and gives nobody a turn; or
 * - others wait already.
 *
 * They wait in a fair queue (fair_queue.h), one for each group, clients in turn, for at most the
 * time that a connection may take from the moment when they wanted the endpoint; then it is 503 or
 * 504. Connections that become idle and dials are given to them first. All of this on the worker's
 * loop; a group that nobody waits for has none of it.
 *
 *	ex ──► dial_next ──► DIAL_HELD ──► wait_queue_wait ──► wait_queue_run ──► dial_turn ──► exchange_connected
 */
#ifndef EDGEWAY_LB_WAIT_QUEUE_H
#define EDGEWAY_LB_WAIT_QUEUE_H

#include "lb/private.h"

/* Does nothing when it waits already. */
void wait_queue_wait(struct exchange *ex);
/* Does somebody wait for the group's endpoints? */
bool wait_queue_crowded(const struct group *g);
/* Everybody whose turn can come now: at the end of a callback after wait_queue_due(), and at every
 * tick. */
void wait_queue_run(struct worker *w);

/* A connection to an endpoint that services limit is not in use any more: who waits for it at
 * another worker has his turn now, and not at that worker's next tick. */
void wait_queue_freed(const struct worker *w);

/* There may be room again. */
static inline void
wait_queue_due(struct worker *w)
{
	if (!list_empty(&w->turns))
		w->turns_due = true;
}

#endif
