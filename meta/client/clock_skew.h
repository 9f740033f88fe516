/*
 * Measures the difference between the hub's clock and ours, and how late the hub's changes take
 * effect here. The hub's messages carry the time at which they were created. Messages that it
 * creates and sends at once (hello, answers) show the clock difference, including the transit time
 * of the message. One change at a time is followed until it is committed. Part of the hub client;
 * loop 0 only.
 */
#ifndef EDGEWAY_META_CLIENT_CLOCK_SKEW_H
#define EDGEWAY_META_CLIENT_CLOCK_SKEW_H

#include <stdbool.h>
#include <stdint.h>

struct clock_skew {
	bool known;
	int64_t ahead_ms; /* hub's clock minus ours; < 0: ours is ahead */
	uint64_t told_ms; /* mono_ms of that measurement */
	uint64_t wall_ms; /* our clock at that moment */
	char followed[37]; /* id of the change being followed, "": none */
	uint64_t arrived_ms; /* mono_ms */
	uint64_t way_ms;
	uint64_t lag_ms; /* of the last followed change */
	uint64_t changes; /* number of followed changes */
};

/* sent_ms: since 1970, by the hub's clock; 0: not given. */
void clock_skew_told(struct clock_skew *t, uint64_t sent_ms);
/* As ahead_ms, but since then our clock may have been set: says what the difference is now. */
int64_t clock_skew_ahead_ms(const struct clock_skew *t);
void clock_skew_change(struct clock_skew *t, const char *id, uint64_t sent_ms);
void clock_skew_committed(struct clock_skew *t, const char *id);
/* The connection has ended: the followed change will not be committed. */
void clock_skew_closed(struct clock_skew *t);

#endif
