#include "tunnel/h2/conn_window.h"

enum {
	/* A window of which more than half arrives in a round trip is too small: it becomes so many
	 * times what that brought. */
	GROW_TIMES = 4,
	SAMPLES = 8, /* the shortest of this many samples counts: a busy machine answers late */
	ENOUGH = 4, /* no window grows before there are this many samples, */
	BULK_PART = 16, /* which are asked for once a round trip brings so much of it */
};

void
conn_window_init(struct conn_window *r, uint64_t now_ms)
{
	*r = (struct conn_window){.window = CONN_WINDOW_LEAST, .mark_ms = now_ms};
}

void
conn_window_sample(struct conn_window *r, unsigned rtt_ms)
{
	if (r->samples % SAMPLES == 0) {
		r->rtt_ms[1] = r->samples == 0 ? rtt_ms : r->rtt_ms[0];
		r->rtt_ms[0] = rtt_ms;
	}
	r->rtt_ms[0] = MIN(r->rtt_ms[0], rtt_ms);
	r->samples++;
}

unsigned
conn_window_rtt(const struct conn_window *r)
{
	return MIN(r->rtt_ms[0], r->rtt_ms[1]);
}

bool
conn_window_came(struct conn_window *r, size_t n, uint64_t now_ms, bool *ask)
{
	uint64_t took = now_ms - r->mark_ms;
	unsigned rtt_ms = conn_window_rtt(r);
	uint64_t each; /* in a round trip */

	*ask = false;
	r->came += n;
	if (r->came < r->window && took < rtt_ms)
		return false;
	each = r->came * (uint64_t)rtt_ms / MAX(took, (uint64_t)MAX(rtt_ms, 1U));
	r->came = 0;
	r->mark_ms = now_ms;
	if (r->window > CONN_WINDOW_LEAST && rtt_ms < r->fitted_ms / 2) {
		r->window = CONN_WINDOW_LEAST; /* the path is shorter than assumed */
		return true;
	}
	if (r->window >= CONN_WINDOW_MOST)
		return false;
	*ask = each > r->window / (r->samples < ENOUGH ? BULK_PART : 2);
	if (r->samples < ENOUGH || each <= r->window / 2)
		return false;
	r->fitted_ms = rtt_ms;
	r->window = (size_t)MIN(GROW_TIMES * each, (uint64_t)CONN_WINDOW_MOST);
	return true;
}
