#include "lb/balance.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "lb/targets.h"

enum { N = 5 };

static struct balance_node nodes[N], *places[N];
static struct balance b;
static uint64_t seed;

static uint64_t
next_random(void)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return seed ^ seed >> 29;
}

static int
setup(void **state)
{
	(void)state;
	memset(nodes, 0, sizeof nodes);
	seed = 42;
	for (int i = 0; i < N; i++) {
		places[i] = &nodes[i];
		nodes[i].hash = next_random();
	}
	b = (struct balance){.nodes = places, .n = N};
	return 0;
}

static int
pick(enum lb_policy policy, uint64_t key)
{
	const struct balance_ask ask = {
		.policy = policy, .now_ms = 1000, .random = next_random(), .key = key};
	struct balance_node *n = balance_pick(&b, &ask);

	return n == NULL ? -1 : (int)(n - nodes);
}

static void
round_robin_goes_round(void **state)
{
	(void)state;
	for (int i = 0; i < 3 * N; i++)
		assert_int_equal(pick(LB_ROUND_ROBIN, 0), i % N);
	nodes[1].down_until_ms = 2000;
	for (int i = 0; i < N; i++)
		assert_int_not_equal(pick(LB_ROUND_ROBIN, 0), 1);
}

static void
random_takes_all_alike(void **state)
{
	int taken[N] = {0};

	(void)state;
	for (int i = 0; i < 5000; i++)
		taken[pick(LB_RANDOM, 0)]++;
	for (int i = 0; i < N; i++)
		assert_in_range(taken[i], 800, 1200);
}

static void
least_request_avoids_the_busy(void **state)
{
	int taken[N] = {0};

	(void)state;
	nodes[2].in_flight = 100;
	for (int i = 0; i < 1000; i++)
		taken[pick(LB_LEAST_REQUEST, 0)]++;
	assert_int_equal(taken[2], 0);
	assert_true(taken[0] > 100 && taken[4] > 100);
	/* Two choices keep the load level. */
	memset(nodes, 0, sizeof nodes);
	for (int i = 0; i < 1000; i++)
		nodes[pick(LB_DEFAULT, 0)].in_flight++;
	for (int i = 0; i < N; i++)
		assert_in_range(nodes[i].in_flight, 190, 210);
}

static void
ewma_prefers_the_quick(void **state)
{
	int taken[N] = {0};

	(void)state;
	for (int i = 0; i < N; i++)
		balance_observe(&nodes[i], i == 3 ? 50000 : 500, 1000);
	for (int i = 0; i < 1000; i++)
		taken[pick(LB_EWMA, 0)]++;
	assert_int_equal(taken[3], 0);
	/* A peak counts at once, and is forgotten with time. */
	balance_observe(&nodes[0], 90000, 1001);
	assert_int_equal(nodes[0].ewma_us, 90000);
	balance_observe(&nodes[0], 500, 6001);
	assert_in_range(nodes[0].ewma_us, 40000, 50000);
	balance_observe(&nodes[0], 500, 60000);
	assert_int_equal(nodes[0].ewma_us, 500);
}

static void
hashing_is_stable(void **state)
{
	int first[500], taken[N] = {0}, moved = 0;

	(void)state;
	for (int i = 0; i < 500; i++) {
		first[i] = pick(LB_CONSISTENT_HASH, (uint64_t)i);
		taken[first[i]]++;
		assert_int_equal(pick(LB_CONSISTENT_HASH, (uint64_t)i), first[i]);
	}
	for (int i = 0; i < N; i++)
		assert_in_range(taken[i], 50, 150);
	b.n = N - 1; /* the last one goes: only its keys move */
	for (int i = 0; i < 500; i++) {
		int now = pick(LB_CONSISTENT_HASH, (uint64_t)i);

		if (first[i] != N - 1)
			assert_int_equal(now, first[i]);
		moved += now != first[i];
	}
	assert_int_equal(moved, taken[N - 1]);
}

static void
never_below_one(void **state)
{
	static const enum lb_policy all[] = {
		LB_ROUND_ROBIN, LB_RANDOM, LB_LEAST_REQUEST, LB_EWMA, LB_CONSISTENT_HASH};

	(void)state;
	for (size_t p = 0; p < ARRAY_LEN(all); p++) {
		struct balance_ask ask = {
			.policy = all[p], .now_ms = 1000, .avoid = places, .n_avoid = N};

		setup(NULL);
		for (int i = 0; i < N; i++)
			nodes[i].down_until_ms = 2000;
		assert_int_not_equal(
			pick(all[p], 0), -1); /* all are down: any is better than none */
		nodes[3].down_until_ms = 1000;
		for (int i = 0; i < 100; i++)
			assert_int_equal(pick(all[p], (uint64_t)i), 3);
		assert_null(balance_pick(&b, &ask)); /* all were tried */
		ask.n_avoid = N - 1;
		assert_ptr_equal(balance_pick(&b, &ask), &nodes[N - 1]);
		b.n = 0;
		assert_int_equal(pick(all[p], 0), -1);
	}
}

static void
back_off_grows(void **state)
{
	struct target t = {.refs = 1};
	uint64_t now = 5000, wait = 1000;

	(void)state;
	assert_false(target_failed(&t, TARGET_SILENT, now, 0)); /* once is no proof */
	assert_true(target_failed(&t, TARGET_SILENT, now, 0));
	for (int i = 0; i < 10; i++) {
		assert_int_equal(t.node.down_until_ms, now + wait);
		now = t.node.down_until_ms;
		assert_true(target_failed(&t, TARGET_REFUSED, now, 0));
		wait = MIN(wait * 2, (uint64_t)60000);
		assert_false(
			target_failed(&t, TARGET_REFUSED, now, 0)); /* was on its way already */
		assert_int_equal(t.node.down_until_ms, now + wait);
	}
	now = t.node.down_until_ms;
	assert_true(target_failed(&t, TARGET_REFUSED, now, UINT64_MAX)); /* with jitter */
	assert_in_range(t.node.down_until_ms - now, 60001, 75000);
	target_worked(&t);
	assert_int_equal(t.node.down_until_ms, 0);
	assert_true(target_failed(&t, TARGET_REFUSED, now, 0));
	assert_int_equal(t.node.down_until_ms, now + 1000);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(round_robin_goes_round, setup),
		cmocka_unit_test_setup(random_takes_all_alike, setup),
		cmocka_unit_test_setup(least_request_avoids_the_busy, setup),
		cmocka_unit_test_setup(ewma_prefers_the_quick, setup),
		cmocka_unit_test_setup(hashing_is_stable, setup),
		cmocka_unit_test_setup(never_below_one, setup),
		cmocka_unit_test(back_off_grows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
