#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/core/loop.h"

enum { POSTS = 2000, POSTERS = 4 };

struct service_stats {
	struct loop *loop;
	struct watch *watch, *other;
	struct timer *timer;
	int pair[2];
	unsigned calls, other_calls;
	bool in_order;
};

static struct loop *
new_loop(void)
{
	struct loop *loop = NULL;

	assert_int_equal(loop_new(&loop, NULL), 0);
	return loop;
}

/* libc's, but for the calls that the test makes fail. */
static unsigned n_failing;
static int failing_errno;
static int sets_left = -1; /* then there are no descriptors for more; -1: there are */

int
epoll_create1(int flags)
{
	if (sets_left == 0) {
		errno = EMFILE;
		return -1;
	}
	sets_left -= sets_left > 0;
	return (int)syscall(SYS_epoll_create1, flags);
}

int
epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
	if (n_failing > 0) {
		n_failing--;
		errno = failing_errno;
		return -1;
	}
	return (int)syscall(SYS_epoll_ctl, epoll, op, fd, event);
}

/* --- posting -------------------------------------------------------------------------------- */

struct poster {
	pthread_t thread;
	struct loop *loop;
	struct service_stats *tally;
	unsigned next_seen; /* number expected next; touched by the loop's thread only */
	struct posted {
		struct poster *poster;
		unsigned number;
	} posted[POSTS];
};

static void
on_posted(void *arg)
{
	struct posted *p = arg;
	struct service_stats *t = p->poster->tally;

	if (p->number != p->poster->next_seen++)
		t->in_order = false;
	if (++t->calls == POSTS * POSTERS)
		loop_stop(p->poster->loop);
}

static void *
post_all(void *arg)
{
	struct poster *p = arg;

	for (unsigned i = 0; i < POSTS; i++) {
		p->posted[i] = (struct posted){.poster = p, .number = i};
		loop_post(p->loop, on_posted, &p->posted[i]);
	}
	return NULL;
}

static void
runs_posts_of_all_threads_in_order(void **state)
{
	struct service_stats t = {.in_order = true};
	struct loop *loop = new_loop();
	struct poster *posters = xcalloc(POSTERS, sizeof *posters);

	(void)state;
	for (int i = 0; i < POSTERS; i++) {
		posters[i].loop = loop;
		posters[i].tally = &t;
		assert_int_equal(
			pthread_create(&posters[i].thread, NULL, post_all, &posters[i]), 0);
	}
	loop_run(loop);
	for (int i = 0; i < POSTERS; i++)
		pthread_join(posters[i].thread, NULL);
	assert_int_equal(t.calls, POSTS * POSTERS);
	assert_true(t.in_order);
	loop_free(&loop);
	assert_null(loop);
	free(posters);
}

static void
post_once_more(void *arg)
{
	struct service_stats *t = arg;

	if (++t->calls == 1)
		loop_post(t->loop, post_once_more, t);
}

static void
runs_what_is_posted_from_a_post_and_at_the_end(void **state)
{
	struct service_stats t = {0};

	(void)state;
	t.loop = new_loop();
	loop_post(t.loop, post_once_more, &t);
	loop_turn(t.loop);
	loop_turn(t.loop);
	assert_int_equal(t.calls, 2);
	loop_post(t.loop, post_once_more, &t);
	loop_free(&t.loop); /* nothing posted is lost */
	assert_int_equal(t.calls, 3);
}

/* --- watches -------------------------------------------------------------------------------- */

static void
on_read(void *arg, int fd, unsigned events)
{
	struct service_stats *t = arg;
	char c;

	assert_int_equal(events, WATCH_READ); /* and no end */
	assert_int_equal(fd, t->pair[0]);
	t->calls++;
	assert_int_equal(read(fd, &c, 1), 1);
}

static void
tells_readiness_again_until_read(void **state)
{
	struct service_stats t = {0};

	(void)state;
	t.loop = new_loop();
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, t.pair), 0);
	t.watch = watch_start(t.loop, t.pair[0], WATCH_READ, on_read, &t);
	loop_turn(t.loop);
	assert_int_equal(t.calls, 0);
	assert_int_equal(write(t.pair[1], "ab", 2), 2);
	loop_turn(t.loop);
	loop_turn(t.loop);
	assert_int_equal(t.calls, 2);
	assert_int_equal(write(t.pair[1], "c", 1), 1);
	watch_set(t.watch, 0);
	loop_turn(t.loop);
	assert_int_equal(t.calls, 2);
	watch_set(t.watch, WATCH_READ);
	loop_turn(t.loop);
	assert_int_equal(t.calls, 3);
	watch_stop(&t.watch);
	assert_null(t.watch);
	close(t.pair[0]);
	close(t.pair[1]);
	loop_free(&t.loop);
}

/* Whichever of the two comes first stops both: the other must not be called any more. */
static void
on_read_stop_both(void *arg, int fd, unsigned events)
{
	struct service_stats *t = arg;

	(void)events;
	t->calls++;
	watch_stop(&t->watch);
	watch_stop(&t->other);
	close(t->pair[0]);
	close(t->pair[1]);
	(void)fd;
}

static void
calls_nothing_after_watch_stop(void **state)
{
	struct service_stats t = {0};

	(void)state;
	t.loop = new_loop();
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, t.pair), 0);
	assert_int_equal(write(t.pair[0], "x", 1), 1);
	assert_int_equal(write(t.pair[1], "x", 1), 1);
	t.watch = watch_start(t.loop, t.pair[0], WATCH_READ, on_read_stop_both, &t);
	t.other = watch_start(t.loop, t.pair[1], WATCH_READ, on_read_stop_both, &t);
	for (int i = 0; i < 5; i++)
		loop_turn(t.loop);
	assert_int_equal(t.calls, 1);
	loop_free(&t.loop);
}

static void
on_write(void *arg, int fd, unsigned events)
{
	struct service_stats *t = arg;

	(void)fd;
	t->calls += (events & WATCH_WRITE) != 0;
	watch_set(t->watch, WATCH_READ);
}

static void
tells_room_only_when_asked(void **state)
{
	struct service_stats t = {0};

	(void)state;
	t.loop = new_loop();
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, t.pair), 0);
	t.watch = watch_start(t.loop, t.pair[0], WATCH_READ, on_write, &t);
	loop_turn(t.loop);
	assert_int_equal(t.calls, 0);
	watch_set(t.watch, WATCH_READ | WATCH_WRITE);
	loop_turn(t.loop);
	loop_turn(t.loop);
	assert_int_equal(t.calls, 1);
	watch_stop(&t.watch);
	close(t.pair[0]);
	close(t.pair[1]);
	loop_free(&t.loop);
}

static void
on_count(void *arg, int fd, unsigned events)
{
	struct service_stats *t = arg;

	(void)fd;
	t->calls++;
	t->other_calls = events;
}

static void
on_stop(void *loop)
{
	loop_stop(loop);
}

static void
on_stop_loop(void *loop, int fd, unsigned events)
{
	(void)fd;
	(void)events;
	loop_stop(loop);
}

/* Ends stay: the kernel would tell them in each turn. */
static void
tells_ends_once(void **state)
{
	struct service_stats t = {0};

	(void)state;
	t.loop = new_loop();
	assert_int_equal(pipe(t.pair), 0);
	t.watch = watch_start(t.loop, t.pair[1], WATCH_HUP, on_count, &t);
	loop_turn(t.loop);
	assert_int_equal(t.calls, 0);
	watch_set(t.watch, WATCH_WRITE);
	close(t.pair[0]); /* EPOLLERR */
	loop_turn(t.loop);
	loop_turn(t.loop);
	assert_int_equal(t.calls, 1);
	assert_int_equal(t.other_calls, WATCH_HUP);
	watch_set(t.watch, WATCH_HUP);
	loop_turn(t.loop);
	assert_int_equal(t.calls, 2);
	watch_stop(&t.watch);
	close(t.pair[1]);

	/* Both sides have closed, and nothing broke. */
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, t.pair), 0);
	t.watch = watch_start(t.loop, t.pair[0], WATCH_HUP, on_count, &t);
	close(t.pair[1]);
	loop_turn(t.loop);
	assert_int_equal(t.calls, 2);
	watch_set(t.watch, WATCH_READ);
	loop_turn(t.loop);
	loop_turn(t.loop); /* until it is read */
	assert_int_equal(t.calls, 4);
	assert_int_equal(t.other_calls, WATCH_READ | WATCH_END);
	watch_stop(&t.watch);
	close(t.pair[0]);

	/* The writer of a pipe has gone: that is read, too. */
	assert_int_equal(pipe(t.pair), 0);
	t.watch = watch_start(t.loop, t.pair[0], WATCH_READ, on_count, &t);
	close(t.pair[1]);
	loop_turn(t.loop);
	assert_int_equal(t.calls, 5);
	assert_int_equal(t.other_calls, WATCH_READ);
	watch_stop(&t.watch);
	close(t.pair[0]);
	loop_free(&t.loop);
}

/* Of watches that were stopped nothing is kept: a program has millions of them in its time. */
static void
stopped_watches_cost_nothing(void **state)
{
	enum { WATCHES = 10000 };
	struct service_stats t = {0};
	size_t before;

	(void)state;
	t.loop = new_loop();
	assert_int_equal(pipe(t.pair), 0);
	before = mallinfo2().uordblks;
	for (int i = 0; i < WATCHES; i++) {
		t.watch = watch_start(t.loop, t.pair[0], WATCH_READ, on_count, &t);
		watch_stop(&t.watch);
		loop_turn(t.loop);
	}
	assert_true(mallinfo2().uordblks <= before + WATCHES);
	close(t.pair[0]);
	close(t.pair[1]);
	loop_free(&t.loop);
}

/* The kernel is told late of a watch that is deferred, and never if it is stopped before. */
static void
deferred_watches(void **state)
{
	struct service_stats t = {0}, none = {0};

	(void)state;
	t.loop = new_loop();
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, t.pair), 0);
	assert_int_equal(send(t.pair[1], "x", 1, 0), 1);
	t.watch = watch_start(t.loop, t.pair[0], WATCH_READ, on_count, &t);
	watch_defer(t.watch, true);
	t.other = watch_start(t.loop, t.pair[0], WATCH_READ, on_count, &none);
	watch_defer(t.other, true);
	loop_turn(t.loop);
	assert_int_equal(t.calls, 0);
	watch_stop(&t.other);
	t.timer = timer_new(t.loop, on_stop, t.loop);
	timer_start(t.timer, 200, 0);
	while (t.calls == 0 && timer_active(t.timer))
		loop_turn(t.loop);
	assert_int_equal(t.calls, 1);
	assert_int_equal(none.calls, 0);
	watch_stop(&t.watch);

	/* or at once, when its owner changes its mind */
	t.watch = watch_start(t.loop, t.pair[0], WATCH_READ, on_count, &t);
	watch_defer(t.watch, true);
	loop_turn(t.loop);
	watch_defer(t.watch, false);
	loop_turn(t.loop);
	assert_int_equal(t.calls, 2);
	watch_stop(&t.watch);
	timer_free(&t.timer);
	close(t.pair[0]);
	close(t.pair[1]);
	loop_free(&t.loop);
}

/* A deferred watch ends the wait of a loop that has nothing else to do, or not so soon. */
static void
deferred_watches_end_a_wait(void **state)
{
	struct service_stats t = {0};

	(void)state;
	t.loop = new_loop();
	alarm(60); /* it would wait forever */
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, t.pair), 0);
	assert_int_equal(send(t.pair[1], "x", 1, 0), 1);
	t.timer = timer_new(t.loop, on_stop, t.loop);
	for (int i = 0; i < 2; i++) {
		t.watch = watch_start(t.loop, t.pair[0], WATCH_READ, on_stop_loop, t.loop);
		watch_defer(t.watch, true);
		loop_run(t.loop);
		watch_stop(&t.watch);
		timer_start(t.timer, 3600 * 1000, 0);
	}
	alarm(0);
	timer_free(&t.timer);
	close(t.pair[0]);
	close(t.pair[1]);
	loop_free(&t.loop);
}

/* The kernel bounds how much a user watches, and may have no memory. */
static void
what_the_kernel_does_not_take_is_tried_again(void **state)
{
	static const int errors[] = {ENOSPC, ENOMEM};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(errors); i++) {
		struct service_stats t = {.loop = new_loop()};
		struct loop_lag told;

		loop_turn(t.loop); /* libuv's own */
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, t.pair), 0);
		assert_int_equal(send(t.pair[1], "x", 1, 0), 1);
		t.watch = watch_start(t.loop, t.pair[0], WATCH_READ, on_stop_loop, t.loop);
		failing_errno = errors[i];
		n_failing = 3;
		loop_run(t.loop);
		assert_int_equal(n_failing, 0);
		loop_lag(t.loop, &told);
		assert_int_equal(told.unwatched, 3);
		watch_stop(&t.watch);
		close(t.pair[0]);
		close(t.pair[1]);
		loop_free(&t.loop);
	}
}

static void
on_read_pause_other(void *arg, int fd, unsigned events)
{
	struct service_stats *t = arg;

	(void)events;
	t->calls++;
	watch_set(fd == t->pair[0] ? t->other : t->watch, 0);
}

/* What one call no longer wants is not told by the same turn, nor lost by it. */
static void
changes_count_at_once(void **state)
{
	struct service_stats t = {0};

	(void)state;
	t.loop = new_loop();
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, t.pair), 0);
	t.watch = watch_start(t.loop, t.pair[0], WATCH_READ, on_read_pause_other, &t);
	t.other = watch_start(t.loop, t.pair[1], WATCH_READ, on_read_pause_other, &t);
	loop_turn(t.loop);
	assert_int_equal(write(t.pair[0], "x", 1), 1);
	assert_int_equal(write(t.pair[1], "x", 1), 1);
	loop_turn(t.loop);
	assert_int_equal(t.calls, 1);
	watch_set(t.watch, WATCH_READ);
	watch_set(t.other, WATCH_READ);
	loop_turn(t.loop);
	assert_int_equal(t.calls, 2);
	watch_stop(&t.watch);
	watch_stop(&t.other);
	t.watch = watch_start(t.loop, t.pair[0], WATCH_READ, on_read_pause_other, &t);
	watch_stop(&t.watch); /* before the kernel knew of it */
	loop_turn(t.loop);
	assert_int_equal(t.calls, 2);
	close(t.pair[0]);
	close(t.pair[1]);
	loop_free(&t.loop);
}

static void
on_read_once(void *arg, int fd, unsigned events)
{
	struct service_stats *t = arg;

	(void)events;
	t->calls++;
	watch_stop(fd == t->pair[0] ? &t->other : &t->watch);
	watch_set(fd == t->pair[0] ? t->watch : t->other, 0);
	loop_turn(t->loop);
}

/* A turn within a call of a watch leaves alone what the outer one may still name. */
static void
a_turn_within_a_turn(void **state)
{
	struct service_stats t = {0};

	(void)state;
	t.loop = new_loop();
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, t.pair), 0);
	assert_int_equal(write(t.pair[0], "x", 1), 1);
	assert_int_equal(write(t.pair[1], "x", 1), 1);
	t.watch = watch_start(t.loop, t.pair[0], WATCH_READ, on_read_once, &t);
	t.other = watch_start(t.loop, t.pair[1], WATCH_READ, on_read_once, &t);
	loop_turn(t.loop);
	assert_int_equal(t.calls, 1);
	watch_stop(&t.watch);
	watch_stop(&t.other);
	close(t.pair[0]);
	close(t.pair[1]);
	loop_free(&t.loop);
}

static void
on_soon_turn(void *arg)
{
	struct service_stats *t = arg;

	if (t->calls++ > 0)
		return;
	timer_start(t->timer, 0, 0);
	loop_turn(t->loop); /* runs both timers once */
	assert_int_equal(t->calls, 3);
	timer_start(t->timer, 0, 0);
}

static void
on_soon(void *arg)
{
	struct service_stats *t = arg;

	t->calls++;
}

/* A timer without delay may turn the loop; what is started after that waits for the next turn. */
static void
a_turn_within_a_timer(void **state)
{
	struct service_stats t = {0};
	struct timer *second;

	(void)state;
	t.loop = new_loop();
	t.timer = timer_new(t.loop, on_soon_turn, &t);
	second = timer_new(t.loop, on_soon, &t);
	timer_start(t.timer, 0, 0);
	timer_start(second, 0, 0);
	loop_turn(t.loop);
	assert_int_equal(t.calls, 3);
	assert_true(timer_active(t.timer));
	assert_false(timer_active(second));
	loop_turn(t.loop);
	assert_int_equal(t.calls, 4);
	assert_false(timer_active(t.timer));
	timer_free(&t.timer);
	timer_free(&second);
	loop_free(&t.loop);
}

static void
on_soon_stop(void *arg)
{
	loop_stop(((struct service_stats *)arg)->loop);
}

/* A stop that comes in a turn is not lost: the next run ends at once, the one after it runs. */
static void
a_stop_within_a_turn(void **state)
{
	struct service_stats t = {0};

	(void)state;
	t.loop = new_loop();
	t.timer = timer_new(t.loop, on_soon_stop, &t);
	timer_start(t.timer, 0, 0);
	loop_turn(t.loop);
	assert_false(timer_active(t.timer));
	timer_start(t.timer, 0, 0);
	loop_run(t.loop);
	assert_true(timer_active(t.timer));
	loop_run(t.loop);
	assert_false(timer_active(t.timer));
	timer_free(&t.timer);
	loop_free(&t.loop);
}

/* Without descriptors there is no loop, and nothing is left of it. */
static void
no_descriptors(void **state)
{
	struct loop *loop = NULL;

	(void)state;
	for (int sets = 0; sets < 2; sets++) {
		struct err err = {0};

		sets_left = sets;
		assert_int_equal(loop_new(&loop, &err), -EMFILE);
		sets_left = -1;
		assert_null(loop);
		assert_string_equal(err.text, "event loop: too many open files");
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(runs_posts_of_all_threads_in_order),
		cmocka_unit_test(runs_what_is_posted_from_a_post_and_at_the_end),
		cmocka_unit_test(tells_readiness_again_until_read),
		cmocka_unit_test(calls_nothing_after_watch_stop),
		cmocka_unit_test(tells_room_only_when_asked),
		cmocka_unit_test(tells_ends_once),
		cmocka_unit_test(stopped_watches_cost_nothing),
		cmocka_unit_test(deferred_watches),
		cmocka_unit_test(deferred_watches_end_a_wait),
		cmocka_unit_test(what_the_kernel_does_not_take_is_tried_again),
		cmocka_unit_test(changes_count_at_once),
		cmocka_unit_test(a_turn_within_a_turn),
		cmocka_unit_test(a_turn_within_a_timer),
		cmocka_unit_test(a_stop_within_a_turn),
		cmocka_unit_test(no_descriptors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
