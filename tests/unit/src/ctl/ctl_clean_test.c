/* What a terminal could obey never comes to one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "src/ctl/ctl_clean.h"

static const char *
ink(char kind)
{
	return kind == 'b' ? "\033[31m" : "";
}

static void
assert_clean(const char *bytes, size_t n, const char *want)
{
	auto_buf struct buf out;

	buf_init(&out, BUF_UNLIMITED);
	assert_int_equal(clean_add(&out, bytes, n, true, ink), n);
	assert_string_equal(buf_str(&out), want);
}

static void
controls_are_written_out(void **state)
{
	(void)state;
	assert_clean("a\033[2Jb\r\a\177c", 10, "a\\u001b[2Jb\\u000d\\u0007\\u007fc");
	assert_clean("x\0y", 3, "x\\u0000y");
	assert_clean("\xc2\x9b"
		     "31m",
		5, "\\u009b31m");
	assert_clean("two\nlines\tand \"text\" \\u001b", 27, "two\nlines\tand \"text\" \\u001b");
	assert_clean("Zürich, 東京 😀", 20, "Zürich, 東京 😀");
}

static void
what_is_no_text_is_written_out(void **state)
{
	(void)state;
	assert_clean("\x80\xc0\x80\xfe", 4, "\\x80\\xc0\\x80\\xfe");
	assert_clean("\xe0\x80\x9b", 3, "\\xe0\\x80\\x9b"); /* a long form of C1 */
	assert_clean("\xed\xa0\x80", 3, "\\xed\\xa0\\x80"); /* a surrogate */
	assert_clean("\xf4\x90\x80\x80", 4, "\\xf4\\x90\\x80\\x80");
	assert_clean("\xe6\x9d", 2, "\\xe6\\x9d"); /* its end is missing */
	assert_clean("\xe6z", 2, "\\xe6z");
}

static void
our_marks_alone_are_inks(void **state)
{
	(void)state;
	assert_clean("\xff"
		     "bad\xffz\xff",
		7, "\033[31mad\\xffz\\xff");
}

static void
parts_are_as_the_whole(void **state)
{
	static const char text[] = "a\xc3\xbc\xc2\x9b\xf0\x9f\x98\x80\xff"
				   "b\xe6\x9d\033\xed\xa0\x80.";
	const size_t n = sizeof text - 1;
	auto_buf struct buf whole;

	(void)state;
	buf_init(&whole, BUF_UNLIMITED);
	clean_add(&whole, text, n, true, ink);
	for (size_t cut = 0; cut <= n; cut++) {
		auto_buf struct buf parts;
		size_t used;

		buf_init(&parts, BUF_UNLIMITED);
		used = clean_add(&parts, text, cut, false, ink);
		assert_true(cut - used <= 3);
		assert_int_equal(clean_add(&parts, text + used, n - used, true, ink), n - used);
		assert_string_equal(buf_str(&parts), buf_str(&whole));
	}
}

static void
whatever_comes_is_harmless_and_then_stays(void **state)
{
	(void)state;
	srandom(7);
	for (unsigned round = 0; round < 20000; round++) {
		auto_buf struct buf once, twice;
		char bytes[24];
		const char *p;

		for (size_t i = 0; i < sizeof bytes; i++)
			bytes[i] =
				(char)(random() % 3 == 0 ? 0x80 + random() % 0x40 : random() % 256);
		buf_init(&once, BUF_UNLIMITED);
		buf_init(&twice, BUF_UNLIMITED);
		clean_add(&once, bytes, sizeof bytes, true, NULL);
		for (p = buf_str(&once); *p != '\0'; p++) {
			assert_true((unsigned char)*p >= ' ' || *p == '\n' || *p == '\t');
			assert_int_not_equal(*p, 0x7f);
			assert_false((unsigned char)p[0] == 0xc2 && (unsigned char)p[1] < 0xa0);
		}
		clean_add(&twice, buf_at(&once), buf_len(&once), true, NULL);
		assert_string_equal(buf_str(&twice), buf_str(&once));
	}
}

static void
a_cell_is_one_line(void **state)
{
	char *line = clean_line("name\nforged row\t\033[31m");

	(void)state;
	assert_string_equal(line, "name forged row \\u001b[31m");
	free(line);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(controls_are_written_out),
		cmocka_unit_test(what_is_no_text_is_written_out),
		cmocka_unit_test(our_marks_alone_are_inks),
		cmocka_unit_test(parts_are_as_the_whole),
		cmocka_unit_test(whatever_comes_is_harmless_and_then_stays),
		cmocka_unit_test(a_cell_is_one_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
