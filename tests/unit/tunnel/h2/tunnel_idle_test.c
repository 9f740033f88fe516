/* How much memory sessions and streams hold that have nothing to do. */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/tunnel/h2/tunnel_bed.h"

static size_t
allocated(void)
{
	return mallinfo2().uordblks;
}

static void
test_idle_streams_are_small(void **state)
{
	enum { N = 1000 };
	struct bed b;
	struct end *e = xcalloc(N, sizeof *e);
	size_t before, each;

	(void)state;
	bed_init(&b, true);
	bed_open(&b, &e[0], "a:1");
	bed_until(&b, e[0].status == 200);
	before = allocated();
	for (int i = 1; i < N; i++) {
		bed_open(&b, &e[i], "a:1");
		stream_write(e[i].st, "x", 1);
	}
	for (int i = 1; i < N; i++)
		bed_until(&b,
			e[i].got == 1); /* has carried something both ways, and holds nothing now */
	each = (allocated() - before) / (N - 1);
	if (before > 0) /* a sanitizer's malloc tells nothing */
		assert_in_range(
			each, 100, 2 * 1056 + sizeof(struct end)); /* both ends are in here */
	bed_fini_open(&b, e, N);
	free(e);
}

static void
test_idle_sessions_are_small(void **state)
{
	struct bed b[10];
	size_t before, each;

	(void)state;
	before = allocated();
	for (size_t i = 0; i < ARRAY_LEN(b); i++) {
		bed_init(&b[i], false);
		for (int k = 0; k < 50; k++)
			bed_wait(&b[i]);
	}
	each = (allocated() - before) / ARRAY_LEN(b) / 2;
	if (before > 0)
		assert_in_range(
			each, 1000, 13 * 1024); /* and a page of nghttp2's; TLS takes 25 kB more */
	for (size_t i = ARRAY_LEN(b); i-- > 0;)
		bed_fini(&b[i]);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_idle_streams_are_small),
		cmocka_unit_test(test_idle_sessions_are_small),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
