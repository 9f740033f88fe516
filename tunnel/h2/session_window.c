/* Receive windows: of streams, for what their owners may still consume, and of the connection, for
 * what is in flight. */
#include "tunnel/h2/session_private.h"

enum {
	/* a window that is used up within this many round trips grows */
	GROW_RTT = 2,
	GROW_MS = 4, /* more, for a busy processor */
	GROW_TIMES = 8, /* or four times or twice: TCP knows the path already */
	/* where a slow reader takes longer than SHRINK_RTT for one, what it takes in NEED_RTT will
	 * do */
	SHRINK_RTT = 8,
	NEED_RTT = 4,
	SLOW_MS = 10, /* of a shorter round trip */
	BACK_PART = 8, /* of a window is given back at a time (h2_hold) */
};

/* --- the connection ------------------------------------------------------------------------- */

void
session_ping(struct session *s)
{
	h2_ping(s->h2, NULL);
	session_ping_sent(s);
	session_kick(s);
}

void
session_ping_sent(struct session *s)
{
	s->ping_ms = loop_now_ms(s->loop);
	s->idle_ms = 0;
	if (s->dry_ms != 0)
		s->dry_ms = s->ping_ms;
	s->stats.pings++;
}

void
session_wire_dry(struct session *s, bool dry)
{
	uint64_t now = loop_now_ms(s->loop);

	if (!dry && s->dry_ms != 0)
		s->idle_ms += now - s->dry_ms;
	if (!dry)
		s->dry_ms = 0;
	else if (s->dry_ms == 0)
		s->dry_ms = now;
}

/* Time that the answer spent in our own socket behind other input is not part of the round trip:
 * the sample counts only if the socket was empty most of the time. */
void
session_ping_answered(struct session *s)
{
	uint64_t took = loop_now_ms(s->loop) - s->ping_ms;

	s->stats.rtt_ms = (unsigned)took;
	if (2 * s->idle_ms >= took)
		conn_window_sample(&s->reception, (unsigned)took);
	s->ping_ms = 0;
}

void
session_window_init(struct session *s)
{
	conn_window_init(&s->reception, loop_now_ms(s->loop));
	session_wire_dry(s, true);
	h2_window(s->h2, 0, s->reception.window);
}

/* The other end hears of it at once, whatever else there is to send. */
static void
tell_window(struct session *s, int32_t id, size_t window)
{
	h2_window(s->h2, id, window);
	session_kick(s);
}

void
session_received(struct session *s, size_t n)
{
	bool ask;

	if (conn_window_came(&s->reception, n, loop_now_ms(s->loop), &ask))
		tell_window(s, 0, s->reception.window);
	if (ask && s->ping_ms == 0)
		session_ping(s);
}

/* --- streams -------------------------------------------------------------------------------- */

static void
set_window(struct stream *st, size_t window)
{
	struct session *s = st->session;

	if (window == st->window)
		return;
	s->budget->granted += window;
	s->budget->granted -= st->window;
	st->window = window;
	tell_window(s, st->id, window);
}

void
stream_holds(struct stream *st, size_t n)
{
	stream_keeps(st, &st->session->budget->held, n);
	/* what one turn reads, no reader has had the time to take */
	st->waited |= st->in.len > st->window / 2 + SESSION_TURN;
}

/* The widest step for which there is memory, and a quarter of the present window for others. */
static size_t
window_wider(const struct stream *st, size_t room)
{
	const size_t most = MIN(2 * st->session->reception.window, (size_t)STREAM_WINDOW_MAX);

	for (size_t times = GROW_TIMES; times > 1; times /= 2) {
		size_t wide = MIN(times * st->window, most);

		if (wide > st->window && wide - st->window + st->window / 4 <= room)
			return wide;
	}
	return st->window;
}

/* Called once a window's worth was consumed, but for what may be on its way back to the writer: was
 * the window the bottleneck, or the reader? */
static void
fit_window(struct stream *st)
{
	const struct session_budget *b = st->session->budget;
	uint64_t now = loop_now_ms(st->session->loop), took = now - st->mark_ms;
	const uint64_t rtt = conn_window_rtt(&st->session->reception),
		       slow = MAX(rtt, (uint64_t)SLOW_MS);
	size_t used = budget_used(b), next = st->window;

	if (used > b->limit)
		next /= 2;
	else if (st->waited && took > SHRINK_RTT * slow)
		next = (size_t)(next * NEED_RTT * slow / took);
	else if (!st->waited && took <= GROW_RTT * rtt + GROW_MS)
		next = window_wider(st, b->limit - used);
	st->consumed = 0;
	st->mark_ms = now;
	st->waited = false;
	set_window(st, MAX(next, (size_t)STREAM_WINDOW_BASE));
}

void
stream_took(struct stream *st, size_t n)
{
	struct session *s = st->session;

	chain_consume(&st->in, n);
	if (s == NULL)
		return;
	stream_gives(st, &s->budget->held, n);
	if (st->id == 0 || st->far_ended || n == 0)
		return;
	st->consumed += n;
	if (st->consumed >= st->window - st->window / BACK_PART)
		fit_window(st);
	if (h2_hold(s->h2, st->id, st->in.len))
		session_kick(s);
}
