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

/* What a session is made with is packed while it is idle, and is where it was afterwards. */
static void
test_packed(void **state)
{
	struct session_memory m;
	uint64_t *session, *ring;
	char *frames, *later;

	(void)state;
	session_memory_init(&m);
	m.making = true;
	session = m.calls.calloc(1, 3000, &m);
	ring = m.calls.malloc(1024, &m);
	frames = m.calls.realloc(NULL, FRAMES, &m);
	later = m.calls.malloc(2000, &m);
	assert_in_range(m.bytes, 2000, 3000); /* malloc has that one alone */
	session[0] = 1;
	session[374] = 2;
	ring[127] = 3;
	frames[0] = frames[FRAMES - 1] = 4;
	m.used = true;
	for (int i = 0; i < 2; i++) {
		size_t held = session_memory_held(&m);

		session_memory_idle(&m);
		assert_true(session_memory_held(&m) < held);
		assert_int_equal(session[0] + session[374] + ring[127], 0);
		session_memory_wake(&m);
		session_memory_wake(&m);
		assert_true(session[0] == 1 && session[374] == 2 && ring[127] == 3);
		assert_true(zero((char *)(session + 1), 373 * sizeof *session));
	}
	frames = m.calls.realloc(frames, 2 * FRAMES, &m);
	m.calls.free(later, &m);
	m.calls.free(frames, &m);
	m.calls.free(ring, &m);
	m.calls.free(session, &m);
	assert_true(m.space.p == NULL && m.bytes == 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_frames),
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_packed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
