/*
 * A fair waiting line: each client has a lane of its own, in the order in which its waiters came;
 * the lanes are served in turn. So a client that has a thousand waiters and one that has a single
 * one get alike much. Pure; one worker's. A lane is there while somebody waits in it; looking for
 * it goes through all lanes, which are not more than clients that wait.
 *
 *	fair_queue_join(&l, &ex->waiter, ip);
 *	while ((w = fair_queue_next(&l)) != NULL && served(w))
 *		fair_queue_leave(w);
 */
#ifndef EDGEWAY_LB_FAIR_QUEUE_H
#define EDGEWAY_LB_FAIR_QUEUE_H

#include "lb/list.h"

struct waiter {
	struct node node;
	struct lane *lane; /* NULL: does not wait */
};

struct fair_queue {
	struct node lanes; /* whose turn it is first */
	unsigned n_lanes;
};

void fair_queue_init(struct fair_queue *l);
/* At the end of its client's lane; nothing happens when it waits already. */
void fair_queue_join(struct fair_queue *l, struct waiter *w, uint32_t client);
/* May be called of one that does not wait. */
void fair_queue_leave(struct waiter *w);
/* The first of the lane whose turn it is; that lane is the last one then. NULL: nobody waits. */
struct waiter *fair_queue_next(struct fair_queue *l);

static inline bool
fair_queue_empty(const struct fair_queue *l)
{
	return l->n_lanes == 0;
}

#endif
