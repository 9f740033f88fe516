#include "base/core/log_queue.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static bool
put(struct log_queue *l, const char *text)
{
	struct buf b;
	bool fits;

	buf_init(&b, 0);
	buf_adds(&b, text);
	fits = log_queue_put(l, &b);
	assert_int_equal(buf_len(&b), 0);
	buf_fini(&b);
	return fits;
}

static void
in_order_to_the_end(void **state)
{
	struct log_queue *l;
	char got[64] = "";
	int fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(log_queue_new(&l, fds[1], 100, NULL), 0);
	assert_true(put(l, "one\n"));
	assert_true(put(l, ""));
	assert_true(put(l, "two\n"));
	log_queue_free(&l);
	assert_null(l);
	assert_int_equal(read(fds[0], got, sizeof got - 1), 8);
	assert_string_equal(got, "one\ntwo\n");
	close(fds[0]);
	close(fds[1]);
	log_queue_free(&l);
}

/* Nobody reads: callers go on, what is too much is dropped, and the end comes. */
static void
a_reader_that_hangs(void **state)
{
	static char big[256 * 1024];
	struct log_queue *l;
	int fds[2];

	(void)state;
	memset(big, 'x', sizeof big - 1);
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(log_queue_new(&l, fds[1], sizeof big + 10, NULL), 0);
	assert_true(put(l, big)); /* more than a pipe takes */
	assert_true(put(l, "fits\n"));
	assert_false(put(l, "too much\n"));
	log_queue_free(&l);
	assert_null(l);
	/* The thread is still there, and gets rid of everything once it can. */
	for (size_t n = 0; n < sizeof big - 1 + 5;) {
		char some[65536];
		ssize_t k = read(fds[0], some, sizeof some);

		assert_true(k > 0);
		n += (size_t)k;
	}
	close(fds[0]);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_order_to_the_end),
		cmocka_unit_test(a_reader_that_hangs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
