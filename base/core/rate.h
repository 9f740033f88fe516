/*
 * A byte rate that several connections share (a token bucket): the caller asks how many bytes may
 * go now, and reports how many went. Unused tokens accumulate for RATE_BURST_MS. Plain data; the
 * caller passes the time. From any thread; what several ask for at once may exceed the rate for a
 * moment, and is a debt then.
 *
 *	if ((n = MIN(n, rate_room(&rate, now))) == 0)	// again after RATE_WAIT_MS
 *	rate_spend(&rate, n);
 */
#ifndef EDGEWAY_BASE_CORE_RATE_H
#define EDGEWAY_BASE_CORE_RATE_H

#include "base/core/util.h"

enum {
	RATE_BURST_MS = 100,
	RATE_BURST_LEAST = 16 * 1024, /* bytes */
	RATE_PIECE = 1024, /* bytes; less is not worth a system call */
	RATE_WAIT_MS = 10,
};

struct rate {
	_Atomic uint64_t per_s; /* bytes; 0: no limit */
	int64_t room; /* bytes that may go; < 0: a debt to wait for */
	uint64_t at_ms; /* time of `room` */
	_Atomic uint64_t *waits; /* incremented when nothing may go; NULL: not counted */
};

/* SIZE_MAX without a limit; else 0 or at least RATE_PIECE. */
size_t rate_room(struct rate *r, uint64_t now_ms);
/* Does it allow a whole burst again, as if it had never been used? */
bool rate_rested(struct rate *r, uint64_t now_ms);
/* n: may exceed rate_room's result where the size was not known before. */
void rate_spend(struct rate *r, size_t n);

/* Events one by one: `burst` at once, then per_s a second. All zeros: none has been yet. Not
 * thread-safe. */
struct rate_count {
	double used; /* of the burst */
	uint64_t at_ms; /* time of `used` */
};

/* How many of the burst are used up now. */
double rate_count_used(struct rate_count *r, unsigned per_s, uint64_t now_ms);
bool rate_count_take(struct rate_count *r, unsigned per_s, unsigned burst, uint64_t now_ms);

#endif
