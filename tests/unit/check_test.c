#include "model/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "model/json.h"

static void
names(void **state)
{
	static const struct {
		const char *text;
		bool label, subdomain;
	} cases[] = {
		{"a", true, true},
		{"web-1", true, true},
		{"0", true, true},
		{"", false, false},
		{"-a", false, false},
		{"a-", false, false},
		{"A", false, false},
		{"a_b", false, false},
		{"a.b", false, true},
		{"a..b", false, false},
		{".a", false, false},
		{"a.", false, false},
		{"a-.b", false, false},
		{"a.-b", false, false},
		{"a b", false, false},
		{"a/b", false, false},
		{"\xc3\xa9", false, false},
	};
	char text[300];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		size_t len = strlen(cases[i].text);

		assert_int_equal(check_label(cases[i].text, len), cases[i].label);
		assert_int_equal(check_subdomain(cases[i].text, len), cases[i].subdomain);
	}
	memset(text, 'a', sizeof text);
	assert_true(check_label(text, 63));
	assert_false(check_label(text, 64));
	assert_true(check_subdomain(text, 253));
	assert_false(check_subdomain(text, 254));
	assert_true(check_label_or_empty("", 0));
	assert_false(check_label("a\0b", 3));
}

static void
words(void **state)
{
	(void)state;
	assert_true(check_word("", 0));
	assert_true(check_word("eu-west_1.A", 11));
	assert_false(check_word("a b", 3));
	assert_false(check_word("a\"", 2));
	assert_false(check_word("a\\", 2));
	assert_false(check_word("\x7f", 1));
	assert_false(check_word("\xc3\xa9", 2));
}

static void
addresses(void **state)
{
	struct in6_addr ip;

	(void)state;
	assert_true(check_ip("192.0.2.1", 9));
	assert_true(check_ip("2001:db8::1", 11));
	assert_false(check_ip("192.0.2.1x", 10));
	assert_false(check_ip("192.0.2", 7));
	assert_false(check_ip("0.0.0.0", 7));
	assert_false(check_ip("::", 2));
	assert_false(check_ip("192.0.2.01", 10));
	assert_int_equal(ip_v4("192.0.2.1"), 0xc0000201);
	assert_int_equal(ip_v4("::1"), 0);
	assert_true(ip_parse("127.9.9.9", &ip) && ip_is_loopback(&ip));
	assert_true(ip_parse("::1", &ip) && ip_is_loopback(&ip));
	assert_true(ip_parse("128.0.0.1", &ip) && !ip_is_loopback(&ip));
	assert_true(IN6_IS_ADDR_V4MAPPED(&ip));
}

/* Text as JSON and back. */
static void
strings(void **state)
{
	static const struct {
		const char *json, *text, *again;
	} cases[] = {
		{"\"\"", "", "\"\""},
		{"\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "a\"\\/\b\f\n\r\t",
			"\"a\\\"\\\\/\\u0008\\u000c\\u000a\\u000d\\u0009\""},
		{"\"\\u00e9\\u20AC\\ud83d\\ude00\"", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
			"\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\""},
	};
	auto_buf struct buf out;

	(void)state;
	buf_init(&out, BUF_UNLIMITED);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_free char *text = NULL;
		struct json j;

		json_init(&j, cases[i].json, strlen(cases[i].json));
		assert_true(json_text(&j, &text, 100));
		assert_int_equal(json_finish(&j, NULL), 0);
		assert_string_equal(text, cases[i].text);
		buf_consume(&out, buf_len(&out));
		json_add_text(&out, text);
		assert_string_equal(buf_str(&out), cases[i].again);
	}
	buf_consume(&out, buf_len(&out));
	json_add_text(&out, "a\xff\xc3");
	assert_string_equal(buf_str(&out), "\"a\\ufffd\\ufffd\"");
}

static void
wrong_utf8_is_refused(void **state)
{
	static const char *const bad[] = {"\"\xc0\x80\"", "\"\xc3\"", "\"\xe0\x80\x80\"",
		"\"\xed\xa0\x80\"", "\"\xf0\x80\x80\x80\"", "\"\xf4\x90\x80\x80\"", "\"\x80\"",
		"\"\xe2\x82\"", "\"\\ude00\"", "\"\\ud83dx\"", "\"\\u12g4\"", "\"\\x\"", "\"",
		"\"\\"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		auto_free char *text = NULL;
		struct json j;

		json_init(&j, bad[i], strlen(bad[i]));
		assert_false(json_text(&j, &text, 100));
		assert_true(json_finish(&j, NULL) < 0);
	}
}

static void
numbers_are_bounded(void **state)
{
	static const struct {
		const char *text;
		uint64_t max;
		bool good;
	} cases[] = {
		{"0", 0, true},
		{"1", 0, false},
		{"65535", 65535, true},
		{"65536", 65535, false},
		{"655350", 65535, false},
		{"18446744073709551615", UINT64_MAX, true},
		{"18446744073709551616", UINT64_MAX, false},
		{"7", 7, true},
		{"8", 7, false},
		{"01", 10, false},
		{"1.0", 10, false},
		{"1e0", 10, false},
		{"-0", 10, false},
		{"+1", 10, false},
		{"", 10, false},
		{"-", 10, false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct json j;
		uint64_t v;
		bool good;

		json_init(&j, cases[i].text, strlen(cases[i].text));
		good = json_uint(&j, cases[i].max, &v);
		good = json_finish(&j, NULL) == 0 && good;
		if (good != cases[i].good)
			fail_msg("%s with a limit of %llu", cases[i].text,
				(unsigned long long)cases[i].max);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),
		cmocka_unit_test(words),
		cmocka_unit_test(addresses),
		cmocka_unit_test(strings),
		cmocka_unit_test(wrong_utf8_is_refused),
		cmocka_unit_test(numbers_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
