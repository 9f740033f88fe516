#include "lb/balance/balance.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "lb/balance/affinity.h"
#include "lb/balance/hashkey.h"
#include "lb/balance/maglev.h"
#include "lb/balance/targets.h"

enum { N = 5 };

static struct balance_node nodes[N], *places[N];
static struct balance b;
static struct shared shared[N];
static uint64_t seed;

static uint64_t
next_random(void)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return seed ^ seed >> 29;
}

/* The first `first` nodes are one tier, the others another. */
static void
use_tiers(uint16_t first)
{
	const uint16_t ends[BALANCE_TIERS] = {0, first, N, N};

	b.cursor = 0;
	balance_fini(&b);
	balance_init(&b, xmemdup(places, sizeof places), ends);
}

static int
setup(void **state)
{
	(void)state;
	memset(nodes, 0, sizeof nodes);
	memset(shared, 0, sizeof shared);
	seed = 42;
	for (int i = 0; i < N; i++) {
		places[i] = &nodes[i];
		nodes[i].hash = next_random();
	}
	use_tiers(N);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	balance_fini(&b);
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
	/* What is old counts less: the slow one is asked again some time. */
	for (int i = 0; i < N; i++)
		nodes[i].seen_ms = i == 3 ? 1000 : 10999;
	for (int i = 0; i < 1000; i++) {
		const struct balance_ask ask = {
			.policy = LB_EWMA, .now_ms = 11000, .random = next_random()};

		taken[balance_pick(&b, &ask) - nodes]++;
	}
	assert_in_range(taken[3], 200, 1000);
	/* But one that leaves requests open, or has never answered, does not get more and more. */
	for (int i = 0; i < N; i++)
		nodes[i].in_flight = i < 3 ? 1 : 10;
	nodes[4].ewma_us = 0;
	memset(taken, 0, sizeof taken);
	for (int i = 0; i < 1000; i++) {
		const struct balance_ask ask = {
			.policy = LB_EWMA, .now_ms = 12000, .random = next_random()};

		taken[balance_pick(&b, &ask) - nodes]++;
	}
	assert_in_range(taken[3] + taken[4], 0, 300); /* both drawn: a tenth, and 200 at random */
	/* A request that has been answered, and goes on for hours, keeps nobody away. */
	for (int i = 0; i < N; i++)
		nodes[i].in_flight = 1;
	memset(taken, 0, sizeof taken);
	for (int i = 0; i < 1000; i++) {
		const struct balance_ask ask = {
			.policy = LB_EWMA, .now_ms = 12000, .random = next_random()};

		taken[balance_pick(&b, &ask) - nodes]++;
	}
	assert_true(taken[3] > 200);
	for (int i = 0; i < N; i++)
		nodes[i].in_flight = 0;
	nodes[4].ewma_us = 500;
	/* A failure counts as well. */
	balance_punish(&nodes[0], 1000);
	assert_int_equal(nodes[0].ewma_us, 100000);
	for (int i = 0; i < 100; i++)
		assert_int_not_equal(pick(LB_EWMA, 0), 0);
	nodes[0].ewma_us = 500;
	nodes[0].seen_ms = 1000;
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
	int first[500], taken[N] = {0};

	(void)state;
	for (int i = 0; i < 500; i++) {
		first[i] = pick(LB_CONSISTENT_HASH, (uint64_t)i);
		taken[first[i]]++;
		assert_int_equal(pick(LB_CONSISTENT_HASH, (uint64_t)i), first[i]);
	}
	for (int i = 0; i < N; i++)
		assert_in_range(taken[i], 50, 150);
	/* One is down: its keys alone move, to all others, and come back. */
	nodes[2].down_until_ms = 2000;
	memset(taken, 0, sizeof taken);
	for (int i = 0; i < 500; i++) {
		int now = pick(LB_CONSISTENT_HASH, (uint64_t)i);

		if (first[i] == 2)
			taken[now]++;
		else
			assert_int_equal(now, first[i]);
	}
	for (int i = 0; i < N; i++)
		assert_in_range(taken[i], i == 2 ? 0 : 5, i == 2 ? 0 : 60);
	nodes[2].down_until_ms = 0;
	for (int i = 0; i < 500; i++)
		assert_int_equal(pick(LB_CONSISTENT_HASH, (uint64_t)i), first[i]);
}

enum { TEN = 10 };

/* Which of the hashes each slot has, instead of its index. */
static void
table_of(uint64_t owner[MAGLEV_SLOTS], const uint64_t *hashes, size_t n)
{
	uint16_t table[MAGLEV_SLOTS];

	maglev_fill(table, hashes, n);
	for (size_t i = 0; i < MAGLEV_SLOTS; i++)
		owner[i] = hashes[table[i]];
}

static void
one_of_ten_moves_a_tenth(void **state)
{
	uint64_t hashes[TEN], turned[TEN], before[MAGLEV_SLOTS], after[MAGLEV_SLOTS];
	int share[TEN] = {0}, moved = 0;

	(void)state;
	for (int i = 0; i < TEN; i++)
		hashes[i] = turned[TEN - 1 - i] = next_random();
	table_of(before, hashes, TEN);
	table_of(after, turned, TEN);
	assert_memory_equal(before, after, sizeof before); /* whatever their order */
	for (int i = 0; i < TEN; i++) {
		for (int s = 0; s < MAGLEV_SLOTS; s++)
			share[i] += before[s] == hashes[i];
		assert_in_range(share[i], MAGLEV_SLOTS / TEN, MAGLEV_SLOTS / TEN + 1);
	}
	table_of(after, hashes, TEN - 1);
	for (int s = 0; s < MAGLEV_SLOTS; s++)
		moved += before[s] != after[s];
	assert_in_range(moved, share[TEN - 1], MAGLEV_SLOTS * 14 / 100);
}

static void
the_nearest_tier_first(void **state)
{
	static const enum lb_policy all[] = {
		LB_ROUND_ROBIN, LB_RANDOM, LB_LEAST_REQUEST, LB_EWMA, LB_CONSISTENT_HASH};

	(void)state;
	for (size_t p = 0; p < ARRAY_LEN(all); p++) {
		bool seen[N] = {false};

		setup(NULL);
		use_tiers(2);
		nodes[0].in_flight = nodes[1].in_flight = 1000; /* near and busy is still nearer */
		for (int i = 0; i < 200; i++)
			seen[pick(all[p], (uint64_t)i)] = true;
		assert_true(seen[0] && seen[1] && !seen[2] && !seen[3] && !seen[4]);
		nodes[0].down_until_ms = 2000;
		for (int i = 0; i < 20; i++)
			assert_int_equal(pick(all[p], (uint64_t)i), 1);
		nodes[1].shared = &shared[1];
		atomic_store(&shared[1].ill, true);
		memset(seen, 0, sizeof seen);
		for (int i = 0; i < 200; i++)
			seen[pick(all[p], (uint64_t)i)] = true;
		assert_true(!seen[0] && !seen[1] && seen[2] && seen[3] && seen[4]);
		/* No tier is left: panic, the nearest first. */
		for (int i = 2; i < N; i++)
			nodes[i].down_until_ms = 2000;
		assert_in_range(pick(all[p], 1), 0, 1);
		nodes[0].down_until_ms = 0;
		for (int i = 0; i < 20; i++)
			assert_int_equal(pick(all[p], (uint64_t)i), 0);
	}
}

/* --- several workers ------------------------------------------------------------------------ */

enum { THREADS = 4, ROUNDS = 100 * 1000, ALLOWED = 2 };
static struct {
	_Atomic unsigned in_use[2], taken, beyond;
} together;

static void *
work(void *arg)
{
	const struct balance_ask ask = {.policy = *(const enum lb_policy *)arg,
		.now_ms = 1000,
		.random = 1,
		.max_connections = ALLOWED};
	struct balance_node own[2] = {{.shared = &shared[0]}, {.shared = &shared[1]}}, *n;
	struct balance_node **of = xcalloc(2, sizeof *of);
	const uint16_t ends[BALANCE_TIERS] = {2, 2, 2, 2};
	struct balance mine = {0};

	of[0] = &own[0];
	of[1] = &own[1];
	balance_init(&mine, of, ends);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		n = balance_pick(&mine, &ask);
		if (n == NULL || !shared_take(n->shared, i, ALLOWED))
			continue;
		atomic_fetch_add(&together.taken, 1);
		if (atomic_fetch_add(&together.in_use[n - own], 1) >= ALLOWED)
			atomic_fetch_add(&together.beyond, 1);
		if (i % 16 == 0)
			sched_yield();
		atomic_fetch_sub(&together.in_use[n - own], 1);
		shared_give(n->shared, i);
	}
	balance_fini(&mine);
	return NULL;
}

static void
workers_keep_to_the_limit_together(void **state)
{
	static const enum lb_policy all[] = {LB_ROUND_ROBIN, LB_LEAST_REQUEST, LB_EWMA};
	static const struct shared unused;
	pthread_t threads[THREADS];

	(void)state;
	for (size_t p = 0; p < ARRAY_LEN(all); p++) {
		enum lb_policy policy = all[p];

		together.taken = 0;
		for (int i = 0; i < THREADS; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, work, &policy), 0);
		for (int i = 0; i < THREADS; i++)
			assert_int_equal(pthread_join(threads[i], NULL), 0);
		assert_int_equal(together.beyond, 0);
		assert_in_range(together.taken, ROUNDS / 10, THREADS * ROUNDS);
	}
	assert_memory_equal(&shared[0], &unused, sizeof unused);
	assert_memory_equal(&shared[1], &unused, sizeof unused);
}

static void
full_ones_are_passed_over(void **state)
{
	struct balance_ask ask = {
		.policy = LB_ROUND_ROBIN, .now_ms = 1000, .max_connections = 2, .avoid = places};

	(void)state;
	for (int i = 0; i < N; i++) {
		nodes[i].shared = &shared[i];
		atomic_store(&shared[i].in_use, i == 3 ? 1u : 2u);
	}
	for (int i = 0; i < N; i++)
		assert_ptr_equal(balance_pick(&b, &ask), &nodes[3]);
	assert_true(balance_any(&b, &ask));
	atomic_store(&shared[3].in_use, 2);
	nodes[1].down_until_ms = 2000; /* no panic over a limit */
	assert_null(balance_pick(&b, &ask));
	atomic_store(&shared[1].in_use, 1); /* nor while one that is up will have room */
	assert_null(balance_pick(&b, &ask));
	for (int i = 0; i < N; i++)
		nodes[i].down_until_ms = 2000;
	assert_ptr_equal(balance_pick(&b, &ask), &nodes[1]);
	for (int i = 0; i < N; i++)
		nodes[i].down_until_ms = i == 1 ? 2000 : 0;
	atomic_store(&shared[1].in_use, 2);
	assert_false(balance_any(&b, &ask));
	assert_true(balance_full(&b, &ask));
	assert_true(balance_untried(&b, &ask));
	ask.n_avoid = N;
	assert_false(balance_untried(&b, &ask));
	assert_false(balance_full(&b, &ask)); /* all were tried: that is why */
	ask.n_avoid = 0;
	ask.max_connections = 0;
	assert_non_null(balance_pick(&b, &ask));
}

static void
second_attempts_have_a_budget(void **state)
{
	struct budget left = {0};
	int spent = 0;

	(void)state;
	while (budget_spend(&left, 100000))
		spent++;
	assert_int_equal(spent, BUDGET_LEAST);
	for (int i = 0; i < 1000; i++)
		budget_ask(&left, 100000);
	for (spent = 0; budget_spend(&left, 100000);)
		spent++;
	assert_int_equal(spent, 200);
	assert_false(budget_spend(&left, 100000 + BUDGET_WINDOW_MS - 1));
	for (spent = 0; budget_spend(&left, 100000 + BUDGET_WINDOW_MS);)
		spent++;
	assert_int_equal(spent, 5); /* 500 asked, 105 spent, of 110 */
	for (spent = 0; budget_spend(&left, 100000 + 40 * BUDGET_WINDOW_MS);)
		spent++;
	assert_int_equal(spent, BUDGET_LEAST);
}

static void
clients_stay(void **state)
{
	struct affinity *a = affinity_new();
	uint64_t key = affinity_key(a, 1, 2, 80), other = affinity_key(a, 1, 2, 81), seen, mine,
		 won;

	(void)state;
	assert_true(key != other);
	assert_false(affinity_find(a, key, 5000, 10, &seen));
	mine = affinity_put(a, key, seen, 0xaaaa111122223333, 5000);
	assert_true(affinity_names(mine, key, 0xaaaa111122223333));
	/* Another worker that saw nothing either has to follow. */
	won = affinity_put(a, key, seen, 0xbbbb111122223333, 5000);
	assert_true(affinity_names(won, key, 0xaaaa111122223333));
	assert_false(affinity_names(won, key, 0xbbbb111122223333));
	assert_false(affinity_names(won, other, 0xaaaa111122223333));
	assert_false(affinity_names(0, 0, 0));
	assert_false(affinity_find(a, other, 5000, 10, &seen));
	/* Each use starts the time anew. */
	for (uint64_t now = 5000; now < 100000; now += 10000)
		assert_true(affinity_find(a, key, now, 10, &seen));
	assert_false(affinity_find(a, key, 106000, 10, &seen));
	won = affinity_put(a, key, seen, 0xbbbb111122223333, 106000);
	assert_true(affinity_names(won, key, 0xbbbb111122223333));
	assert_true(affinity_find(a, key, 106000, 10, &seen));
	/* Time wraps after 194 days. */
	affinity_put(a, other, 0, 0xcccc111122223333, ((1ull << 24) - 2) * 1000);
	assert_true(affinity_find(a, other, ((1ull << 24) + 2) * 1000, 10, &seen));
	assert_true(affinity_names(seen, other, 0xcccc111122223333));
	affinity_free(&a);
}

static void
clients_are_bounded(void **state)
{
	enum { MANY = 200000 };
	struct affinity *a = affinity_new();
	int known = 0;

	(void)state;
	for (uint32_t i = 0; i < MANY; i++) {
		uint64_t key = affinity_key(a, i, 2, 80), seen;

		assert_false(affinity_find(a, key, i, 10000, &seen));
		seen = affinity_put(a, key, seen, 0xaaaa111122223333, i);
		assert_true(affinity_names(seen, key, 0xaaaa111122223333));
	}
	for (uint32_t i = 0; i < MANY; i++) {
		uint64_t key = affinity_key(a, i, 2, 80), seen;

		known += affinity_find(a, key, MANY, 10000, &seen);
	}
	assert_in_range(known, 60000, 65536);
	affinity_free(&a);
}

static uint64_t
key_for(struct service *s, const char *fields)
{
	static struct http1_head head;
	char text[256];
	int n = snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: a\r\n%s\r\n", fields);

	assert_int_equal(http1_parse_request(&head, text, (size_t)n), 0);
	return hashkey_of(s, &head, 77);
}

static void
keys_come_from_fields_and_cookies(void **state)
{
	struct service s = {.hash_key = "X-User", .lb.hash_on = HASH_ON_HEADER};

	(void)state;
	assert_int_equal(key_for(&s, ""), 77); /* without it: the client's address */
	assert_int_not_equal(key_for(&s, "x-user: ann\r\n"), 77);
	assert_int_equal(key_for(&s, "x-user: ann\r\n"), key_for(&s, "X-USER:  ann \r\n"));
	assert_int_not_equal(key_for(&s, "X-User: ann\r\n"), key_for(&s, "X-User: bob\r\n"));
	assert_int_equal(key_for(&s, "X-Use: ann\r\nX-User2: ann\r\n"), 77);
	assert_int_equal(hashkey_of(&s, NULL, 77), 77);
	assert_int_equal(hashkey_of(NULL, NULL, 77), 77);
	s.hash_key = "sid";
	s.lb.hash_on = HASH_ON_COOKIE;
	assert_int_not_equal(key_for(&s, "Cookie: sid=1\r\n"), 77);
	assert_int_equal(key_for(&s, "Cookie: sid=1\r\n"),
		key_for(&s, "Cookie: xsid=3; a=b\r\ncookie: a=c;\t sid=1 ; sid=2\r\n"));
	assert_int_not_equal(key_for(&s, "Cookie: sid=1\r\n"), key_for(&s, "Cookie: sid=2\r\n"));
	assert_int_equal(key_for(&s, "Cookie: SID=1; sid; sidx=1;; =sid=\r\n"), 77);
	assert_int_equal(key_for(&s, "X-Sid: sid=1\r\n"), 77);
	s.lb.hash_on = HASH_ON_SOURCE_IP;
	assert_int_equal(key_for(&s, "Cookie: sid=1\r\n"), 77);
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
		balance_fini(&b);
		assert_int_equal(pick(all[p], 0), -1);
	}
}

/* Of 5000 requests, those that node 2 got, which came at 10000 and is to be spared for 1000 ms. */
static int
got_slowly(enum lb_policy policy, uint64_t now_ms)
{
	int taken = 0;

	for (int i = 0; i < 5000; i++) {
		const struct balance_ask ask = {.policy = policy,
			.now_ms = now_ms,
			.random = next_random(),
			.key = (uint64_t)i,
			.slow_start_ms = 1000};

		taken += balance_pick(&b, &ask) == &nodes[2];
	}
	return taken;
}

static void
who_is_back_starts_slowly(void **state)
{
	static const enum lb_policy alike[] = {LB_ROUND_ROBIN, LB_RANDOM};

	(void)state;
	for (size_t p = 0; p < ARRAY_LEN(alike); p++) {
		nodes[2].back_ms = 10000;
		assert_in_range(got_slowly(alike[p], 10000), 20, 90); /* a twentieth of 1000 */
		assert_in_range(got_slowly(alike[p], 10250), 200, 310);
		assert_in_range(got_slowly(alike[p], 10750), 680, 820);
		assert_in_range(got_slowly(alike[p], 11000), 900, 1100);
	}
	assert_true(got_slowly(LB_LEAST_REQUEST, 10250) < got_slowly(LB_LEAST_REQUEST, 11000) / 2);
	/* A key stays with its endpoint. */
	assert_int_equal(
		got_slowly(LB_CONSISTENT_HASH, 10000), got_slowly(LB_CONSISTENT_HASH, 11000));
	/* New: from the first look on. Well again: the same. Where nobody else is, it gets all. */
	nodes[2].back_ms = BALANCE_NEW;
	assert_in_range(got_slowly(LB_RANDOM, 20000), 20, 90);
	assert_int_equal(nodes[2].back_ms, 20000);
	nodes[2].back_ms = 0;
	nodes[2].shared = &shared[2];
	atomic_store(&shared[2].well_ms, 30000);
	assert_in_range(got_slowly(LB_RANDOM, 30000), 20, 90);
	for (int i = 0; i < N; i++)
		nodes[i].down_until_ms = i == 2 ? 0 : 40000;
	assert_int_equal(got_slowly(LB_RANDOM, 30000), 5000);
}

static void
hash_balance_bounds_a_hot_key(void **state)
{
	struct balance_ask ask = {
		.policy = LB_CONSISTENT_HASH, .now_ms = 1000, .key = 7, .hash_balance = 125};
	struct balance_node *home;

	(void)state;
	home = balance_pick(&b, &ask);
	for (int i = 0; i < 20; i++) /* one after the other: always the same */
		assert_ptr_equal(balance_pick(&b, &ask), home);
	for (uint32_t i = 1; i <= 400; i++) {
		struct balance_node *n = balance_pick(&b, &ask);

		n->in_flight++;
		assert_true(n->in_flight <= (i * 125 + 100 * N - 1) / (100 * N));
	}
	assert_int_equal(home->in_flight, 100); /* it keeps as much as it may */
	/* Those that are out do not count for the mean. */
	for (int i = 0; i < N; i++)
		nodes[i].in_flight = 0;
	for (int i = 0; i < N; i++)
		nodes[i].down_until_ms = &nodes[i] == home ? 0 : 2000;
	for (int i = 0; i < 50; i++) {
		assert_ptr_equal(balance_pick(&b, &ask), home);
		home->in_flight++;
	}
	ask.hash_balance = 0;
	for (int i = 0; i < N; i++)
		nodes[i].down_until_ms = 0;
	assert_ptr_equal(balance_pick(&b, &ask), home);
}

/* What another worker says counts, unless this one knows better. */
static void
what_others_say(void **state)
{
	struct shares shares;
	struct target t = {.refs = 1};
	struct targets *ts;
	const uint64_t now = 5000;

	(void)state;
	shares_init(&shares);
	ts = t.all = targets_new(&shares, NULL, 0);
	list_init(&t.ejected);
	t.heard_ms = now - 100;
	assert_false(target_told_failed(&t, TARGET_SILENT, now, 1000)); /* it spoke just now */
	assert_false(target_told_failed(&t, TARGET_RESET, now, 1000));
	assert_true(target_told_failed(&t, TARGET_REFUSED, now, 1000));
	assert_int_equal(t.node.down_until_ms, now + 1000);
	assert_ptr_equal(targets_ejected(ts)->next, &t.ejected);
	assert_true(target_is_suspect(&t));
	assert_false(target_told_failed(&t, TARGET_REFUSED, now, 9000)); /* known */
	target_told_works(&t, false, now);
	assert_int_equal(t.node.down_until_ms, 0);
	assert_true(list_empty(targets_ejected(ts)));
	assert_true(target_told_failed(&t, TARGET_RESET, now + 1000, 1000));
	target_told_works(&t, false, now); /* it takes connections, but that it always did */
	assert_int_equal(t.node.down_until_ms, now + 2000);
	target_told_works(&t, true, now);
	assert_int_equal(t.node.down_until_ms, 0);
	/* A trial that takes too long is over with it: its own failure later is no further one. */
	assert_true(target_told_failed(&t, TARGET_REFUSED, now, 1000));
	target_try(&t, now + 1000);
	assert_true(target_told_failed(&t, TARGET_REFUSED, now + 3000, 1000));
	assert_false(target_failed(&t, TARGET_REFUSED, now + 3001, 0));
	assert_int_equal(t.node.down_until_ms, now + 4000);
	target_worked(&t, now + 4000);
	targets_free(&ts);
	shares_fini(&shares);
}

static void
back_off_grows(void **state)
{
	struct shares shares;
	struct targets *ts;
	struct target t = {.refs = 1};
	uint64_t now = 5000, wait = 1000;

	(void)state;
	shares_init(&shares);
	ts = t.all = targets_new(&shares, NULL, 0);
	list_init(&t.ejected);
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
	assert_ptr_equal(targets_ejected(ts)->next, &t.ejected);
	target_worked(&t, now);
	assert_true(list_empty(targets_ejected(ts)));
	assert_int_equal(t.node.down_until_ms, 0);
	assert_true(target_failed(&t, TARGET_REFUSED, now, 0));
	assert_int_equal(t.node.down_until_ms, now + 1000);
	target_worked(&t, now);
	targets_free(&ts);
	shares_fini(&shares);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(round_robin_goes_round, setup, teardown),
		cmocka_unit_test_setup_teardown(random_takes_all_alike, setup, teardown),
		cmocka_unit_test_setup_teardown(least_request_avoids_the_busy, setup, teardown),
		cmocka_unit_test_setup_teardown(ewma_prefers_the_quick, setup, teardown),
		cmocka_unit_test_setup_teardown(hashing_is_stable, setup, teardown),
		cmocka_unit_test_setup_teardown(the_nearest_tier_first, setup, teardown),
		cmocka_unit_test_setup_teardown(full_ones_are_passed_over, setup, teardown),
		cmocka_unit_test_setup_teardown(
			workers_keep_to_the_limit_together, setup, teardown),
		cmocka_unit_test_setup_teardown(never_below_one, setup, teardown),
		cmocka_unit_test(one_of_ten_moves_a_tenth),
		cmocka_unit_test(back_off_grows),
		cmocka_unit_test(what_others_say),
		cmocka_unit_test_setup_teardown(who_is_back_starts_slowly, setup, teardown),
		cmocka_unit_test_setup_teardown(hash_balance_bounds_a_hot_key, setup, teardown),
		cmocka_unit_test(second_attempts_have_a_budget),
		cmocka_unit_test(clients_stay),
		cmocka_unit_test(clients_are_bounded),
		cmocka_unit_test(keys_come_from_fields_and_cookies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
