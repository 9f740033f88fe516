#include "dns/front/batching.h"

enum { RATE_MS = 100, BUSY = BATCHING_BUSY_PER_MS * RATE_MS }; /* rates are queries in RATE_MS */

/* Fewer queries come. That is gathering's own doing if it shows soon after we began: then the delay
 * doubles. */
static void
put_off(struct batching *p, uint64_t now_ms)
{
	if (now_ms - p->began_ms < BATCHING_PROVEN_MS && p->put_off_ms > 0)
		p->put_off_ms = MIN(2 * p->put_off_ms, (uint64_t)BATCHING_PUT_OFF_MAX_MS);
	else
		p->put_off_ms = BATCHING_PUT_OFF_MIN_MS;
	p->not_before_ms = now_ms + p->put_off_ms;
}

static void
batching_decide(struct batching *p, uint64_t now_ms, unsigned rate)
{
	p->rate = p->rate == 0 ? rate : (7 * p->rate + rate) / 8;
	if (!p->gathering) {
		if (rate < BUSY) {
			p->rate = 0;
		} else if (now_ms >= p->not_before_ms && p->n < BATCHING_MANY * p->reads) {
			p->gathering = true;
			p->began_ms = now_ms;
			p->usual = p->rate;
			p->rate = 0;
		}
		return;
	}
	p->usual = (63 * p->usual + rate) / 64;
	p->gathering = rate >= BUSY / 2 && p->rate >= p->usual / 8 * 7;
	if (p->gathering)
		return;
	p->rate = 0;
	if (rate >= BUSY / 2)
		put_off(p, now_ms);
}

bool
batching_note(struct batching *p, uint64_t now_ms, unsigned n)
{
	uint64_t took_ms = now_ms - p->since_ms;

	p->n += n;
	p->reads++;
	if (took_ms < BATCHING_WINDOW_MS)
		return p->gathering;
	batching_decide(p, now_ms, (unsigned)((uint64_t)p->n * RATE_MS / took_ms));
	p->since_ms = now_ms;
	p->n = p->reads = 0;
	return p->gathering;
}
