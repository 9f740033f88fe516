#include "tunnel/h2/stream_join.h"

/* One of the two streams, and the bytes from it to the other. */
struct side {
	struct stream_join *couple;
	struct stream *stream;
	bool passed_end; /* it has half-closed, and the other stream was told */
};

struct stream_join {
	struct loop *loop;
	struct side sides[2];
	struct rate *rate;
	struct timer *timer; /* for reporting the end, or for resuming when the rate allows */
	bool over;
	void (*ended)(void *arg, const struct stream_join_report *report);
	void *arg;
	struct stream_join_report report;
};

static struct side *
stream_join_other(struct side *s)
{
	struct stream_join *c = s->couple;

	return s == &c->sides[0] ? &c->sides[1] : &c->sides[0];
}

/* The owner is told at the next turn. */
static void
stream_join_finish(struct stream_join *c, unsigned code, const char *why)
{
	c->over = true;
	c->report.why = why;
	c->report.whole = code == STREAM_DONE;
	stream_close(&c->sides[0].stream, code);
	stream_close(&c->sides[1].stream, code);
	timer_start(c->timer, 0, 0);
}

static size_t
stream_join_allowed(struct stream_join *c)
{
	size_t n = c->rate != NULL ? rate_room(c->rate, loop_now_ms(c->loop)) : SIZE_MAX;

	if (n == 0 && !timer_active(c->timer))
		timer_start(c->timer, RATE_WAIT_MS, 0);
	return n;
}

/* From one side to the other, as much as fits. */
static void
stream_join_pass(struct side *from)
{
	struct stream_join *c = from->couple;
	struct stream *to = stream_join_other(from)->stream;
	const void *data;
	size_t n;

	while ((n = stream_peek(from->stream, &data)) > 0) {
		n = MIN(n, stream_room(to));
		n = n > 0 ? MIN(n, stream_join_allowed(c)) : 0;
		if (n == 0)
			return;
		stream_write(to, data, n);
		stream_consume(from->stream, n);
		if (c->rate != NULL)
			rate_spend(c->rate, n);
		c->report.bytes[from == &c->sides[1]] += n;
	}
	if (stream_spoilt(from->stream)) {
		stream_join_finish(c, STREAM_BROKEN, "what came cannot be expanded");
	} else if (stream_eof(from->stream) && !from->passed_end) {
		from->passed_end = true;
		stream_end(to);
	}
}

static void
pass_both(struct stream_join *c)
{
	if (!c->over)
		stream_join_pass(&c->sides[0]);
	if (!c->over)
		stream_join_pass(&c->sides[1]);
	if (!c->over && c->sides[0].passed_end && c->sides[1].passed_end)
		stream_join_finish(c, STREAM_DONE, "done");
}

static void
on_moved(void *arg)
{
	pass_both(((struct side *)arg)->couple);
}

static void
on_timer(void *arg)
{
	struct stream_join *c = arg;

	if (c->over)
		c->ended(c->arg, &c->report);
	else
		pass_both(c);
}

static void
on_reset(void *arg, unsigned code)
{
	struct side *s = arg;

	if (!s->couple->over)
		stream_join_finish(s->couple,
			code == STREAM_CANCELLED ? STREAM_CANCELLED : STREAM_BROKEN,
			code == STREAM_LOST ? "the session has ended" : "the stream was reset");
}

static void
on_answered(void *arg, unsigned status, const char *reason)
{
	(void)arg; /* the owner of the stream was told before the join */
	(void)status;
	(void)reason;
}

static const struct stream_events events = {
	.answered = on_answered,
	.readable = on_moved,
	.writable = on_moved,
	.reset = on_reset,
};

struct stream_join *
stream_join_new(const struct stream_join_setup *setup)
{
	struct stream_join *c = xcalloc(1, sizeof *c);

	c->loop = setup->loop;
	c->rate = setup->rate;
	c->ended = setup->ended;
	c->arg = setup->arg;
	c->timer = timer_new(c->loop, on_timer, c);
	for (unsigned i = 0; i < 2; i++) {
		c->sides[i].couple = c;
		c->sides[i].stream = setup->streams[i];
		stream_use(c->sides[i].stream, &events, &c->sides[i]);
	}
	pass_both(c);
	return c;
}

struct stream *
stream_join_stream(const struct stream_join *c, unsigned which)
{
	return c->sides[which].stream;
}

void
stream_join_free(struct stream_join **out)
{
	struct stream_join *c = take_ptr(out);

	if (c == NULL)
		return;
	stream_close(&c->sides[0].stream, STREAM_CANCELLED);
	stream_close(&c->sides[1].stream, STREAM_CANCELLED);
	timer_free(&c->timer);
	free(c);
}
