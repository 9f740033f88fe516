/*
 * What the hub's clock says beside ours, and how late its changes are in use here. The hub's
 * messages bear the time at which they were made; those that it makes at once (hello, answers) tell
 * the difference of the clocks, the way of a message included; of changes one at a time is followed
 * until it is committed. Part of the feed; loop 0 only.
 */
#ifndef EDGEWAY_META_CLIENT_HUBTIME_H
#define EDGEWAY_META_CLIENT_HUBTIME_H

#include <stdbool.h>
#include <stdint.h>

struct hubtime {
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
void hubtime_told(struct hubtime *t, uint64_t sent_ms);
void hubtime_change(struct hubtime *t, const char *id, uint64_t sent_ms);
void hubtime_committed(struct hubtime *t, const char *id);
/* The connection has ended: what was followed comes no more. */
void hubtime_closed(struct hubtime *t);

#endif
