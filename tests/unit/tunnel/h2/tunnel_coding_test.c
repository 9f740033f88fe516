/* Streams whose clear text is smaller on the wire, over TLS. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/tunnel/h2/tunnel_bed.h"

enum { N = 8 << 20, STEP = 50000 };

/* Sends N bytes that repeat `piece`, has them echoed, and tells how many were payload on the wire
 * to the far end. */
static uint64_t
echo(const char *piece, size_t len)
{
	static char text[STEP];
	struct bed b;
	struct end e;
	uint64_t sum = 0, wire;
	size_t sent = 0;

	for (size_t i = 0; i < STEP; i++)
		text[i] = piece[i % len];
	bed_init_squeezed(&b);
	bed_open(&b, &e, "a:1");
	assert_int_equal(stream_room(e.st), 0); /* not before it is known how */
	bed_until(&b, e.status == 200);
	while (sent < N) {
		size_t room = MIN(stream_room(e.st), MIN((size_t)STEP, N - sent));

		stream_write(e.st, text, room);
		for (size_t i = 0; i < room; i++)
			sum += (unsigned char)text[i];
		sent += room;
		if (room == 0)
			bed_wait(&b);
	}
	stream_end(e.st);
	bed_until(&b, e.eof && b.ends[0]->eof);
	assert_int_equal(e.got, N);
	assert_int_equal(b.ends[0]->got, N);
	assert_int_equal(e.sum, sum);
	assert_false(e.reset || b.ends[0]->reset);
	wire = session_stats(b.near)->bytes_out;
	/* counted at both ends, by what goes and by what comes */
	assert_in_range(session_stats(b.near)->saved, 0, 2 * N);
	assert_in_range(session_stats(b.far)->saved, 0, 2 * N);
	assert_int_equal(wire<N, session_stats(b.near)->saved> N);
	assert_int_equal(wire<N, session_stats(b.far)->saved> N);
	stream_close(&e.st, STREAM_DONE);
	stream_close(&b.ends[0]->st, STREAM_DONE);
	bed_until(&b, session_stats(b.near)->streams == 0 && session_stats(b.far)->streams == 0);
	assert_int_equal(b.far_budget.granted, 0);
	bed_fini(&b);
	return wire;
}

static void
test_text_is_small(void **state)
{
	static const char line[] =
		"2026-11-21T12:00:00Z info  dns: asked name=web.default.svc.cluster.local type=A\n";

	(void)state;
	assert_in_range(echo(line, sizeof line - 1), 1000, N / 10);
}

static void
test_tls_is_as_it_was(void **state)
{
	(void)state;
	assert_int_equal(echo("\x16\x03\x01\x00\x80\x01\x02", 7), N + 1);
}

/* Windows count bytes of the wire, so a reader that stalls holds a window of them, and a little
 * that is expanded. */
static void
test_stalled_reader(void **state)
{
	static const char text[STEP] = "nothing but zeros behind this";
	struct bed b;
	struct end e;
	size_t sent = 0;

	(void)state;
	bed_init_squeezed(&b);
	bed_open(&b, &e, "a:1");
	bed_until(&b, e.status == 200);
	b.ends[0]->stalled = true;
	stream_write(e.st, "a text", 6); /* a line, and then what shrinks by a thousand */
	for (int turns = 0; turns < 2000; turns++) {
		size_t room = MIN(stream_room(e.st), (size_t)STEP);

		stream_write(e.st, text, room);
		sent += room;
		bed_wait(&b);
	}
	assert_true(sent > 10 * STREAM_WINDOW_BASE);
	assert_true(b.far_budget.held <= STREAM_WINDOW_BASE);
	b.ends[0]->stalled = false;
	b.ends[0]->echo = false;
	bed_move(b.ends[0]);
	bed_until(&b, b.ends[0]->got == sent + 6);
	bed_fini_open(&b, &e, 1);
}

/* What is expanded and not consumed counts as memory, and is freed once it is consumed. And what is
 * written into the room that a stream has reserved. */
static void
test_memory_of_what_is_expanded(void **state)
{
	enum { PLAIN = 64 * 1024 };
	struct bed b;
	struct end e;
	struct iovec v[CHAIN_MOST];
	const void *data;
	size_t before;

	(void)state;
	bed_init_squeezed(&b);
	bed_open(&b, &e, "a:1");
	bed_until(&b, e.status == 200);
	b.ends[0]->stalled = true;
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(stream_reserve(e.st, 6, v), 1);
		assert_int_equal(v[0].iov_len, 6);
		memcpy(v[0].iov_base, "a text", 6);
		stream_commit(e.st, 6);
		bed_until(&b, b.far_budget.held > 0);
		before = b.far_budget.granted;
		assert_int_equal(stream_peek(b.ends[0]->st, &data), 6);
		assert_memory_equal(data, "a text", 6);
		assert_int_equal(b.far_budget.granted, before + PLAIN);
		stream_consume(b.ends[0]->st, 5);
		assert_int_equal(b.far_budget.granted, before + PLAIN);
		stream_consume(b.ends[0]->st, 1);
		assert_int_equal(b.far_budget.granted, before);
	}
	bed_fini_open(&b, &e, 1);
}

/* Memory that is short is not spent on this. */
static void
test_not_when_memory_is_short(void **state)
{
	struct bed b;
	struct end e;

	(void)state;
	bed_init_squeezed(&b);
	b.far_budget.limit = 1;
	b.far_budget.granted = 1; /* somebody else's */
	bed_open(&b, &e, "a:1");
	bed_until(&b, e.status == 200);
	b.far_budget.granted = 0;
	b.far_budget.limit = 64 << 20;
	bed_write(&e, 100000);
	bed_until(&b, e.got == 100000);
	assert_int_equal(session_stats(b.near)->bytes_out, 100000);
	assert_int_equal(session_stats(b.near)->saved, 0);
	bed_fini_open(&b, &e, 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text_is_small),
		cmocka_unit_test(test_tls_is_as_it_was),
		cmocka_unit_test(test_stalled_reader),
		cmocka_unit_test(test_memory_of_what_is_expanded),
		cmocka_unit_test(test_not_when_memory_is_short),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
