/* What was held for a moment does not stay with the process, even where something stands behind
 * it. */
#include "base/core/heap.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { BLOCKS = 32 * 1024, BLOCK = 1024, MEGABYTE = 1024 * 1024 };

static size_t
resident(void)
{
	unsigned long size, pages;
	FILE *f = fopen("/proc/self/statm", "r");

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%lu %lu", &size, &pages), 2);
	fclose(f);
	return pages * (size_t)getpagesize();
}

/* seen: somebody looks in its middle. */
static void
a_peak(struct heap_peak *peak, bool seen)
{
	static char *blocks[BLOCKS];
	size_t before, most;

	heap_give_back(peak);
	before = resident();
	for (int i = 0; i < BLOCKS; i++) {
		blocks[i] = malloc(BLOCK);
		memset(blocks[i], i, BLOCK);
	}
	if (seen)
		heap_give_back(peak);
	for (int i = 0; i < BLOCKS - 1; i++)
		free(blocks[i]);
	most = resident();
	assert_true(most > before + BLOCKS * BLOCK * 3 / 4); /* free() alone does not do it */
	for (unsigned calls = peak->rests + 1; calls > 0; calls--)
		heap_give_back(peak);
	assert_true(resident() < before + 4 * MEGABYTE);
	free(blocks[BLOCKS - 1]);
}

static void
a_peak_is_given_back(void **state)
{
	struct heap_peak peak = {0};

	(void)state;
	a_peak(&peak, true);
}

/* The second one is in the memory of the first, which malloc has counted as free since. */
static void
a_peak_that_nobody_saw_is_given_back(void **state)
{
	struct heap_peak peak = {0};

	(void)state;
	a_peak(&peak, false);
	a_peak(&peak, false);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_peak_is_given_back),
		cmocka_unit_test(a_peak_that_nobody_saw_is_given_back),
	};

	void *volatile probe = malloc(BLOCK);
	bool counted = mallinfo2().uordblks >= BLOCK;

	free(probe);
	if (!counted) {
		puts("1..0 # SKIP a sanitizer's heap is not malloc's");
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
