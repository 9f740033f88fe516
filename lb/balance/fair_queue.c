#include "lb/balance/fair_queue.h"

struct lane {
	struct node node; /* in line->lanes */
	struct node waiters;
	struct fair_queue *line;
	uint32_t client;
};

void
fair_queue_init(struct fair_queue *l)
{
	list_init(&l->lanes);
	l->n_lanes = 0;
}

/* A new lane is served last: its client has not waited yet. */
static struct lane *
lane_of(struct fair_queue *l, uint32_t client)
{
	struct lane *lane;

	for (struct node *n = l->lanes.next; n != &l->lanes; n = n->next) {
		lane = container_of(n, struct lane, node);
		if (lane->client == client)
			return lane;
	}
	lane = xcalloc(1, sizeof *lane);
	list_init(&lane->waiters);
	lane->line = l;
	lane->client = client;
	list_add_before(&l->lanes, &lane->node);
	l->n_lanes++;
	return lane;
}

void
fair_queue_join(struct fair_queue *l, struct waiter *w, uint32_t client)
{
	if (w->lane != NULL)
		return;
	w->lane = lane_of(l, client);
	list_add_before(&w->lane->waiters, &w->node);
}

void
fair_queue_leave(struct waiter *w)
{
	struct lane *lane = take_ptr(&w->lane);

	if (lane == NULL)
		return;
	list_del(&w->node);
	if (!list_empty(&lane->waiters))
		return;
	list_del(&lane->node);
	lane->line->n_lanes--;
	free(lane);
}

struct waiter *
fair_queue_next(struct fair_queue *l)
{
	struct lane *lane;

	if (fair_queue_empty(l))
		return NULL;
	lane = container_of(l->lanes.next, struct lane, node);
	list_del(&lane->node);
	list_add_before(&l->lanes, &lane->node);
	return container_of(lane->waiters.next, struct waiter, node);
}
