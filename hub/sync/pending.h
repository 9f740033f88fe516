/*
 * What one session still has to send, and what it knows of each item of the fanout: a byte an item
 * and a queue of their numbers, each at most once in it. An item that waits or is under way is
 * held, so its number stays its own. Part of hub/sync/node_session.
 *
 *	pending_add(&p, item);			// waits; nothing when it waits already
 *	while ((item = pending_pop(&p)) != NULL)	// is under way now
 *		...send...
 */
#ifndef EDGEWAY_HUB_SYNC_PENDING_H
#define EDGEWAY_HUB_SYNC_PENDING_H

#include "hub/sync/fanout.h"

enum {
	PENDING_WAITS =
		1, /* to be sent; in the queue unless it is also under way; holds the item */
	PENDING_FLIGHT = 2, /* sent, not acknowledged; holds the item */
	PENDING_REFUSED = 4, /* the node refused it as it is: not again until it changes */
	PENDING_SEEN = 8, /* only within one comparison */
};

struct pending {
	struct fanout *fanout;
	uint8_t *state; /* by item index */
	uint32_t n_state;
	uint32_t *queue; /* ring of item indices */
	uint32_t room, head, n;
	uint64_t pushed, popped; /* ever */
};

void pending_init(struct pending *p, struct fanout *f);
/* The queue must be empty and nothing under way. */
void pending_fini(struct pending *p);
/* Valid until the next call with another item. */
uint8_t *pending_state(struct pending *p, const struct fanout_item *item);
/* The item is to be sent, unless it waits already; behind its own message under way, if there is
 * one. */
void pending_add(struct pending *p, struct fanout_item *item);
/* An item that waited behind its own message joins the queue. */
void pending_again(struct pending *p, const struct fanout_item *item);
/* When nothing waits, is under way or was refused: gives the memory back until something is. */
void pending_rest(struct pending *p);
/* The next one; from waiting to under way, the hold goes along. NULL: none. */
struct fanout_item *pending_pop(struct pending *p);

#endif
