#include "dns/front/batching.h"

enum { RATE_MS = 100, BUSY = BATCHING_BUSY_PER_MS * RATE_MS }; /* rates are queries in RATE_MS */

/* Gathering did no good. The delay doubles if that happened soon after the last attempt began. */
static void
put_off(struct batching *p, uint64_t now_ms)
{
	if (now_ms - p->began_ms < 10 * p->put_off_ms)
		p->put_off_ms = MIN(2 * p->put_off_ms, (uint64_t)BATCHING_PUT_OFF_MAX_MS);
	else
		p->put_off_ms = BATCHING_PUT_OFF_MIN_MS;
	p->not_before_ms = now_ms + p->put_off_ms;
}

static void
batching_decide(struct batching *p, uint64_t now_ms, unsigned rate)
{
	if (!p->gathering) {
		if (rate < BUSY || now_ms < p->not_before_ms)
			return;
		p->gathering = true;
		p->began_ms = now_ms;
		p->best = rate;
	} else if (rate < BUSY / 2) {
		p->gathering = false;
	} else if (rate < p->best / 4 * 3) {
		p->gathering = false;
		put_off(p, now_ms);
	} else {
		p->best = MAX(p->best, rate);
	}
}

bool
batching_note(struct batching *p, uint64_t now_ms, unsigned n)
{
	uint64_t took_ms = now_ms - p->since_ms;

	p->n += n;
	if (took_ms < BATCHING_WINDOW_MS)
		return p->gathering;
	batching_decide(p, now_ms, (unsigned)((uint64_t)p->n * RATE_MS / took_ms));
	p->since_ms = now_ms;
	p->n = 0;
	return p->gathering;
}
