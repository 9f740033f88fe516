/*
 * Exchanges that wait for room at an endpoint, and their order. An exchange waits if
 *
 * - all endpoints that it may use are at the service's connection limit
 *   (edgeway.io/max-connections), or
 * - the endpoint's own accept queue seems to be full. A dial that is not answered in time (dial.c)
 *   was probably dropped there, and more dials at once would only be dropped as well. So the
 *   endpoint's `window` of concurrent dials closes to one; each that is answered opens it by one,
 *   until it is unlimited again. Exchanges wait here and not in the kernel, which would retry only
 *   after a second and does not queue fairly; or
 * - others wait already.
 *
 * They wait in a fair queue (fair_queue.h), one for each group, clients in turn, for at most the
 * connect timeout, counted from the moment when they wanted the endpoint; then the result is 503 or
 * 504. Connections that become idle and new dials go to them first. On the worker's loop; a group
 * with no waiting exchange has no queue.
 *
 *	ex ──► dial_next ──► DIAL_HELD ──► wait_queue_wait ──► wait_queue_run ──► dial_turn ──►
 *	exchange_connected
 */
#ifndef EDGEWAY_LB_PROXY_WAIT_QUEUE_H
#define EDGEWAY_LB_PROXY_WAIT_QUEUE_H

#include "lb/proxy/worker.h"

/* Does nothing if it waits already. */
void wait_queue_wait(struct exchange *ex);
/* Returns whether an exchange waits for the group's endpoints. */
bool wait_queue_has_waiters(const struct group *g);
/* Serves every exchange whose turn can come now: at the end of a callback after wait_queue_due(),
 * and at every tick. */
void wait_queue_run(struct worker *w);

/* A connection to an endpoint with a connection limit was released: exchanges that wait for it at
 * another worker are served now, not at that worker's next tick. */
void wait_queue_freed(const struct worker *w);

/* There may be room again. */
static inline void
wait_queue_due(struct worker *w)
{
	if (!list_empty(&w->turns))
		w->turns_due = true;
}

#endif
