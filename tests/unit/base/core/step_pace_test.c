#include "base/core/step_pace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* Steps of 4 ms: after a while so long are those that wait expected to take. */
static void
follows_the_pace(void **state)
{
	struct step_pace p;
	uint64_t now = 1000;

	(void)state;
	step_pace_init(&p);
	assert_int_equal(step_pace_wait_ms(&p, 1000), 1000);
	for (int i = 0; i < 2000; i++)
		step_pace_done(&p, now += 4, 10);
	assert_in_range(step_pace_wait_ms(&p, 1000), 3900, 4100);
	for (int i = 0; i < 20000; i++)
		step_pace_done(&p, now += i % 2, 10);
	assert_in_range(step_pace_wait_ms(&p, 1000), 450, 550);
}

/* Steps that nobody waits for come as clients come: an hour between two says nothing. */
static void
idle_time_is_no_pace(void **state)
{
	struct step_pace p;
	uint64_t now = 1000;

	(void)state;
	step_pace_init(&p);
	for (int i = 0; i < 100; i++)
		step_pace_done(&p, now += 3600 * 1000, 0);
	assert_int_equal(step_pace_wait_ms(&p, 1000), 1000);
	for (int i = 0; i < 100; i++) {
		step_pace_done(&p, now += 3600 * 1000, 1);
		step_pace_done(&p, ++now, 0);
	}
	assert_int_equal(step_pace_wait_ms(&p, 1000), 1000);
}

/* This process was stopped for a minute while steps waited: the next newcomers are not turned away
 * for that. Steps that do take long are believed within seconds. */
static void
one_stall_is_no_pace(void **state)
{
	struct step_pace p;
	uint64_t now = 1000;

	(void)state;
	step_pace_init(&p);
	step_pace_done(&p, now, 10);
	step_pace_done(&p, now += 60 * 1000, 10);
	assert_in_range(step_pace_wait_ms(&p, 1000), 1000, 2000);
	for (int i = 0; i < 20; i++)
		step_pace_done(&p, now += 500, 10);
	assert_in_range(step_pace_wait_ms(&p, 1000), 300 * 1000, 500 * 1000);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(follows_the_pace),
		cmocka_unit_test(idle_time_is_no_pace),
		cmocka_unit_test(one_stall_is_no_pace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
