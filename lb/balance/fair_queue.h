/*
 * A fair queue of waiters: each client has a lane of its own, in order of arrival, and the lanes
 * are served in turn. So a client with a thousand waiters gets as much as a client with one. Pure;
 * belongs to one worker. A lane exists while somebody waits in it. Finding one searches all lanes,
 * of which there are no more than waiting clients.
 *
 *	fair_queue_join(&l, &ex->waiter, ip);
 *	while ((w = fair_queue_next(&l)) != NULL && served(w))
 *		fair_queue_leave(w);
 */
#ifndef EDGEWAY_LB_BALANCE_FAIR_QUEUE_H
#define EDGEWAY_LB_BALANCE_FAIR_QUEUE_H

#include "lb/conn/list.h"

struct waiter {
	struct node node;
	struct lane *lane; /* NULL: not in the queue */
};

struct fair_queue {
	struct node lanes; /* the next one to be served first */
	unsigned n_lanes;
};

void fair_queue_init(struct fair_queue *l);
/* Adds w at the end of its client's lane; does nothing if it is in the queue already. */
void fair_queue_join(struct fair_queue *l, struct waiter *w, uint32_t client);
/* May also be called for a waiter that is not in the queue. */
void fair_queue_leave(struct waiter *w);
/* Returns the first waiter of the next lane and moves that lane to the end; NULL if the queue is
 * empty. */
struct waiter *fair_queue_next(struct fair_queue *l);

static inline bool
fair_queue_empty(const struct fair_queue *l)
{
	return l->n_lanes == 0;
}

#endif
