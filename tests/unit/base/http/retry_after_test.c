#include "base/http/retry_after.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/core/util.h"

static void
bounds(void **state)
{
	(void)state;
	assert_int_equal(retry_after_read("1", 0), 1000);
	assert_int_equal(retry_after_read("1", 499), 1499);
	assert_int_equal(retry_after_read("300", 0), 300 * 1000);
	assert_int_equal(retry_after_read("999999999", 0), 300 * 1000);
	assert_true(retry_after_read("999999999", UINT64_MAX) < 450 * 1000);
	assert_int_equal(retry_after_s(0), RETRY_AFTER_SAID_S);
	for (uint64_t i = 0; i < 100; i++)
		assert_in_range(retry_after_s(i), RETRY_AFTER_SAID_S, 3 * RETRY_AFTER_SAID_S);
}

static void
garbage_is_ignored(void **state)
{
	static const char *const texts[] = {"", "0", "-1", "+3", " 3", "3 ", "3.5", "1e3", "0x10",
		"9999999999", "18446744073709551617", "Fri, 31 Dec 1999 23:59:59 GMT", "soon"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		assert_int_equal(retry_after_read(texts[i], 7), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bounds),
		cmocka_unit_test(garbage_is_ignored),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
