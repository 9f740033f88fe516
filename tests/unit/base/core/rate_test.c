#include "base/core/rate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void
without_a_bound_all_may_go(void **state)
{
	struct rate r = {0};

	(void)state;
	rate_spend(&r, 1 << 30);
	assert_true(rate_room(&r, 1) == SIZE_MAX);
}

/* Whoever takes all that is offered, in steps of any length, moves what the rate says, and a
 * burst. */
static void
over_time_it_is_the_rate(void **state)
{
	static const uint64_t rates[] = {20000, 1000000, 4000000000};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rates); i++)
		for (uint64_t step = 1; step <= 50; step += 7) {
			struct rate r = {.per_s = rates[i]};
			uint64_t burst = MAX(rates[i] / 10, (uint64_t)RATE_BURST_LEAST), moved = 0;

			for (uint64_t now = 1000; now <= 31000; now += step) {
				size_t n = rate_room(&r, now);

				assert_true(n == 0 || n >= RATE_PIECE);
				rate_spend(&r, n);
				moved += n;
			}
			assert_true(moved <= 30 * rates[i] + burst);
			assert_true(moved >= 29 * rates[i] - burst);
		}
}

static void
what_went_too_much_is_waited_for(void **state)
{
	_Atomic uint64_t waits = 0;
	struct rate r = {.per_s = 100000, .waits = &waits};

	(void)state;
	assert_int_equal(rate_room(&r, 1000), RATE_BURST_LEAST);
	rate_spend(&r, RATE_BURST_LEAST + 100000);
	assert_int_equal(rate_room(&r, 1900), 0);
	assert_int_equal(rate_room(&r, 2000), 0);
	assert_int_equal(waits, 2);
	assert_int_equal(rate_room(&r, 2020), 2000);
	/* rest gives no more than a burst */
	assert_int_equal(rate_room(&r, 1000000), RATE_BURST_LEAST);
	/* a clock that stands still gives nothing */
	rate_spend(&r, RATE_BURST_LEAST);
	assert_int_equal(rate_room(&r, 1000000), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_bound_all_may_go),
		cmocka_unit_test(over_time_it_is_the_rate),
		cmocka_unit_test(what_went_too_much_is_waited_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
