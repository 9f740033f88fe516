#include "hub/port/twins.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/core/flapping.h"

static void
assert_state(const struct twins *t, uint64_t now_ms, const char *want)
{
	auto_buf struct buf out;

	buf_init(&out, BUF_UNLIMITED);
	twins_state(t, now_ms, &out);
	assert_string_equal(buf_str(&out), want);
}

static void
sessions_that_replace_each_other(void **state)
{
	struct twins *t = twins_new();

	(void)state;
	for (unsigned i = 1; i < FLAPPING_LEAST; i++)
		assert_false(twins_note(t, "edge-1", "a:1", "b:1", i));
	assert_false(twins_note(t, "edge-2", "c:1", "c:2", 4));
	assert_state(t, 5, "[]");
	assert_true(twins_note(t, "edge-1", "b:1", "a:2", 5));
	assert_state(
		t, 5, "[{\"node\":\"edge-1\",\"replaced\":4,\"older\":\"b:1\",\"newer\":\"a:2\"}]");
	assert_state(t, 1 + FLAPPING_WINDOW_MS, "[]");
	twins_free(&t);
}

static void
many_nodes_push_out_the_oldest(void **state)
{
	struct twins *t = twins_new();
	char node[16];

	(void)state;
	for (unsigned i = 0; i <= TWINS_MOST; i++) {
		snprintf(node, sizeof node, "edge-%u", i);
		for (unsigned k = 0; k < FLAPPING_LEAST; k++)
			twins_note(t, node, "a:1", "b:1", 1 + i);
	}
	assert_false(twins_note(t, "edge-0", "a:1", "b:1", 100));
	assert_true(twins_note(t, "edge-64", "a:1", "b:1", 100));
	twins_free(&t);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sessions_that_replace_each_other),
		cmocka_unit_test(many_nodes_push_out_the_oldest),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
