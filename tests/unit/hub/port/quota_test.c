#include "hub/port/quota.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { RATE = 100000, NOW = 1000 };

static const struct quota_limits limits = {
	.of = {{.streams = 2, .bytes_per_s = RATE}, {.streams = 1}}};

static void
streams_are_bounded(void **state)
{
	struct quota *q = quota_new(&limits);
	struct account *a = quota_take(q, QUOTA_CALLER, "a", NOW), *same, *node;

	(void)state;
	same = quota_take(q, QUOTA_CALLER, "a", NOW);
	assert_ptr_equal(a, same);
	assert_null(quota_take(q, QUOTA_CALLER, "a", NOW));
	node = quota_take(q, QUOTA_NODE, "a", NOW);
	assert_non_null(node);
	assert_null(quota_take(q, QUOTA_NODE, "a", NOW));
	quota_give(&same, NOW);
	same = quota_take(q, QUOTA_CALLER, "a", NOW);
	assert_ptr_equal(a, same);
	quota_give(&a, NOW);
	quota_give(&same, NOW);
	quota_give(&node, NOW);
	assert_null(a);
	quota_free(&q);
}

/* Request after request, each of its own: together no more than the rate and one burst. */
static void
short_requests_have_no_bucket_of_their_own(void **state)
{
	struct quota *q = quota_new(&limits);
	uint64_t moved = 0;

	(void)state;
	for (uint64_t now = NOW; now <= NOW + 10000; now += 5) {
		struct account *a = quota_take(q, QUOTA_CALLER, "a", now);
		size_t n = rate_room(quota_rate(a), now);

		rate_spend(quota_rate(a), n);
		moved += n;
		quota_give(&a, now);
	}
	assert_in_range(moved, 9 * RATE, 10 * RATE + RATE_BURST_LEAST);
	quota_free(&q);
}

static void
what_went_too_much_counts_against_the_next(void **state)
{
	struct quota *q = quota_new(&limits);
	struct buf text;
	struct account *a = quota_take(q, QUOTA_CALLER, "a", NOW);

	(void)state;
	buf_init(&text, BUF_UNLIMITED);
	assert_int_equal(rate_room(quota_rate(a), NOW), RATE_BURST_LEAST);
	rate_spend(quota_rate(a), RATE_BURST_LEAST + RATE);
	quota_give(&a, NOW);
	quota_state(q, &text);
	assert_string_equal(buf_str(&text), "[]"); /* it has no streams */
	a = quota_take(q, QUOTA_CALLER, "a", NOW + 900);
	assert_int_equal(rate_room(quota_rate(a), NOW + 900), 0);
	quota_give(&a, NOW + 900);
	a = quota_take(q, QUOTA_CALLER, "a", NOW + 2000);
	assert_int_equal(rate_room(quota_rate(a), NOW + 2000), RATE_BURST_LEAST);
	quota_give(&a, NOW + 2000);
	buf_fini(&text);
	quota_free(&q);
}

static void
spend_once(struct quota *q, unsigned i, size_t n, uint64_t now)
{
	struct account *a;
	char name[32];

	snprintf(name, sizeof name, "caller-%u", i);
	a = quota_take(q, QUOTA_CALLER, name, now);
	assert_true(rate_room(quota_rate(a), now) > 0);
	rate_spend(quota_rate(a), n);
	quota_give(&a, now);
}

/* Those that rest go, and those that do not are bounded. */
static void
idle_accounts_are_bounded(void **state)
{
	struct quota *q = quota_new(&limits);

	(void)state;
	for (unsigned i = 0; i < 1000; i++)
		spend_once(q, i, 1, NOW);
	assert_in_range(quota_idle(q), 900, 1000);
	for (unsigned i = 1000; i < 2000; i++) /* the thousand before have rested */
		spend_once(q, i, 1, NOW + 1000);
	assert_in_range(quota_idle(q), 900, 1000);
	for (unsigned i = 0; i < 3 * QUOTA_IDLE_MOST; i++)
		spend_once(q, 2000 + i, RATE * 10, NOW + 1000);
	assert_in_range(quota_idle(q), QUOTA_IDLE_MOST - 10, QUOTA_IDLE_MOST);
	quota_free(&q);
}

/* A new limit holds for those that rest, too. */
static void
other_limits_free_them(void **state)
{
	static const struct quota_limits none;
	struct quota *q = quota_new(&limits);
	struct account *a;

	(void)state;
	spend_once(q, 1, RATE * 10, NOW);
	assert_int_equal(quota_idle(q), 1);
	quota_adopt(q, &none);
	a = quota_take(q, QUOTA_NODE, "n", NOW);
	assert_int_equal(quota_idle(q), 0);
	quota_give(&a, NOW);
	quota_free(&q);
}

/* What describes a metric stands once, before all of its samples (promtool check metrics). */
static void
metrics_are_described_once(void **state)
{
	struct quota *q = quota_new(&limits);
	struct metrics m;
	unsigned n = 0;

	(void)state;
	metrics_init(&m);
	quota_metrics(q, &m);
	for (const char *at = buf_str(&m.out); (at = strstr(at, "# TYPE ")) != NULL; at++)
		n++;
	assert_int_equal(n, 2);
	assert_non_null(strstr(buf_str(&m.out), "edgeway_ingress_limited_total{by=\"node\"} 0\n"));
	metrics_fini(&m);
	quota_free(&q);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(streams_are_bounded),
		cmocka_unit_test(short_requests_have_no_bucket_of_their_own),
		cmocka_unit_test(what_went_too_much_counts_against_the_next),
		cmocka_unit_test(idle_accounts_are_bounded),
		cmocka_unit_test(other_limits_free_them),
		cmocka_unit_test(metrics_are_described_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
