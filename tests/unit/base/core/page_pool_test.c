/* Freed objects are used again, all zero, and many of them hold no memory, whatever was allocated
 * between them. */
#include "base/core/page_pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { OBJECTS = 1000, OBJECT = 9000, MEGABYTE = 1024 * 1024 };

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

static void
freed_objects_hold_no_pages(void **state)
{
	static char *objects[OBJECTS], *kept[OBJECTS];
	struct page_pool p;
	size_t before;

	(void)state;
	page_pool_init(&p, OBJECT);
	for (int round = 0; round < 2; round++) {
		before = resident();
		for (int i = 0; i < OBJECTS; i++) {
			objects[i] = page_pool_take(&p);
			assert_int_equal(objects[i][0] | objects[i][OBJECT - 1], 0);
			memset(objects[i], 'x', OBJECT);
			kept[i] = xmalloc(100);
		}
		assert_true(resident() > before + OBJECTS * OBJECT * 3 / 4);
		for (int i = 0; i < OBJECTS; i++)
			page_pool_give(&p, objects[i * 7 % OBJECTS]);
		assert_true(resident() < before + MEGABYTE);
		for (int i = 0; i < OBJECTS; i++)
			free(kept[i]);
	}
	page_pool_fini(&p);
}

static void
the_last_one_freed_is_the_next_one_taken(void **state)
{
	struct page_pool p;
	char *one, *two;

	(void)state;
	page_pool_init(&p, OBJECT);
	one = page_pool_take(&p);
	two = page_pool_take(&p);
	assert_ptr_not_equal(one, two);
	memset(one, 'x', OBJECT);
	page_pool_give(&p, two);
	page_pool_give(&p, one);
	page_pool_give(&p, NULL);
	assert_ptr_equal(page_pool_take(&p), one);
	assert_int_equal(one[0] | one[OBJECT - 1], 0);
	page_pool_give(&p, one);
	page_pool_fini(&p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(freed_objects_hold_no_pages),
		cmocka_unit_test(the_last_one_freed_is_the_next_one_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
