#include "base/core/flapping.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void
ends_count_while_they_are_recent(void **state)
{
	struct flapping f = {0};
	const uint64_t start_ms = 1000;

	(void)state;
	assert_int_equal(flapping_count(&f, start_ms), 0);
	for (unsigned i = 0; i < FLAPPING_LEAST; i++)
		flapping_note(&f, start_ms + i * 1000, i == 3 ? "reset" : "closed");
	assert_int_equal(flapping_count(&f, start_ms + 3000), FLAPPING_LEAST);
	assert_string_equal(f.why, "reset");
	assert_int_equal(flapping_count(&f, start_ms + FLAPPING_WINDOW_MS - 1), FLAPPING_LEAST);
	assert_int_equal(flapping_count(&f, start_ms + FLAPPING_WINDOW_MS), FLAPPING_LEAST - 1);
	assert_int_equal(flapping_count(&f, start_ms + 3000 + FLAPPING_WINDOW_MS), 0);
}

static void
no_more_are_counted_than_are_kept(void **state)
{
	struct flapping f = {0};

	(void)state;
	for (unsigned i = 0; i < 3 * FLAPPING_MOST; i++)
		flapping_note(&f, i, "reset");
	assert_int_equal(flapping_count(&f, 3 * FLAPPING_MOST), FLAPPING_MOST);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ends_count_while_they_are_recent),
		cmocka_unit_test(no_more_are_counted_than_are_kept),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
