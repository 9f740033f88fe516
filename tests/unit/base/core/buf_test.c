#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/core/buf.h"

static void
grows_and_gives_up_its_front(void **state)
{
	struct buf b auto_buf;
	char *to;

	(void)state;
	buf_init(&b, BUF_UNLIMITED);
	assert_string_equal(buf_str(&b), "");
	assert_int_equal(buf_adds(&b, "hello "), 0);
	assert_int_equal(buf_printf(&b, "%d %s", 42, "times"), 0);
	assert_int_equal(buf_len(&b), 14);
	buf_consume(&b, 6);
	assert_string_equal(buf_str(&b), "42 times");
	to = buf_reserve(&b, 5000);
	memset(to, 'x', 5000);
	buf_commit(&b, 5000);
	assert_int_equal(buf_len(&b), 5008);
	assert_memory_equal(buf_at(&b), "42 timesxx", 10);
	buf_consume(&b, 5008);
	assert_int_equal(b.start, 0);
	buf_release(&b);
	assert_null(b.data);
	assert_int_equal(buf_adds(&b, "again"), 0);
	assert_string_equal(buf_str(&b), "again");
}

static void
keeps_its_limit(void **state)
{
	struct buf b auto_buf;

	(void)state;
	buf_init(&b, 10);
	assert_int_equal(buf_adds(&b, "123456"), 0);
	assert_int_equal(buf_adds(&b, "78901"), -ENOBUFS);
	assert_int_equal(buf_len(&b), 6);
	assert_null(buf_reserve(&b, 5));
	assert_int_equal(buf_adds(&b, "7890"), 0);
	assert_string_equal(buf_str(&b), "1234567890");
	/* the NUL that buf_str adds makes no room for more */
	assert_int_equal(buf_add(&b, "x", 1), -ENOBUFS);
	buf_consume(&b, 4);
	assert_int_equal(buf_adds(&b, "abcd"), 0);
	assert_string_equal(buf_str(&b), "567890abcd");
	assert_int_equal(buf_printf(&b, "%s", "y"), -ENOBUFS);
	assert_int_equal(buf_len(&b), 10);
}

static void
prints_up_to_its_limit(void **state)
{
	struct buf b auto_buf;

	(void)state;
	buf_init(&b, 5);
	assert_int_equal(buf_printf(&b, "%d", 12345), 0);
	assert_string_equal(buf_str(&b), "12345");
}

static void
reads_and_writes_descriptors(void **state)
{
	struct buf b auto_buf;
	int pair[2];

	(void)state;
	buf_init(&b, 8);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
	assert_int_equal(buf_read(&b, pair[0], 100), -EAGAIN);
	assert_int_equal(write(pair[1], "0123456789", 10), 10);
	assert_int_equal(buf_read(&b, pair[0], 3), 3);
	assert_int_equal(buf_read(&b, pair[0], 100), 5);
	assert_int_equal(buf_read(&b, pair[0], 100), -ENOBUFS);
	buf_consume(&b, 8);
	assert_int_equal(buf_read(&b, pair[0], 100), 2);
	assert_string_equal(buf_str(&b), "89");
	assert_int_equal(buf_write(&b, pair[0]), 2);
	assert_int_equal(buf_len(&b), 0);
	assert_int_equal(buf_write(&b, pair[0]), 0);
	close(pair[1]);
	buf_adds(&b, "x");
	assert_int_equal(buf_write(&b, pair[0]), -EPIPE); /* and no SIGPIPE */
	buf_consume(&b, 1);
	assert_true(buf_read(&b, pair[0], 100) <= 0);
	close(pair[0]);
}

static void
hands_its_text_over(void **state)
{
	struct buf b auto_buf;
	auto_free char *text = NULL;

	(void)state;
	buf_init(&b, 100);
	buf_add(&b, "te\0xt", 5);
	text = buf_take_str(&b);
	assert_memory_equal(text, "te\0xt", 6);
	assert_int_equal(buf_len(&b), 0);
	assert_int_equal(b.limit, 100);
}

static void
writes_times_of_any_century(void **state)
{
	static const struct {
		int64_t seconds;
		const char *text;
	} rows[] = {
		{0, "1970-01-01T00:00:00Z"},
		{-1, "1969-12-31T23:59:59Z"},
		{951782399, "2000-02-28T23:59:59Z"},
		{951868799, "2000-02-29T23:59:59Z"},
		{951868800, "2000-03-01T00:00:00Z"},
		{1798761599, "2026-12-31T23:59:59Z"},
		{INT32_MAX, "2038-01-19T03:14:07Z"},
		{(int64_t)INT32_MAX + 1, "2038-01-19T03:14:08Z"},
		{4107542400, "2100-03-01T00:00:00Z"},
		{4107542399, "2100-02-28T23:59:59Z"},
		{253402300799, "9999-12-31T23:59:59Z"},
		{-2208988800, "1900-01-01T00:00:00Z"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct buf b auto_buf;

		buf_init(&b, 0);
		assert_int_equal(buf_add_utc(&b, rows[i].seconds), 0);
		assert_string_equal(buf_str(&b), rows[i].text);
	}
}

/* As the C library counts, where its time_t is wide enough: a day of every 11 for 1200 years. */
static void
writes_times_as_the_c_library(void **state)
{
	(void)state;
	for (int64_t s = -12622780800; s < 25245561600 && sizeof(time_t) > 4;
		s += 11 * 86400 + 3601) {
		struct buf b auto_buf;
		char text[40];
		time_t at = (time_t)s;
		struct tm tm;

		buf_init(&b, 0);
		buf_add_utc(&b, s);
		assert_non_null(gmtime_r(&at, &tm));
		strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm);
		assert_string_equal(buf_str(&b), text);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(grows_and_gives_up_its_front),
		cmocka_unit_test(keeps_its_limit),
		cmocka_unit_test(prints_up_to_its_limit),
		cmocka_unit_test(reads_and_writes_descriptors),
		cmocka_unit_test(hands_its_text_over),
		cmocka_unit_test(writes_times_of_any_century),
		cmocka_unit_test(writes_times_as_the_c_library),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
