/* The list of reserved ports: what is ours comes and goes, all else stays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "iptables/host/reserve.h"

struct sample {
	const char *list;
	uint16_t port;
	bool add;
	int rc;
	const char *want;
};

static const struct sample samples[] = {
	{"\n", 40001, true, 1, "40001\n"},
	{"", 40001, true, 1, "40001\n"},
	{"40001\n", 40001, true, 0, "40001\n"},
	{"8080,9000-9010\n", 40001, true, 1, "8080,9000-9010,40001\n"},
	{"40000,40002\n", 40001, true, 1, "40000-40002\n"},
	{"8080,40001\n", 40001, false, 1, "8080\n"},
	{"40000-40002\n", 40001, false, 1, "40000,40002\n"},
	{"40001\n", 40001, false, 1, "\n"},
	{"8080\n", 40001, false, 0, "8080\n"},
	{"65535\n", 1, true, 1, "1,65535\n"},
	{"65536\n", 1, true, -EINVAL, NULL},
	{"5-4\n", 1, true, -EINVAL, NULL},
	{"5-\n", 1, true, -EINVAL, NULL},
	{"a\n", 1, true, -EINVAL, NULL},
	{"1 2\n", 1, true, -EINVAL, NULL},
};

static void
edits(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(samples); i++) {
		auto_buf struct buf out;

		buf_init(&out, BUF_UNLIMITED);
		assert_int_equal(
			reserve_edit(&out, samples[i].list, samples[i].port, samples[i].add),
			samples[i].rc);
		if (samples[i].want != NULL)
			assert_string_equal(buf_str(&out), samples[i].want);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(edits)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
