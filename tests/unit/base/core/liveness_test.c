/* What connections to one peer know together, and when they have the kernel probe. */
#include "base/core/liveness.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/core/sock.h"

enum { FD = 99, START_MS = 1000 * 1000 };

static struct sock_received kernel; /* what it says of every connection */
static bool kernel_cannot, probing;

bool __wrap_sock_received(int fd, struct sock_received *r);
bool __wrap_sock_probe(int fd, bool on);

bool
__wrap_sock_received(int fd, struct sock_received *r)
{
	assert_int_equal(fd, FD);
	*r = kernel;
	return true;
}

bool
__wrap_sock_probe(int fd, bool on)
{
	assert_int_equal(fd, FD);
	probing = on && !kernel_cannot;
	return !on || !kernel_cannot;
}

static void
one_peer_has_one_life(void **state)
{
	struct liveness *all = liveness_new();
	struct liveness_line a, b, other;

	(void)state;
	liveness_join(all, "hub:10000", &a, START_MS);
	assert_true(liveness_alone(&a));
	liveness_join(all, "hub:10000", &b, START_MS + 10);
	liveness_join(all, "other:10000", &other, START_MS + 20);
	assert_false(liveness_alone(&a));
	assert_true(liveness_alone(&other));
	liveness_heard(&b, START_MS + 5000);
	assert_int_equal(liveness_link_ms(&a), START_MS + 5000);
	assert_int_equal(liveness_program_ms(&a), START_MS + 5000);
	assert_int_equal(a.heard_ms, START_MS);
	assert_int_equal(liveness_link_ago_ms(&a, START_MS + 5007), 7);
	assert_int_equal(liveness_program_ago_ms(&a, START_MS + 5007), 7);
	assert_int_equal(liveness_link_ago_ms(&a, START_MS + 4980), 0); /* another loop's clock */
	assert_int_equal(liveness_program_ago_ms(&a, START_MS + 4980), 0);
	assert_int_equal(liveness_link_ms(&other), START_MS + 20);
	liveness_leave(&b);
	assert_true(liveness_alone(&a));
	liveness_leave(&b); /* nothing happens */
	liveness_leave(&a);
	liveness_leave(&other);
	/* A peer that comes again has no past. */
	liveness_join(all, "hub:10000", &a, START_MS + 9000);
	assert_int_equal(liveness_link_ms(&a), START_MS + 9000);
	liveness_leave(&a);
	liveness_free(&all);
	assert_null(all);
}

/* Of probes the kernel tells the number alone: they count at a look soon after another one. */
static void
probes_are_seen_by_their_number(void **state)
{
	struct liveness *all = liveness_new();
	struct liveness_line line;
	uint64_t now = START_MS;

	(void)state;
	liveness_join(all, "node", &line, now);
	kernel = (struct sock_received){.segments = 7, .ago_ms = 100};
	liveness_look(&line, FD, now += 8000);
	assert_int_equal(liveness_link_ms(&line), now - 100); /* an acknowledgement */
	kernel = (struct sock_received){.segments = 8, .ago_ms = 8100};
	liveness_look(&line, FD, now += 8000);
	assert_int_equal(liveness_link_ms(&line), now - 8100); /* some time since the last look */
	kernel.ago_ms += LIVENESS_LOOK_MS;
	liveness_look(&line, FD, now += LIVENESS_LOOK_MS);
	assert_int_equal(liveness_link_ms(&line), now - LIVENESS_LOOK_MS - 8100);
	kernel.ago_ms += LIVENESS_LOOK_MS;
	kernel.segments++;
	liveness_look(&line, FD, now += LIVENESS_LOOK_MS);
	assert_int_equal(liveness_link_ms(&line), now);
	assert_int_equal(liveness_program_ms(&line), START_MS); /* the program said nothing */
	liveness_doubt(&line, now - 5);
	assert_int_equal(liveness_link_ms(&line), now);
	liveness_doubt(&line, now + 5);
	assert_int_equal(liveness_link_ms(&line), now + 5);
	liveness_leave(&line);
	liveness_free(&all);
}

static void
an_answer_ends_the_probing(void **state)
{
	struct liveness *all = liveness_new();
	struct liveness_line line;
	uint64_t now = START_MS;

	(void)state;
	kernel_cannot = true;
	liveness_join(all, "hub", &line, now);
	assert_false(liveness_probe(&line, FD, now));
	assert_int_equal(line.probing_ms, 0);
	kernel_cannot = false;
	kernel = (struct sock_received){.segments = 1, .ago_ms = 8600};
	liveness_look(&line, FD, now += 8600);
	assert_true(liveness_probe(&line, FD, now));
	assert_true(probing);
	kernel.ago_ms += 100;
	liveness_look(&line, FD, now += 100);
	assert_true(probing);
	kernel = (struct sock_received){.segments = 2, .ago_ms = 20};
	liveness_look(&line, FD, now += 100);
	assert_false(probing);
	assert_int_equal(line.probing_ms, 0);
	assert_int_equal(liveness_link_ms(&line), now);
	liveness_leave(&line);
	liveness_free(&all);
}

static void *
hear_often(void *arg)
{
	struct liveness_line *line = arg;

	for (uint64_t at_ms = START_MS; at_ms <= START_MS + 100 * 1000; at_ms++)
		liveness_heard(line, at_ms);
	return NULL;
}

/* Connections of one peer on two loops: no later time is lost to an earlier one. */
static void
times_only_grow(void **state)
{
	struct liveness *all = liveness_new();
	struct liveness_line a, b;
	uint64_t last_ms = 0, now_ms;
	pthread_t thread;

	(void)state;
	liveness_join(all, "node", &a, START_MS);
	liveness_join(all, "node", &b, START_MS);
	assert_int_equal(pthread_create(&thread, NULL, hear_often, &b), 0);
	for (int i = 0; i < 100 * 1000; i++) {
		liveness_heard(&a, START_MS + (uint64_t)i / 2);
		now_ms = liveness_program_ms(&a);
		assert_true(now_ms >= last_ms);
		last_ms = now_ms;
	}
	pthread_join(thread, NULL);
	assert_int_equal(liveness_link_ms(&a), START_MS + 100 * 1000);
	liveness_leave(&a);
	liveness_leave(&b);
	liveness_free(&all);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_peer_has_one_life),
		cmocka_unit_test(times_only_grow),
		cmocka_unit_test(probes_are_seen_by_their_number),
		cmocka_unit_test(an_answer_ends_the_probing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
