/* A hundred thousand dials that nobody waits for: nothing of them is left. And a server that limits
 * them, a client whose transport takes none, and more at once than the server takes. */
#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "tests/unit/tunnel/h2/tunnel_bed.h"
#include "tunnel/h2/session_private.h"

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

static unsigned events;
static transport_fn *told;

static void
on_event(void *arg)
{
	events++;
	told(arg);
}

/* Whoever breaks the connection off meanwhile is gone at the first event, as that would come again
 * and again. */
static void
test_a_peer_that_is_gone_meanwhile(void **state)
{
	const struct linger none = {.l_onoff = 1};
	struct crowd *c = xcalloc(1, sizeof *c);
	struct transport *wire;

	(void)state;
	bed_resets_per_s = 1;
	bed_init(&c->b, true);
	c->b.take = take_far;
	for (int i = 0; i < WAVE; i++)
		bed_open(&c->b, &c->near[i], "a:1");
	bed_until(&c->b, c->n_far == WAVE);
	for (int i = 0; i < WAVE; i++)
		stream_close(&c->near[i].st, STREAM_CANCELLED);
	bed_until(&c->b, session_stats(c->b.far)->rests > 0); /* for minutes */
	told = c->b.far->wire->on;
	c->b.far->wire->on = on_event;
	wire = c->b.near->wire;
	assert_int_equal(
		setsockopt(wire->ops->fd(wire), SOL_SOCKET, SO_LINGER, &none, sizeof none), 0);
	session_free(&c->b.near);
	bed_until(&c->b, c->b.far_rc != 1);
	assert_int_equal(c->b.far_rc, -ECONNRESET);
	assert_string_equal(c->b.far_why, "Connection reset by peer");
	assert_int_equal(events, 1);
	bed_fini(&c->b);
	bed_resets_per_s = 0;
	free(c);
}

/* While the transport takes nothing, those that were given up keep the next one out. */
static void
test_given_up_before_they_leave(void **state)
{
	static const struct stream_request request = {.authority = "a:1"};
	struct stream *st;
	struct bed b;
	int n = 0;

	(void)state;
	bed_init_limits(&b, false, 1 << 20, 1 << 20);
	while (session_open(b.near, &request, &stream_events, NULL, &st) == 0 && n < 10 * WAVE) {
		stream_close(&st, STREAM_CANCELLED);
		n++;
	}
	assert_in_range(n, WAVE, 9 * WAVE);
	bed_until(&b, session_stats(b.near)->streams == 0);
	assert_int_equal(session_open(b.near, &request, &stream_events, NULL, &st), 0);
	stream_close(&st, STREAM_CANCELLED);
	bed_until(&b, session_stats(b.near)->streams == 0);
	assert_int_equal(b.near_rc, 1);
	bed_fini(&b);
}

static void
test_ten_thousand_at_once(void **state)
{
	enum { N = 10000 };
	struct bed b;
	struct end *e = xcalloc(N, sizeof *e);
	unsigned refused = 0;

	(void)state;
	bed_init_limits(&b, true, N, 1500);
	b.silent = true;
	for (int i = 0; i < N; i++)
		bed_open(&b, &e[i], "a:1");
	/* As many as the wire takes go before it is heard that 1500 is the most; the rest wait
	 * until some have gone. */
	bed_until(&b,
		session_stats(b.near)->streams == 0 ||
			session_stats(b.near)->resets_received > 1000);
	for (int i = 0; i < N; i++)
		refused += e[i].reset && e[i].code == STREAM_REFUSED;
	assert_int_equal(b.n_ends, 1500);
	assert_int_equal(session_stats(b.far)->streams, 1500);
	assert_in_range(refused, 1001, N - 1500);
	assert_int_equal(b.near_rc, 1);
	for (int i = 0; i < N; i++)
		stream_close(&e[i].st, STREAM_CANCELLED);
	bed_until(&b, session_stats(b.far)->streams == 0);
	bed_fini(&b);
	free(e);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_hundred_thousand_cancelled),
		cmocka_unit_test(test_a_peer_that_gives_up_too_many),
		cmocka_unit_test(test_a_peer_that_is_gone_meanwhile),
		cmocka_unit_test(test_given_up_before_they_leave),
		cmocka_unit_test(test_ten_thousand_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
