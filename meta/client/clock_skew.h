/*
 * What the hub's clock says beside ours, and how late its changes are in use here. The hub's
 * messages bear the time at which they were made; those that it makes at once (hello, answers) tell
 * the difference of the clocks, the way of a message included; of changes one at a time is followed
 * until it is committed. Part of the feed; loop 0 only.
 */
#ifndef EDGEWAY_META_CLIENT_CLOCK_SKEW_H
#define EDGEWAY_META_CLIENT_CLOCK_SKEW_H

#include <stdbool.h>
#include <stdint.h>

struct clock_skew {
	bool known;
	int64_t ahead_ms; /* of the hub's clock, < 0: ours is */
	uint64_t told_ms; /* mono_ms of that */
	char followed[37]; /* id of a change, "": none is */
	uint64_t arrived_ms; /* mono_ms */
	uint64_t way_ms;
	uint64_t lag_ms; /* of the last change that was followed */
	uint64_t changes; /* that were */
};

/* sent_ms: since 1970, by the hub's clock; 0: it does not say. */
void clock_skew_told(struct clock_skew *t, uint64_t sent_ms);
void clock_skew_change(struct clock_skew *t, const char *id, uint64_t sent_ms);
void clock_skew_committed(struct clock_skew *t, const char *id);
/* The connection has ended: what was followed comes no more. */
void clock_skew_closed(struct clock_skew *t);

#endif
