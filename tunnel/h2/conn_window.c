#include "tunnel/h2/conn_window.h"

enum {
	GROW_RTT = 2, /* a window that arrives within this many round trips is too small */
	SAMPLES = 8, /* the shortest of this many samples counts: a busy machine answers late */
	ENOUGH = 4, /* no window grows before there are this many samples */
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

	*ask = false;
	r->came += n;
	if (r->came < r->window)
		return false;
	r->came = 0;
	r->mark_ms = now_ms;
	if (r->window > CONN_WINDOW_LEAST && rtt_ms < r->fitted_ms / 2) {
		r->window = CONN_WINDOW_LEAST; /* the path is shorter than assumed */
		return true;
	}
	if (r->window >= CONN_WINDOW_MOST || took >= (uint64_t)GROW_RTT * rtt_ms)
		return false;
	*ask = true;
	if (r->samples < ENOUGH)
		return false;
	r->fitted_ms = rtt_ms;
	r->window = MIN(2 * r->window, (size_t)CONN_WINDOW_MOST);
	return true;
}
