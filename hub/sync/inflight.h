/*
 * A session's messages under way, each found again by the id that its acknowledgement names. They
 * take memory only while there are any. Part of hub/sync/node_session; pure.
 *
 *	inflight_begin(&f, &(struct flight){.item = item, .sent_ms = now}, id);	// id: of the message
 *	flight = inflight_find(&f, parent);	// NULL: not one of ours, or answered before
 *	inflight_end(&f, flight);
 */
#ifndef EDGEWAY_HUB_SYNC_INFLIGHT_H
#define EDGEWAY_HUB_SYNC_INFLIGHT_H

#include "hub/sync/fanout.h"

enum {
	INFLIGHT_MOST = 256,
	INFLIGHT_BYTES = 1
		/* then nothing follows: a node has all of it in memory until it is written */
		<< 20,
};

/* A message under way. */
struct flight {
	struct fanout_item *item; /* NULL: free */
	uint32_t seq;
	bool present; /* an update, else a delete */
	size_t len; /* of the frame */
	uint64_t digest, sent_ms;
};

/* A msg_id is the prefix, then seq and slot in hex. */
struct inflight {
	struct flight *slot; /* grown up to INFLIGHT_MOST; NULL while nothing is under way */
	unsigned n_slots, n;
	size_t bytes; /* of all that is under way */
	uint32_t seq;
	char prefix[25]; /* first 24 characters of every msg_id */
};

void inflight_init(struct inflight *f);
static inline bool
inflight_room(const struct inflight *f)
{
	return f->n < INFLIGHT_MOST && f->bytes < INFLIGHT_BYTES;
}

/* There is room. `seq` of the flight is given here. */
void inflight_begin(struct inflight *f, const struct flight *flight, char id[FANOUT_ID_LEN + 1]);
/* The one that a parent id means; NULL: not one of ours, or answered before. */
struct flight *inflight_find(struct inflight *f, const char *parent);
/* One that has been under way for `most_ms` or longer; NULL: none. */
const struct flight *inflight_late(const struct inflight *f, uint64_t now_ms, uint64_t most_ms);
void inflight_end(struct inflight *f, struct flight *flight);
/* Ends any of them: its item. NULL: there is none. */
struct fanout_item *inflight_take(struct inflight *f);
/* Gives the memory back when nothing is under way. */
void inflight_rest(struct inflight *f);

#endif
