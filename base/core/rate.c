#include "base/core/rate.h"

#include <pthread.h>

enum { LONGEST_MS = 60 * 1000 /* longest time credited; longer than any bucket takes to fill */ };

/* Of every rate with a limit. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Adds the tokens earned until now and returns the bucket's capacity. Locked. */
static int64_t
rate_refill(struct rate *r, uint64_t per_s, uint64_t now_ms)
{
	int64_t most = (int64_t)MAX(per_s * RATE_BURST_MS / 1000, (uint64_t)RATE_BURST_LEAST);
	int64_t more;

	if (r->at_ms == 0) { /* never used */
		r->room = most;
		r->at_ms = now_ms;
	}
	more = now_ms > r->at_ms
		? (int64_t)(MIN(now_ms - r->at_ms, (uint64_t)LONGEST_MS) * per_s / 1000)
		: 0;
	if (more > 0) { /* a fraction of a byte is not lost: at_ms stays */
		r->room = MIN(r->room + more, most);
		r->at_ms = now_ms;
	}
	return most;
}

size_t
rate_room(struct rate *r, uint64_t now_ms)
{
	const uint64_t per_s = r->per_s;
	int64_t room;

	if (per_s == 0)
		return SIZE_MAX;
	pthread_mutex_lock(&lock);
	rate_refill(r, per_s, now_ms);
	room = r->room;
	pthread_mutex_unlock(&lock);
	if (room >= RATE_PIECE)
		return (size_t)room;
	if (r->waits != NULL)
		++*r->waits;
	return 0;
}

void
rate_spend(struct rate *r, size_t n)
{
	if (r->per_s == 0)
		return;
	pthread_mutex_lock(&lock);
	r->room -= (int64_t)n;
	pthread_mutex_unlock(&lock);
}

bool
rate_rested(struct rate *r, uint64_t now_ms)
{
	const uint64_t per_s = r->per_s;
	bool rested;

	if (per_s == 0)
		return true;
	pthread_mutex_lock(&lock);
	rested = rate_refill(r, per_s, now_ms) <= r->room;
	pthread_mutex_unlock(&lock);
	return rested;
}

double
rate_count_used(struct rate_count *r, unsigned per_s, uint64_t now_ms)
{
	double earned = now_ms > r->at_ms ? (double)(now_ms - r->at_ms) * per_s / 1000 : 0;

	r->used = MAX(r->used - earned, 0.0);
	r->at_ms = MAX(r->at_ms, now_ms);
	return r->used;
}

bool
rate_count_take(struct rate_count *r, unsigned per_s, unsigned burst, uint64_t now_ms)
{
	if (rate_count_used(r, per_s, now_ms) + 1 > burst)
		return false;
	r->used += 1;
	return true;
}
