#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tunnel/h2/conn_window.h"

static bool asked;

/* Whole windows of bytes, one each `every_ms`; how often the window changed. */
static unsigned
receive(struct conn_window *r, uint64_t *now_ms, unsigned windows, unsigned every_ms)
{
	unsigned changes = 0;

	asked = false;
	while (windows-- > 0) {
		bool ask;

		*now_ms += every_ms;
		changes += conn_window_came(r, r->window, *now_ms, &ask);
		asked |= ask;
	}
	return changes;
}

static void
sample(struct conn_window *r, unsigned times, unsigned rtt_ms)
{
	while (times-- > 0)
		conn_window_sample(r, rtt_ms);
}

static void
test_short_ways_need_no_more(void **state)
{
	struct conn_window r;
	uint64_t now = 7;

	(void)state;
	conn_window_init(&r, now);
	assert_int_equal(receive(&r, &now, 10, 0), 0); /* nothing is known yet */
	sample(&r, 9, 0);
	assert_int_equal(receive(&r, &now, 1000, 0), 0);
	assert_int_equal(r.window, CONN_WINDOW_LEAST);
	assert_false(asked);
}

static void
test_long_ways_get_what_they_carry(void **state)
{
	struct conn_window r;
	uint64_t now = 7;

	(void)state;
	conn_window_init(&r, now);
	sample(&r, 4, 50);
	assert_int_equal(receive(&r, &now, 9, 100), 0); /* 10 MB/s are not held up */
	assert_int_equal(receive(&r, &now, 1, 80), 1);
	assert_int_equal(r.window, CONN_WINDOW_LEAST * 4 * 50 / 80);
	receive(&r, &now, 100, 52);
	assert_int_equal(r.window, CONN_WINDOW_MOST);
}

/* Each round trip tells what the path brings, also where the window is not used up. */
static void
test_parts_of_a_window(void **state)
{
	const size_t part = CONN_WINDOW_LEAST / 8;
	struct conn_window r;
	uint64_t now = 7;
	bool ask;

	(void)state;
	conn_window_init(&r, now);
	sample(&r, 4, 50);
	for (int i = 1; i <= 4; i++) /* half of it in a round trip */
		assert_false(conn_window_came(&r, part, now += i == 1 ? 0 : 17, &ask));
	assert_false(ask);
	for (int i = 1; i <= 4; i++)
		assert_false(conn_window_came(&r, part, now += 10, &ask));
	assert_true(conn_window_came(&r, part, now += 10, &ask));
	assert_true(ask);
	assert_int_equal(r.window, 4 * 5 * part);
}

static void
test_late_answers_are_no_long_way(void **state)
{
	struct conn_window r;
	uint64_t now = 7;

	(void)state;
	conn_window_init(&r, now);
	sample(&r, 3, 20);
	assert_int_equal(receive(&r, &now, 5, 1), 0);
	assert_true(asked); /* once more, then it is believed */
	sample(&r, 1, 0);
	assert_int_equal(receive(&r, &now, 5, 1), 0);
	sample(&r, 7, 20);
	assert_int_equal(conn_window_rtt(&r), 0);
}

static void
test_ways_become_longer_and_shorter(void **state)
{
	struct conn_window r;
	uint64_t now = 7;

	(void)state;
	conn_window_init(&r, now);
	sample(&r, 8, 10);
	sample(&r, 8, 50);
	assert_int_equal(conn_window_rtt(&r), 10); /* the others may have been late */
	sample(&r, 1, 50);
	assert_int_equal(conn_window_rtt(&r), 50);
	assert_int_equal(receive(&r, &now, 3, 50), 3);
	sample(&r, 1, 30);
	assert_int_equal(receive(&r, &now, 1, 70), 0);
	sample(&r, 1, 24);
	assert_int_equal(receive(&r, &now, 1, 70), 1);
	assert_int_equal(r.window, CONN_WINDOW_LEAST);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_short_ways_need_no_more),
		cmocka_unit_test(test_long_ways_get_what_they_carry),
		cmocka_unit_test(test_parts_of_a_window),
		cmocka_unit_test(test_late_answers_are_no_long_way),
		cmocka_unit_test(test_ways_become_longer_and_shorter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
