/*
 * A rate of bytes that several connections share (a token bucket): who wants to move some asks how
 * many may go now, and says how many went. Unused room adds up for RATE_BURST_MS. Plain data; the
 * caller brings the time. Not thread-safe.
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
	uint64_t per_s; /* bytes; 0: no bound */
	int64_t room; /* bytes that may go; < 0: more went, and is waited for */
	uint64_t at_ms; /* as of when */
	uint64_t *waits; /* counted when nothing may go; NULL: not */
};

/* SIZE_MAX without a bound; else 0 or at least RATE_PIECE. */
size_t rate_room(struct rate *r, uint64_t now_ms);
/* Has all been waited for that went: does it allow a whole burst again, as one that was never
 * used? */
bool rate_rested(struct rate *r, uint64_t now_ms);
/* n: may be more than rate_room has said, where it could not be known before. */
void rate_spend(struct rate *r, size_t n);

#endif
