#include "tunnel/h2/reception.h"

enum {
	GROW_RTT = 2, /* a window that has come within so many round trips is narrow */
	SAMPLES = 8, /* the shortest of so many counts: a busy machine answers late */
	ENOUGH = 4, /* and no window grows before there are so many */
};

void
reception_init(struct reception *r, uint64_t now_ms)
{
	*r = (struct reception){.window = RECEPTION_LEAST, .mark_ms = now_ms};
}

void
reception_sample(struct reception *r, unsigned rtt_ms)
{
	if (r->samples % SAMPLES == 0) {
		r->rtt_ms[1] = r->samples == 0 ? rtt_ms : r->rtt_ms[0];
		r->rtt_ms[0] = rtt_ms;
	}
	r->rtt_ms[0] = MIN(r->rtt_ms[0], rtt_ms);
	r->samples++;
}

unsigned
reception_rtt(const struct reception *r)
{
	return MIN(r->rtt_ms[0], r->rtt_ms[1]);
}

bool
reception_came(struct reception *r, size_t n, uint64_t now_ms, bool *ask)
{
	uint64_t took = now_ms - r->mark_ms;
	unsigned rtt_ms = reception_rtt(r);

	*ask = false;
	r->came += n;
	if (r->came < r->window)
		return false;
	r->came = 0;
	r->mark_ms = now_ms;
	if (r->window > RECEPTION_LEAST && rtt_ms < r->fitted_ms / 2) {
		r->window = RECEPTION_LEAST; /* the way is shorter than it was taken for */
		return true;
	}
	if (r->window >= RECEPTION_MOST || took >= (uint64_t)GROW_RTT * rtt_ms)
		return false;
	*ask = true;
	if (r->samples < ENOUGH)
		return false;
	r->fitted_ms = rtt_ms;
	r->window *= 2;
	return true;
}
