#include "base/core/gzip.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void
comes_back(const void *data, size_t len)
{
	auto_buf struct buf packed, back;
	struct err err = {0};

	buf_init(&packed, BUF_UNLIMITED);
	buf_init(&back, len + 1);
	gzip_text(&packed, data, len);
	assert_int_equal(unpack_text(&back, buf_at(&packed), buf_len(&packed), &err), 0);
	assert_int_equal(buf_len(&back), len);
	assert_memory_equal(buf_str(&back), data, len);
}

static void
what_is_packed_comes_back(void **state)
{
	auto_free char *many = xmalloc(300000);
	uint32_t v = 1;

	(void)state;
	comes_back("x", 1);
	comes_back("hello hello hello hello", 23);
	memset(many, 'a', 300000);
	comes_back(many, 300000);
	for (size_t i = 0; i < 300000; i++)
		many[i] = (char)((v = v * 1664525 + 1013904223) >> 24);
	for (size_t len = 0; len < 40; len++)
		comes_back(many, len);
	/* Around the pieces in which both directions work. */
	for (size_t len = 16380; len < 16390; len++)
		comes_back(many, len);
	comes_back(many, 300000);
}

static void
a_bomb_is_refused_at_the_limit(void **state)
{
	auto_free char *zeros = xcalloc(1, 4 * 1024 * 1024);
	auto_buf struct buf packed, back;
	struct err err = {0};

	(void)state;
	buf_init(&packed, BUF_UNLIMITED);
	gzip_text(&packed, zeros, 4 * 1024 * 1024);
	assert_true(buf_len(&packed) < 32 * 1024);
	buf_init(&back, 100000);
	assert_int_equal(unpack_text(&back, buf_at(&packed), buf_len(&packed), &err), -EMSGSIZE);
	assert_string_equal(err.text, "more than 100000 bytes once unpacked");
	assert_true(back.size <= 100000);
	buf_fini(&back);
	buf_init(&back, 4 * 1024 * 1024);
	assert_int_equal(unpack_text(&back, buf_at(&packed), buf_len(&packed), &err), 0);
	buf_fini(&back);
	buf_init(&back, 4 * 1024 * 1024 - 1);
	assert_int_equal(unpack_text(&back, buf_at(&packed), buf_len(&packed), &err), -EMSGSIZE);
}

static void
refuse(const char *text, const char *why)
{
	auto_buf struct buf back;
	struct err err = {0};

	buf_init(&back, 1000);
	if (unpack_text(&back, text, strlen(text), &err) != -EBADMSG)
		fail_msg("taken: %s", text);
	if (strstr(err.text, why) == NULL)
		fail_msg("%s: %s, not %s", text, err.text, why);
}

static void
anything_else_is_refused(void **state)
{
	auto_buf struct buf packed;
	size_t len;

	(void)state;
	refuse("", "cut short");
	refuse("AAA", "base64");
	refuse("AA!A", "base64");
	refuse("=AAA", "base64");
	refuse("AAAA", "zlib");
	buf_init(&packed, BUF_UNLIMITED);
	gzip_text(&packed, "some words, some words", 22);
	len = buf_len(&packed);
	for (size_t n = 4; n < len; n += 4) {
		auto_free char *cut = xstrndup(buf_at(&packed), n);

		refuse(cut, "cut short");
	}
	buf_adds(&packed, "AAAA");
	if (buf_at(&packed)[len - 1] == '=')
		refuse(buf_str(&packed), "base64");
	else
		refuse(buf_str(&packed), "behind");
	refuse("eJxLBAAAYgBj", "incorrect data check");
	refuse("AB==", "base64"); /* bits set that nobody reads */
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_packed_comes_back),
		cmocka_unit_test(a_bomb_is_refused_at_the_limit),
		cmocka_unit_test(anything_else_is_refused),
	};

	return cmocka_run_group_tests_name("pack", tests, NULL, NULL);
}
