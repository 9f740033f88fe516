/*
 * The items that one session still has to send, and its state for each item of the fanout: one byte
 * per item, and a queue of item numbers without duplicates. An item that waits or is unacknowledged
 * is held, so its number does not change. Part of hub/sync/node_session.
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
		1, /* to be sent; in the queue unless it is also unacknowledged; holds the item */
	PENDING_FLIGHT = 2, /* sent, not acknowledged; holds the item */
	PENDING_REFUSED = 4, /* the node refused it as it is: not sent again until it changes */
	PENDING_SEEN = 8, /* used only within one comparison */
};

struct pending {
	struct fanout *fanout;
	uint8_t *state; /* by item index */
	uint32_t n_state;
	uint32_t *queue; /* ring of item indices */
	uint32_t room, head, n;
	uint64_t pushed, popped; /* totals since the start */
};

void pending_init(struct pending *p, struct fanout *f);
/* The queue must be empty and nothing unacknowledged. */
void pending_fini(struct pending *p);
/* Valid until the next call with another item. */
uint8_t *pending_state(struct pending *p, const struct fanout_item *item);
/* Queues the item, after its own unacknowledged message if there is one. False: it waits already,
 * and its newest state is what will be sent. */
bool pending_add(struct pending *p, struct fanout_item *item);
/* An item that waited for its own message's acknowledgement enters the queue. */
void pending_again(struct pending *p, const struct fanout_item *item);
/* Frees the memory if nothing waits, is unacknowledged or was refused; it is allocated again when
 * needed. */
void pending_rest(struct pending *p);
/* Returns the next item and marks it as sent; the hold stays. NULL: none. */
struct fanout_item *pending_pop(struct pending *p);

#endif
