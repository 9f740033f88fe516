/* A hundred thousand dials that nobody waits for: nothing of them is left. And a server that limits
 * them. */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/tunnel/h2/tunnel_bed.h"

static void
on_answered(void *arg, unsigned status, const char *reason)
{
	(void)reason;
	((struct end *)arg)->status = status;
}

static void
on_move(void *arg)
{
	(void)arg;
}

static void
on_reset(void *arg, unsigned code)
{
	struct end *e = arg;

	e->reset = true;
	e->code = code;
	stream_close(&e->st, STREAM_DONE);
}

static const struct stream_events stream_events = {on_answered, on_move, on_move, on_reset};

static size_t
allocated(void)
{
	return mallinfo2().uordblks;
}

enum { WAVE = 500, WAVES = 200 };

struct crowd {
	struct bed b; /* first: take_far gets it */
	struct end near[WAVE], far[WAVE];
	unsigned n_far;
};

static bool
take_far(struct bed *b, struct stream *st)
{
	struct crowd *c = (struct crowd *)b;
	struct end *e = &c->far[c->n_far++ % WAVE];

	memset(e, 0, sizeof *e);
	e->st = st;
	stream_accept(st, &stream_events, e);
	return true;
}

static void
wave(struct crowd *c, int n)
{
	unsigned wanted = c->n_far + (unsigned)n;

	for (int i = 0; i < n; i++)
		bed_open(&c->b, &c->near[i], "a:1");
	bed_until(&c->b, c->n_far == wanted);
	for (int i = 0; i < n; i++)
		stream_close(&c->near[i].st, STREAM_CANCELLED);
	bed_until(&c->b, session_stats(c->b.far)->streams == 0);
}

/* Where a whole wave comes in one read, TLS takes 115 kB of buffers for bulk on each side. They go
 * after some small reads there, which answers are, and are not counted. */
static size_t
allocated_when_quiet(struct crowd *c)
{
	for (int i = 0; i < 20; i++) {
		struct end *near = &c->near[0];

		memset(near, 0, sizeof *near);
		bed_open(&c->b, near, "a:1");
		bed_until(&c->b, c->far[(c->n_far - 1) % WAVE].st != NULL);
		stream_answer(c->far[(c->n_far - 1) % WAVE].st, 200, "");
		bed_until(&c->b, near->status == 200);
		stream_close(&near->st, STREAM_CANCELLED);
		bed_until(&c->b, session_stats(c->b.far)->streams == 0);
	}
	return allocated();
}

static void
test_a_hundred_thousand_cancelled(void **state)
{
	struct crowd *c = xcalloc(1, sizeof *c);
	size_t before;

	(void)state;
	bed_init(&c->b, true);
	c->b.take = take_far;
	for (int i = 0; i < 10; i++)
		wave(c, WAVE); /* what is made at first use is made */
	before = allocated_when_quiet(c);
	for (int i = 10; i < WAVES; i++)
		wave(c, WAVE);
	assert_in_range(c->n_far, WAVE * WAVES, WAVE * WAVES + 100);
	assert_int_equal(session_stats(c->b.near)->streams, 0);
	assert_in_range(allocated_when_quiet(c), 0, before + 64 * 1024);
	assert_int_equal(c->b.near_rc, 1);
	assert_int_equal(c->b.far_rc, 1);
	assert_int_equal(session_stats(c->b.far)->rests, 0);
	bed_fini(&c->b);
	free(c);
}

/* It is read later, and is not cut: four seconds' worth is free. */
static void
test_a_peer_that_gives_up_too_many(void **state)
{
	struct crowd *c = xcalloc(1, sizeof *c);

	(void)state;
	bed_resets_per_s = 4 * WAVE;
	for (int tls = 0; tls < 2; tls++) {
		memset(c, 0, sizeof *c);
		bed_init(&c->b, tls);
		c->b.take = take_far;
		for (int i = 0; i < 16; i++) {
			assert_int_equal(session_stats(c->b.far)->rests, 0);
			wave(c, WAVE);
		}
		while (session_stats(c->b.far)->rests == 0)
			wave(c, WAVE);
		wave(c, 1);
		assert_int_equal(c->b.near_rc, 1);
		assert_int_equal(c->b.far_rc, 1);
		bed_fini(&c->b);
	}
	bed_resets_per_s = 0;
	free(c);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_hundred_thousand_cancelled),
		cmocka_unit_test(test_a_peer_that_gives_up_too_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
