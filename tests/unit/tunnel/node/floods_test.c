/* Which nodes get no tunnel after a flood, for how long, and what is told of them. Found by
 * tests/mutation. */
#include "tunnel/node/floods.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { START_MS = 5000, HOUR_MS = 60 * 60 * 1000 };

static void
check_state(const struct floods *f, uint64_t now_ms, const char *want)
{
	struct buf out;

	buf_init(&out, BUF_UNLIMITED);
	floods_state(f, now_ms, &out);
	assert_string_equal(buf_str(&out), want);
	buf_fini(&out);
}

static void
check_metrics(const struct floods *f, const char *cut, const char *slowed)
{
	struct metrics m;

	metrics_init(&m);
	floods_metrics(f, &m);
	assert_non_null(strstr(buf_str(&m.out), cut));
	assert_non_null(strstr(buf_str(&m.out), slowed));
	metrics_fini(&m);
}

static void
a_node_rests_for_its_time(void **state)
{
	struct floods *f = floods_new("hub");

	(void)state;
	assert_false(floods_rests(NULL, "edge-1", START_MS)); /* a hub without them */
	assert_false(floods_rests(f, "edge-1", START_MS));
	floods_note(f, "edge-1", START_MS);
	floods_note(f, "edge-2", START_MS + 1);
	assert_true(floods_rests(f, "edge-1", START_MS + FLOODS_REST_MS - 1));
	assert_false(floods_rests(f, "edge-1", START_MS + FLOODS_REST_MS));
	assert_true(floods_rests(f, "edge-2", START_MS + FLOODS_REST_MS));
	assert_false(floods_rests(f, "edge-3", START_MS + 1));
	floods_note(f, "edge-1", START_MS + FLOODS_REST_MS);
	assert_true(floods_rests(f, "edge-1", START_MS + FLOODS_REST_MS));
	floods_free(&f);
	assert_null(f);
	floods_free(&f);
}

/* Of more than there are places for, the last ones rest. */
static void
the_last_ones_rest(void **state)
{
	struct floods *f = floods_new("hub");
	char node[32];

	(void)state;
	for (int i = 0; i <= FLOODS_MOST; i++) {
		snprintf(node, sizeof node, "edge-%d", i);
		floods_note(f, node, START_MS);
	}
	assert_false(floods_rests(f, "edge-0", START_MS));
	for (int i = 1; i <= FLOODS_MOST; i++) {
		snprintf(node, sizeof node, "edge-%d", i);
		assert_true(floods_rests(f, node, START_MS));
	}
	check_state(f, START_MS,
		"{\"cut\":65,\"trouble\":\"node edge-64 floods this hub with frames that carry "
		"nothing: its connection was cut 0 s ago\"}");
	floods_free(&f);
}

/* The last one, cut or read later, for an hour; the numbers stay. */
static void
the_last_one_is_told(void **state)
{
	struct floods *f = floods_new("hub");

	(void)state;
	check_state(f, START_MS, "{\"cut\":0}");
	floods_slowed(f, "edge-0", 2, START_MS);
	floods_slowed(f, "edge-3", 5, START_MS);
	check_state(f, START_MS + 1000,
		"{\"cut\":0,\"trouble\":\"node edge-3 asks for connections and gives them up, "
		"thousands a second: it is read later, the last time 1 s ago\"}");
	floods_note(f, "edge-1", START_MS);
	floods_note(f, "edge-2", START_MS);
	check_state(f, START_MS + HOUR_MS - 1,
		"{\"cut\":2,\"trouble\":\"node edge-2 floods this hub with frames that carry "
		"nothing: its connection was cut 3599 s ago\"}");
	floods_slowed(f, "edge-3", 1, START_MS + 3000);
	check_state(f, START_MS + HOUR_MS,
		"{\"cut\":2,\"trouble\":\"node edge-3 asks for connections and gives them up, "
		"thousands a second: it is read later, the last time 3597 s ago\"}");
	check_state(f, START_MS + 3000 + HOUR_MS, "{\"cut\":2}");
	check_metrics(f, "\nedgeway_tunnel_flooded_total 2\n", "\nedgeway_tunnel_slowed_total 8\n");
	floods_free(&f);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_node_rests_for_its_time),
		cmocka_unit_test(the_last_ones_rest),
		cmocka_unit_test(the_last_one_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
