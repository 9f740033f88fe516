#include "tunnel/udp/stream_join.h"

#include <string.h>

#include "tunnel/udp/dgram.h"

struct side {
	struct dgram_couple *couple;
	struct stream *stream;
	struct dgram_reader reader;
};

struct dgram_couple {
	struct loop *loop;
	struct side sides[2];
	struct rate *rates[RELAY_RATES];
	struct timer *timer; /* for reporting the end */
	unsigned lost;
	bool tells, over;
	uint64_t untold; /* dropped, of those from the first side */
	relay_ended_fn *ended;
	void *arg;
	struct relay_report report;
};

/* The owner is told at the next turn. */
static void
dgram_couple_finish(struct dgram_couple *c, unsigned code, const char *why)
{
	c->over = true;
	c->report.why = why;
	stream_close(&c->sides[0].stream, code);
	stream_close(&c->sides[1].stream, code);
	timer_start(c->timer, 0, 0);
}

static bool
dgram_couple_spend(struct dgram_couple *c, size_t n)
{
	uint64_t now = loop_now_ms(c->loop);

	for (size_t i = 0; i < ARRAY_LEN(c->rates); i++)
		if (c->rates[i] != NULL && rate_room(c->rates[i], now) == 0)
			return false;
	for (size_t i = 0; i < ARRAY_LEN(c->rates); i++)
		if (c->rates[i] != NULL)
			rate_spend(c->rates[i], n);
	return true;
}

static void
pass_one(struct side *from, const void *data, size_t n)
{
	struct dgram_couple *c = from->couple;
	bool first = from == &c->sides[0];

	if (!dgram_couple_spend(c, n))
		return;
	if (!dgram_put(c->sides[first ? 1 : 0].stream, data, n))
		c->untold += first && c->tells;
	else
		*(first ? &c->report.to_other : &c->report.to_stream) += n;
}

static void
dgram_couple_tell(struct dgram_couple *c)
{
	if (c->untold > 0 && dgram_tell_dropped(c->sides[0].stream, c->untold))
		c->untold = 0;
}

static void
dgram_couple_pass(struct side *from)
{
	const void *data;
	size_t n;
	int rc;

	while ((rc = dgram_get(&from->reader, from->stream, &data, &n)) > 0)
		pass_one(from, data, n);
	dgram_couple_tell(from->couple);
	if (rc < 0 || stream_spoilt(from->stream))
		dgram_couple_finish(from->couple, STREAM_CANCELLED, "what came is no capsules");
	else if (stream_eof(from->stream))
		dgram_couple_finish(from->couple, STREAM_CANCELLED, "done");
}

static void
on_readable(void *arg)
{
	struct side *s = arg;

	if (!s->couple->over)
		dgram_couple_pass(s);
}

static void
on_reset(void *arg, unsigned code)
{
	struct side *s = arg;

	if (s->couple->over)
		return;
	if (code == STREAM_BROKEN)
		dgram_couple_finish(s->couple, code, "port unreachable");
	else
		dgram_couple_finish(s->couple,
			code == STREAM_LOST ? s->couple->lost : STREAM_CANCELLED,
			code == STREAM_LOST ? "the session has ended" : "done");
}

static const struct stream_events events = {.readable = on_readable, .reset = on_reset};

static void
on_timer(void *arg)
{
	struct dgram_couple *c = arg;

	c->ended(c->arg, &c->report);
}

static struct dgram_couple *
dgram_couple_new(const struct relay_setup *setup, struct stream *other)
{
	struct dgram_couple *c = xcalloc(1, sizeof *c);
	struct stream *streams[] = {setup->stream, other};

	c->loop = setup->loop;
	c->lost = setup->lost != 0 ? setup->lost : STREAM_CANCELLED;
	c->tells = setup->tells;
	c->ended = setup->ended;
	c->arg = setup->arg;
	c->timer = timer_new(c->loop, on_timer, c);
	c->report.status = 200;
	memcpy(c->rates, setup->rates, sizeof c->rates);
	stream_on_fading(other, NULL, NULL);
	for (unsigned i = 0; i < 2; i++) {
		c->sides[i].couple = c;
		c->sides[i].stream = streams[i];
		stream_use(c->sides[i].stream, &events, &c->sides[i]);
	}
	for (unsigned i = 0; i < 2 && !c->over; i++)
		dgram_couple_pass(&c->sides[i]);
	return c;
}

static void
dgram_couple_free(struct dgram_couple **out)
{
	struct dgram_couple *c = take_ptr(out);

	if (c == NULL)
		return;
	for (unsigned i = 0; i < 2; i++) {
		stream_close(&c->sides[i].stream, STREAM_CANCELLED);
		dgram_reader_fini(&c->sides[i].reader);
	}
	timer_free(&c->timer);
	free(c);
}

void
stream_join_init(struct stream_join *j, const struct relay_setup *setup, struct stream *other)
{
	if (stream_is_udp(other))
		j->couple = dgram_couple_new(setup, other);
	else
		j->relay = relay_join_stream(setup, other);
}

void
stream_join_break(struct stream_join *j, const char *why)
{
	if (j->couple == NULL)
		relay_break(j->relay, why);
	else if (!j->couple->over)
		dgram_couple_finish(j->couple, STREAM_CANCELLED, why);
}

void
stream_join_fini(struct stream_join *j)
{
	relay_free(&j->relay);
	dgram_couple_free(&j->couple);
}
