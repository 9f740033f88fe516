/*
 * A session's unacknowledged messages, found by the id that the acknowledgement names. They use
 * memory only while there are any. Part of hub/sync/node_session; pure.
 *
 *	inflight_begin(&f, &(struct flight){.item = item, .sent_ms = now}, id);	// id: msg_id
 *	flight = inflight_find(&f, parent);	// NULL: not one of ours, or answered before
 *	inflight_end(&f, flight);
 */
#ifndef EDGEWAY_HUB_SYNC_INFLIGHT_H
#define EDGEWAY_HUB_SYNC_INFLIGHT_H

#include "hub/sync/fanout.h"

enum {
	INFLIGHT_MOST = 256,
	INFLIGHT_BYTES = 1
		/* limit: a node has all of it in memory until it is written */
		<< 20,
};

/* An unacknowledged message. */
struct flight {
	struct fanout_item *item; /* NULL: free */
	uint32_t seq;
	bool present; /* an update, else a delete */
	size_t len; /* of the frame */
	uint64_t digest, sent_ms;
};

/* A msg_id is the prefix, then seq and slot in hex. */
struct inflight {
	struct flight *slot; /* grows up to INFLIGHT_MOST; NULL while there are no messages */
	unsigned n_slots, n;
	size_t bytes; /* of all unacknowledged messages */
	uint32_t seq;
	char prefix[25]; /* first 24 characters of every msg_id */
};

void inflight_init(struct inflight *f);
static inline bool
inflight_room(const struct inflight *f)
{
	return f->n < INFLIGHT_MOST && f->bytes < INFLIGHT_BYTES;
}

/* Call only if inflight_room. Sets `seq` of the flight. */
void inflight_begin(struct inflight *f, const struct flight *flight, char id[FANOUT_ID_LEN + 1]);
/* The message with the parent id; NULL: not one of ours, or already acknowledged. */
struct flight *inflight_find(struct inflight *f, const char *parent);
/* A message unacknowledged for `most_ms` or longer; NULL: none. */
const struct flight *inflight_late(const struct inflight *f, uint64_t now_ms, uint64_t most_ms);
void inflight_end(struct inflight *f, struct flight *flight);
/* Ends any of them and returns its item; NULL: there is none. */
struct fanout_item *inflight_take(struct inflight *f);
/* Frees the memory if no message is unacknowledged. */
void inflight_rest(struct inflight *f);

#endif
