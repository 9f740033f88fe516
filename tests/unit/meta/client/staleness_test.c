#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/core/log.h"
#include "meta/client/staleness.h"

/* Two clocks, of which one jumps, and the one timer that meta/client/staleness has. */
enum { START_S = 1800000000, HOUR_S = 3600, DAY_S = 24 * HOUR_S, YEAR_S = 365 * DAY_S };

struct timer {
	loop_fn *fn;
	void *arg;
	uint64_t every_ms, next_ms;
};

static struct timer the_timer;
static uint64_t now_ms;
static int64_t jumped_s, stored_s;
static unsigned n_notes;
static bool connected;

uint64_t __wrap_mono_ms(void);
uint64_t __wrap_wall_ms(void);

uint64_t
__wrap_mono_ms(void)
{
	return now_ms;
}

uint64_t
__wrap_wall_ms(void)
{
	return (uint64_t)(START_S + jumped_s) * 1000 + now_ms;
}

struct timer *
timer_new(struct loop *loop, loop_fn *fn, void *arg)
{
	(void)loop;
	the_timer = (struct timer){.fn = fn, .arg = arg};
	return &the_timer;
}

void
timer_start(struct timer *t, uint64_t after_ms, uint64_t repeat_ms)
{
	t->next_ms = now_ms + after_ms;
	t->every_ms = repeat_ms;
}

void
timer_free(struct timer **t)
{
	*t = NULL;
}

static void
pass(int64_t seconds)
{
	uint64_t end = now_ms + (uint64_t)seconds * 1000;

	while (the_timer.next_ms <= end) {
		now_ms = the_timer.next_ms;
		the_timer.next_ms += the_timer.every_ms;
		the_timer.fn(the_timer.arg);
	}
	now_ms = end;
}

static bool
in_step(void *arg)
{
	(void)arg;
	return connected;
}

static void
note(void *arg, int64_t at_s)
{
	(void)arg;
	stored_s = at_s;
	n_notes++;
}

static struct staleness *
start(void)
{
	const struct staleness_config config = {
		.stored_s = stored_s, .in_step = in_step, .note = note};

	return staleness_new(&config);
}

static int
fresh(void **state)
{
	(void)state;
	now_ms = 5000;
	jumped_s = stored_s = 0;
	n_notes = 0;
	connected = false;
	return 0;
}

static void
nobody_knows(void **state)
{
	struct staleness *age = start();
	auto_buf struct buf text;

	(void)state;
	buf_init(&text, BUF_UNLIMITED);
	pass(HOUR_S);
	assert_int_equal(staleness_seconds(age), -1);
	staleness_state(age, &text);
	assert_string_equal(buf_str(&text), "{\"age_s\":null,\"as_of\":\"\"}");
	staleness_free(&age);
	assert_int_equal(n_notes, 0);
}

static void
counts_from_the_loss(void **state)
{
	struct staleness *age = start();

	(void)state;
	connected = true;
	pass(3 * HOUR_S);
	assert_int_equal(staleness_seconds(age), 0);
	assert_in_range(n_notes, 18, 19); /* every ten minutes */
	connected = false;
	pass(7 * DAY_S);
	assert_in_range(staleness_seconds(age), 7 * DAY_S, 7 * DAY_S + 5);
	assert_in_range(n_notes, 19, 20);
	connected = true;
	pass(6);
	assert_int_equal(staleness_seconds(age), 0);
	staleness_free(&age);
	assert_in_range(stored_s, START_S + now_ms / 1000 - 5, START_S + now_ms / 1000);
}

static void
outlives_the_process(void **state)
{
	struct staleness *age = start();

	(void)state;
	connected = true;
	pass(HOUR_S);
	connected = false;
	pass(DAY_S);
	staleness_free(&age);
	now_ms += 1000 * HOUR_S;
	age = start();
	assert_in_range(staleness_seconds(age), DAY_S + HOUR_S, DAY_S + HOUR_S + 5);
	pass(HOUR_S);
	assert_in_range(staleness_seconds(age), DAY_S + 2 * HOUR_S, DAY_S + 2 * HOUR_S + 5);
	staleness_free(&age);
}

static void
a_clock_that_jumps_while_it_runs_changes_nothing(void **state)
{
	static const int64_t jumps[] = {20LL * YEAR_S, -30LL * YEAR_S, 0};
	struct staleness *age = start();

	(void)state;
	connected = true;
	pass(HOUR_S);
	connected = false;
	for (unsigned i = 0; i < ARRAY_LEN(jumps); i++) {
		jumped_s = jumps[i];
		pass(HOUR_S);
		assert_in_range(staleness_seconds(age), (i + 1) * HOUR_S, (i + 1) * HOUR_S + 5);
	}
	/* set back in step: the note goes back as well, or the age would begin in the future */
	connected = true;
	pass(HOUR_S);
	jumped_s = -YEAR_S;
	pass(HOUR_S);
	assert_true(stored_s < START_S);
	staleness_free(&age);
}

/* No battery: 1970 until somebody tells the time. */
static void
a_clock_that_starts_too_early(void **state)
{
	struct staleness *age;

	(void)state;
	stored_s = START_S;
	jumped_s = 600 - START_S;
	age = start();
	pass(HOUR_S);
	assert_int_equal(staleness_seconds(age), HOUR_S);
	jumped_s = 2 * DAY_S - (int64_t)(now_ms / 1000);
	pass(1);
	assert_int_equal(staleness_seconds(age), 2 * DAY_S + 1);
	jumped_s = 20LL * YEAR_S; /* once it is known it is counted */
	pass(9);
	assert_int_equal(staleness_seconds(age), 2 * DAY_S + 10);
	staleness_free(&age);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(nobody_knows, fresh),
		cmocka_unit_test_setup(counts_from_the_loss, fresh),
		cmocka_unit_test_setup(outlives_the_process, fresh),
		cmocka_unit_test_setup(a_clock_that_jumps_while_it_runs_changes_nothing, fresh),
		cmocka_unit_test_setup(a_clock_that_starts_too_early, fresh),
	};

	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_TEXT);
	return cmocka_run_group_tests_name("age", tests, NULL, NULL);
}
