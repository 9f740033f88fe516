/* Memory of an idle session: pages that nobody has touched, or that were given back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/http/session_memory.h"

enum { FRAMES = 16 * 1024 + 10, STREAMS = 256, BUCKET = 16 };

/* Is all of it zero? */
static bool
zero(const char *p, size_t n)
{
	return *p == 0 && memcmp(p, p + 1, n - 1) == 0;
}

static void
test_frames(void **state)
{
	struct session_memory m;
	char *frames, *other;

	(void)state;
	session_memory_init(&m);
	frames = m.calls.malloc(FRAMES, &m);
	memset(frames, 1, FRAMES);
	session_memory_rest(&m); /* nothing was built, says its owner */
	assert_int_equal(frames[FRAMES - 1], 1);
	m.used = true;
	session_memory_rest(&m);
	assert_true(zero(frames, FRAMES) && !m.used);
	memset(frames, 2, FRAMES);
	other = m.calls.malloc(FRAMES, &m); /* malloc's: it stays as it is */
	memset(other, 3, FRAMES);
	m.used = true;
	session_memory_rest(&m);
	assert_int_equal(other[0], 3);
	memset(frames, 4, FRAMES);
	frames = m.calls.realloc(frames, 2 * FRAMES, &m);
	assert_int_equal(frames[FRAMES - 1], 4);
	assert_null(m.frames.p);
	m.calls.free(frames, &m);
	m.calls.free(other, &m);
}

/* Large tables alone are mapped, one at a time: a larger one is made before the former goes. */
static void
test_table(void **state)
{
	struct session_memory m;
	char *small, *table, *larger;

	(void)state;
	session_memory_init(&m);
	small = m.calls.calloc(1, 3000, &m);
	assert_true(zero(small, 3000) && m.table.p == NULL);
	table = m.calls.calloc(STREAMS, BUCKET, &m);
	assert_true(m.table.p == table && zero(table, STREAMS * BUCKET));
	larger = m.calls.calloc(STREAMS, 2 * BUCKET, &m);
	assert_true(m.table.p == table && zero(larger, STREAMS * 2 * BUCKET));
	m.used = true;
	table[0] = 5;
	session_memory_rest(&m);
	assert_int_equal(table[0], 5);
	m.calls.free(table, &m);
	assert_null(m.table.p);
	m.calls.free(larger, &m);
	m.calls.free(small, &m);
	m.calls.free(NULL, &m);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_frames),
		cmocka_unit_test(test_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
