#include "hub/sync/sync_gate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void
as_many_as_are_let_in(void **state)
{
	struct sync_gate g = {0};
	uint64_t ticket[SYNC_GATE_MOST];

	(void)state;
	for (int i = 0; i < SYNC_GATE_MOST; i++) {
		assert_true(sync_gate_open(&g, 1000));
		ticket[i] = sync_gate_begin(&g, 1000);
		assert_int_not_equal(ticket[i], 0);
	}
	assert_false(sync_gate_open(&g, 1000));
	assert_int_equal(g.refused, 1);
	sync_gate_end(&g, &ticket[7]);
	sync_gate_end(&g, &ticket[7]); /* once */
	assert_true(sync_gate_open(&g, 1000));
	ticket[7] = sync_gate_begin(&g, SYNC_GATE_MS / 2);
	assert_false(sync_gate_open(&g, SYNC_GATE_MS / 2));
	for (int i = 0; i < SYNC_GATE_MOST; i++)
		sync_gate_end(&g, &ticket[i]);
	assert_int_equal(g.now + g.before, 0);
}

/* Nodes that never get in step shut nobody out for longer than SYNC_GATE_MS, and their late end
 * makes no room twice. */
static void
the_slow_keep_nobody_out(void **state)
{
	struct sync_gate g = {0};
	uint64_t ticket[SYNC_GATE_MOST], late;

	(void)state;
	for (int i = 0; i < SYNC_GATE_MOST; i++)
		ticket[i] = sync_gate_begin(&g, 1000);
	assert_false(sync_gate_open(&g, 2000));
	assert_true(sync_gate_open(&g, 1000 + SYNC_GATE_MS));
	late = sync_gate_begin(&g, 1000 + SYNC_GATE_MS);
	for (int i = 0; i < SYNC_GATE_MOST; i++)
		sync_gate_end(&g, &ticket[i]);
	assert_int_equal(g.now + g.before, 1);
	sync_gate_end(&g, &late);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_many_as_are_let_in),
		cmocka_unit_test(the_slow_keep_nobody_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
