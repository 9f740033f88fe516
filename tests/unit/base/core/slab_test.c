#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/core/slab.h"

enum { MANY = 1000, SIZE = 184, PAGE = 4096 };

/* Is this page ours? */
static bool
is_mapped(const void *at)
{
	unsigned char in_core;

	return mincore((void *)((uintptr_t)at & ~(uintptr_t)(PAGE - 1)), PAGE, &in_core) == 0;
}

static void
gives_blocks_back(void **state)
{
	struct slab all = {.size = SIZE};
	static unsigned char *list[MANY];
	unsigned mapped = 0;
	static const unsigned char zeros[SIZE];

	(void)state;
	for (int turn = 0; turn < 2; turn++) {
		for (unsigned i = 0; i < MANY; i++) {
			list[i] = slab_take(&all);
			assert_memory_equal(list[i], zeros, SIZE);
			memset(list[i], (int)(i & 0xff), SIZE);
		}
		for (unsigned i = 0; i < MANY; i++) {
			assert_int_equal(list[i][0], i & 0xff);
			assert_int_equal(list[i][SIZE - 1], i & 0xff);
		}
		/* Two in three go, then the rest: in between gaps are used again. */
		for (unsigned i = 0; i < MANY; i++)
			if (i % 3 != 0)
				slab_give(&all, list[i]);
		for (unsigned i = 0; i < MANY; i++)
			if (i % 3 == 1)
				list[i] = slab_take(&all);
		for (unsigned i = 0; i < MANY; i++)
			if (i % 3 != 2)
				slab_give(&all, list[i]);
		mapped = 0;
		for (unsigned i = 0; i < MANY; i++)
			mapped += is_mapped(list[i]);
		assert_in_range(mapped, 1, MANY / 10); /* one block stays */
	}
	slab_fini(&all);
	assert_null(all.first);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gives_blocks_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
