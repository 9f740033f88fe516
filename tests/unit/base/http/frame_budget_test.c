/* How many frames that carry nothing a peer may send, and what counts as one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/http/frame_budget.h"

enum {
	DATA,
	HEADERS,
	PRIORITY,
	RST_STREAM,
	SETTINGS,
	PUSH,
	PING,
	GOAWAY,
	WINDOW_UPDATE,
	CONTINUATION,
	FADING = 0xf1,
	HEAD_FREE = 2048,
};

static struct frame_budget budget;

/* One frame with `len` bytes behind its head, `step` bytes at a time. */
static const char *
read_frame(unsigned type, unsigned flags, size_t len, size_t step, uint64_t now_ms)
{
	static uint8_t bytes[FRAME_BUDGET_HEAD + (1 << 15)];
	const char *kind = NULL;
	size_t n = FRAME_BUDGET_HEAD + len;

	bytes[0] = (uint8_t)(len >> 16);
	bytes[1] = (uint8_t)(len >> 8);
	bytes[2] = (uint8_t)len;
	bytes[3] = (uint8_t)type;
	bytes[4] = (uint8_t)flags;
	for (size_t at = 0; at < n && kind == NULL; at += step)
		kind = frame_budget_read(&budget, bytes + at, MIN(step, n - at), now_ms);
	return kind;
}

/* How many of them pass. */
static unsigned
count_frames(unsigned type, unsigned flags, size_t len, unsigned most)
{
	unsigned n = 0;

	frame_budget_init(&budget, 0, HEAD_FREE, 0);
	while (n < most && read_frame(type, flags, len, 1 << 16, 0) == NULL)
		n++;
	return n;
}

static void
test_what_costs(void **state)
{
	static const unsigned useless[] = {PRIORITY, RST_STREAM, SETTINGS, PUSH, PING, GOAWAY,
		WINDOW_UPDATE, 0x20, 0xf1, 0xff};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(useless); i++)
		assert_int_equal(count_frames(useless[i], 0, 8, 100000), FRAME_BUDGET_BURST);
	assert_int_equal(count_frames(DATA, 0, 0, 100000), FRAME_BUDGET_BURST);
	assert_int_equal(count_frames(DATA, 8, 100, 100000), FRAME_BUDGET_BURST); /* padding */
	assert_int_equal(count_frames(CONTINUATION, 0, 16384, 100000),
		(FRAME_BUDGET_BURST + HEAD_FREE / 16) / (1 + 1024));
	assert_true(count_frames(HEADERS, 4, 16384, 1000) < 10);
	/* what streams are made of */
	assert_int_equal(count_frames(DATA, 0, 1, 100000), 100000);
	assert_int_equal(count_frames(DATA, 1, 0, 100000), 100000);
	assert_int_equal(count_frames(HEADERS, 4, 1000, 100000), 100000);
}

static void
test_a_second_later(void **state)
{
	(void)state;
	assert_int_equal(count_frames(PING, 0, 8, 100000), FRAME_BUDGET_BURST);
	assert_string_equal(read_frame(PING, 0, 8, 17, 0), "PING");
	assert_null(read_frame(PING, 0, 8, 17, 10));
	for (int i = 1; i < FRAME_BUDGET_RATE; i++)
		assert_null(read_frame(PRIORITY, 0, 5, 14, 1010));
	for (int i = 0; i < 10; i++)
		(void)read_frame(PRIORITY, 0, 5, 14, 1010);
	assert_string_equal(read_frame(PRIORITY, 0, 5, 14, 1010), "PRIORITY");
	assert_string_equal(read_frame(0x99, 0, 5, 14, 1010), "of a type that is not known");
	for (int i = 0; i < FRAME_BUDGET_BURST; i++) /* and no more than a burst in a day */
		assert_null(read_frame(PRIORITY, 0, 5, 14, 86400000));
	assert_non_null(read_frame(PRIORITY, 0, 5, 14, 86400000));
}

/* Resets and window updates belong to what is carried, and to nothing else. */
static void
test_what_is_earned(void **state)
{
	enum { MANY = 50000 };

	(void)state;
	frame_budget_init(&budget, 0, HEAD_FREE, 0);
	for (int i = 0; i < MANY; i++) {
		frame_budget_stream(&budget);
		assert_null(read_frame(RST_STREAM, 0, 4, 13, 0));
		assert_null(read_frame(WINDOW_UPDATE, 0, 4, 13, 0));
	}
	assert_int_equal(budget.useless, 0);
	frame_budget_init(&budget, 0, HEAD_FREE, 0);
	for (int i = 0; i < MANY; i++) {
		frame_budget_sent(&budget, 1000, false);
		assert_null(read_frame(WINDOW_UPDATE, 0, 4, 13, 0));
	}
	assert_int_equal(budget.useless, 0);
	for (int i = 0; i < FRAME_BUDGET_BURST; i++)
		assert_null(read_frame(PRIORITY, 0, 5, 14, 0));
	assert_non_null(read_frame(PRIORITY, 0, 5, 14, 0));
}

/* gRPC measures the path by a PING with each DATA that it gets, for ever. */
static void
test_a_ping_for_each_data(void **state)
{
	enum { MANY = 50000 };

	(void)state;
	frame_budget_init(&budget, 0, HEAD_FREE, 0);
	for (int i = 0; i < MANY; i++) {
		frame_budget_sent(&budget, 1, false);
		assert_null(read_frame(PING, 0, 8, 17, 0));
	}
	assert_int_equal(budget.useless, 0);
	for (int i = 0; i < MANY; i++)
		frame_budget_sent(&budget, 1, false);
	for (int i = 0; i < FRAME_BUDGET_BURST + 2 * MANY / 512; i++) /* an update brings DATA */
		assert_null(read_frame(WINDOW_UPDATE, 0, 4, 13, 0));
	assert_non_null(read_frame(WINDOW_UPDATE, 0, 4, 13, 0));
}

/* Some peers open both windows after each DATA, however small: those of a message that the window
 * had room for are earned for ever. */
static void
test_updates_for_each_message(void **state)
{
	enum { MANY = 50000, MESSAGE = 50 };

	(void)state;
	frame_budget_init(&budget, 0, HEAD_FREE, 0);
	for (int i = 0; i < MANY; i++) {
		frame_budget_sent(&budget, MESSAGE, true);
		assert_null(read_frame(WINDOW_UPDATE, 0, 4, 13, 0)); /* of the stream */
		assert_null(read_frame(WINDOW_UPDATE, 0, 4, 13, 0)); /* of the connection */
	}
	assert_int_equal(budget.useless, 0);
}

/* A section may have so many bytes, in one frame or in several, again and again. */
static void
test_large_sections(void **state)
{
	(void)state;
	frame_budget_init(&budget, 0, 1 << 15, 0);
	for (int i = 0; i < 1000; i++) {
		assert_null(read_frame(HEADERS, 0, 16384, 1 << 16, 0));
		assert_null(read_frame(CONTINUATION, 4, 16384, 1 << 16, 0));
	}
	assert_int_equal(budget.useless, 1000);
	assert_null(read_frame(CONTINUATION, 4, 1600, 1 << 16, 0));
	assert_int_equal(budget.useless, 1000 + 1 + 100);
}

/* A node that drains has two frames for each of its streams, all at once, however long they have
 * been quiet and whatever they carried. */
static void
test_all_streams_fade(void **state)
{
	enum { STREAMS = 20000 };

	(void)state;
	frame_budget_init(&budget, 0, HEAD_FREE, 0);
	for (int i = 0; i < STREAMS; i++)
		frame_budget_stream(&budget);
	while (budget.useless == 0)
		assert_null(read_frame(WINDOW_UPDATE, 0, 4, 13, 0));
	for (int i = 0; i < 2 * STREAMS; i++)
		assert_null(read_frame(FADING, 0, 0, 9, 0));
	assert_int_equal(budget.useless, 1);
	for (int i = 1; i < FRAME_BUDGET_BURST; i++)
		assert_null(read_frame(FADING, 0, 0, 9, 0));
	assert_non_null(read_frame(FADING, 0, 0, 9, 0));
}

/* However the bytes are cut, and with a preface before them. */
static void
test_pieces(void **state)
{
	static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

	(void)state;
	for (size_t step = 1; step < 30; step++) {
		frame_budget_init(&budget, sizeof preface - 1, HEAD_FREE, 0);
		for (size_t at = 0; at < sizeof preface - 1; at++)
			assert_null(
				frame_budget_read(&budget, (const uint8_t *)preface + at, 1, 0));
		for (int i = 0; i < 10; i++) {
			assert_null(read_frame(PRIORITY, 0, 5, step, 0));
			assert_null(read_frame(DATA, 0, 300, step, 0));
		}
		assert_int_equal(budget.useless, 10);
		assert_int_equal(budget.skip + budget.have, 0);
	}
}

static void
test_spent_by_others(void **state)
{
	(void)state;
	frame_budget_init(&budget, 0, HEAD_FREE, 0);
	assert_true(frame_budget_spend(&budget, FRAME_BUDGET_BURST, 0));
	assert_false(frame_budget_spend(&budget, 1, 0));
	assert_true(frame_budget_spend(&budget, 1, 1));
	assert_int_equal(budget.useless, FRAME_BUDGET_BURST + 2);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_costs),
		cmocka_unit_test(test_a_second_later),
		cmocka_unit_test(test_what_is_earned),
		cmocka_unit_test(test_a_ping_for_each_data),
		cmocka_unit_test(test_updates_for_each_message),
		cmocka_unit_test(test_large_sections),
		cmocka_unit_test(test_all_streams_fade),
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_spent_by_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
