/* Timers and signals of the loop. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/core/loop.h"

struct bed {
	struct loop *loop;
	struct watch *watch;
	struct timer *timer;
	int pair[2];
	unsigned calls, other_calls;
	uint64_t at[8];
};

static struct loop *
new_loop(void)
{
	struct loop *loop = NULL;

	assert_int_equal(loop_new(&loop, NULL), 0);
	return loop;
}

/* libc's, or a clock that stands still. */
static uint64_t clock_ms; /* 0: it runs */

int
clock_gettime(clockid_t clock, struct timespec *to)
{
	if (clock_ms == 0)
		return (int)syscall(SYS_clock_gettime, clock, to);
	*to = (struct timespec){(time_t)(clock_ms / 1000), (long)(clock_ms % 1000) * 1000000};
	return 0;
}

static void
on_timer(void *arg)
{
	struct bed *t = arg;

	t->at[t->calls++] = mono_ms();
	if (t->calls == 3) {
		timer_free(&t->timer);
		loop_stop(t->loop);
	}
}

static void
timers_wait_and_repeat(void **state)
{
	struct bed t = {0};
	uint64_t start = mono_ms();

	(void)state;
	t.loop = new_loop();
	t.timer = timer_new(t.loop, on_timer, &t);
	assert_false(timer_active(t.timer));
	timer_start(t.timer, 30, 10);
	assert_true(timer_active(t.timer));
	loop_run(t.loop);
	assert_int_equal(t.calls, 3);
	assert_true(t.at[0] - start >= 29);
	assert_true(t.at[2] - start >= 49);
	assert_null(t.timer);
	loop_free(&t.loop);
}

struct looker {
	struct loop *loop;
	struct timer *timer;
	uint64_t at_ms; /* when it ran last */
	int calls;
};

static void
on_look_time(void *arg)
{
	struct looker *l = arg;

	l->at_ms = loop_now_ms(l->loop);
	l->calls++;
}

/* An idle program is woken once for all of them: those of some seconds meet at their multiples,
 * longer ones at whole seconds. */
static void
timers_of_whole_seconds_meet(void **state)
{
	static const struct {
		uint64_t period_ms, meet_ms;
	} rows[] = {{1000, 1000}, {2000, 2000}, {5000, 5000}, {6000, 1000}, {300, 1}};

	(void)state;
	clock_ms = 1002 * 1000 + 217;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct looker l[2] = {{.loop = new_loop()}, {.loop = l[0].loop}};

		for (int k = 0; k < 2; k++) {
			l[k].timer = timer_new(l[k].loop, on_look_time, &l[k]);
			timer_start(l[k].timer, 1 + (uint64_t)k * 401, rows[i].period_ms);
		}
		while (l[0].calls < 4 || l[1].calls < 4) {
			clock_ms++;
			loop_turn(l[0].loop);
		}
		for (int k = 0; k < 2; k++) {
			assert_int_equal(l[k].at_ms % rows[i].meet_ms, 0);
			assert_in_range(l[k].calls, 4, 5);
			timer_free(&l[k].timer);
		}
		loop_free(&l[0].loop);
	}
	clock_ms = 0;
}

static void
on_stop_time(void *arg)
{
	loop_stop(arg);
}

static void
timers_can_be_moved_and_cancelled(void **state)
{
	struct bed t = {0};
	struct timer *end;

	(void)state;
	t.loop = new_loop();
	t.timer = timer_new(t.loop, on_timer, &t);
	end = timer_new(t.loop, on_stop_time, t.loop);
	timer_start(t.timer, 5, 0);
	timer_cancel(t.timer);
	assert_false(timer_active(t.timer));
	timer_start(end, 30, 0);
	loop_run(t.loop);
	assert_int_equal(t.calls, 0);
	timer_start(t.timer, 1000000, 0);
	timer_start(t.timer, 1, 0); /* moved, not a second one */
	timer_start(end, 30, 0);
	loop_run(t.loop);
	assert_int_equal(t.calls, 1);
	assert_false(timer_active(t.timer));
	timer_free(&t.timer);
	timer_free(&end);
	loop_free(&t.loop);
}

static void
on_again(void *arg)
{
	struct bed *t = arg;

	if (++t->calls < 1000)
		timer_start(t->timer, 0, 0);
}

static void
on_byte(void *arg, int fd, unsigned events)
{
	struct bed *t = arg;

	(void)fd;
	(void)events;
	t->other_calls = t->calls;
	loop_stop(t->loop);
}

/* Work that goes on by itself lets descriptors have their turn, in each turn. */
static void
timers_without_delay_hold_up_nobody(void **state)
{
	struct bed t = {0};

	(void)state;
	t.loop = new_loop();
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, t.pair), 0);
	assert_int_equal(write(t.pair[1], "x", 1), 1);
	t.watch = watch_start(t.loop, t.pair[0], WATCH_READ, on_byte, &t);
	t.timer = timer_new(t.loop, on_again, &t);
	timer_start(t.timer, 0, 0);
	assert_true(timer_active(t.timer));
	loop_run(t.loop);
	assert_int_equal(t.other_calls, 1);
	watch_stop(&t.watch);
	loop_turn(t.loop);
	assert_int_equal(t.calls, 2);
	assert_true(timer_active(t.timer));
	timer_cancel(t.timer);
	loop_turn(t.loop);
	assert_int_equal(t.calls, 2);
	timer_start(t.timer, 0, 0);
	timer_free(&t.timer);
	loop_turn(t.loop);
	assert_int_equal(t.calls, 2);
	loop_free(&t.loop);
	close(t.pair[0]);
	close(t.pair[1]);
}

static void
on_end_other(void *arg)
{
	struct bed *t = arg;

	t->other_calls++;
	if (t->timer != NULL)
		timer_free(&t->timer);
}

/* One may end another of the same turn; and repeat, from at once on. */
static void
timers_without_delay_may_end_each_other(void **state)
{
	struct bed t = {0};
	struct timer *first;

	(void)state;
	t.loop = new_loop();
	t.timer = timer_new(t.loop, on_again, &t);
	first = timer_new(t.loop, on_end_other, &t);
	timer_start(first, 0, 1000000);
	timer_start(t.timer, 0, 0);
	loop_turn(t.loop);
	assert_int_equal(t.calls, 0);
	assert_int_equal(t.other_calls, 1);
	assert_true(timer_active(first)); /* in so long */
	loop_turn(t.loop);
	assert_int_equal(t.other_calls, 1);
	timer_free(&first);
	loop_free(&t.loop);
}

static void
on_signal(void *arg)
{
	struct bed *t = arg;

	t->calls++;
	loop_stop(t->loop);
}

static void
signals_come_on_the_loop(void **state)
{
	struct bed t = {0};
	struct sigwatch *s;

	(void)state;
	t.loop = new_loop();
	s = signal_start(t.loop, SIGUSR1, on_signal, &t);
	raise(SIGUSR1);
	assert_int_equal(t.calls, 0);
	loop_run(t.loop);
	assert_int_equal(t.calls, 1);
	signal_stop(&s);
	assert_null(s);
	loop_free(&t.loop);
}

static void
on_busy(void *took_ms)
{
	clock_ms += *(const unsigned *)took_ms;
}

/* What holds the loop up is counted by how long, be it a timer with a delay or without. */
static void
slow_calls_are_counted(void **state)
{
	static const struct {
		unsigned took_ms, slow[LOOP_SLOW];
	} rows[] = {{9, {0}}, {10, {0}}, {11, {1}}, {100, {1}}, {101, {1, 1}}, {1001, {1, 1, 1}}};

	(void)state;
	clock_ms = 1000 * 1000;
	for (size_t i = 0; i < 2 * ARRAY_LEN(rows); i++) {
		unsigned took_ms = rows[i / 2].took_ms;
		struct loop *loop = new_loop();
		struct timer *timer = timer_new(loop, on_busy, &took_ms);
		struct loop_lag lag;

		timer_start(timer, i % 2, 0);
		clock_ms++;
		loop_turn(loop);
		assert_false(timer_active(timer));
		loop_turn(loop);
		loop_lag(loop, &lag);
		assert_memory_equal(lag.slow,
			((const uint64_t[]){
				rows[i / 2].slow[0], rows[i / 2].slow[1], rows[i / 2].slow[2]}),
			sizeof lag.slow);
		assert_int_equal(lag.worst_ms, took_ms > 10 ? took_ms : 0);
		loop_lag(loop, &lag);
		assert_int_equal(lag.worst_ms, 0); /* since the last look */
		timer_free(&timer);
		loop_free(&loop);
	}
	clock_ms = 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(timers_wait_and_repeat),
		cmocka_unit_test(timers_of_whole_seconds_meet),
		cmocka_unit_test(timers_can_be_moved_and_cancelled),
		cmocka_unit_test(timers_without_delay_hold_up_nobody),
		cmocka_unit_test(timers_without_delay_may_end_each_other),
		cmocka_unit_test(signals_come_on_the_loop),
		cmocka_unit_test(slow_calls_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
