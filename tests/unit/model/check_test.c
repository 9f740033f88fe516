#include "model/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

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
	assert_true(check_service("db", 2));
	assert_true(check_service("db-0.db", 7));
	assert_false(check_service("", 0));
	assert_false(check_service(".db", 3));
	assert_false(check_service("db.", 3));
	assert_false(check_service("a.b.c", 5));
	text[63] = '.';
	assert_true(check_service(text, 127));
	assert_false(check_service(text, 128));
}

static void
tokens_and_paths(void **state)
{
	static const struct {
		const char *text;
		bool token, path;
	} cases[] = {
		{"", false, false},
		{"X-User_1.a", true, false},
		{"!#$%&'*+-.^_`|~09azAZ", true, false},
		{"a b", false, false},
		{"a:b", false, false},
		{"a/b", false, false},
		{"a@b", false, false},
		{"[a]", false, false},
		{"{a}", false, false},
		{"\xc3\xa9", false, false},
		{"/", false, true},
		{"/ok?a=b&c=%20", false, true},
		{"ok", true, false},
		{"a\x11", false, false},
		{"/a b", false, false},
		{"/a\r\nX: y", false, false},
		{"/\xc3\xa9", false, false},
	};
	char text[300];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		size_t len = strlen(cases[i].text);

		if (check_token(cases[i].text, len) != cases[i].token ||
			check_path(cases[i].text, len) != cases[i].path)
			fail_msg("%s", cases[i].text);
	}
	assert_false(check_token("a\0b", 3));
	assert_true(check_path_or_empty("", 0));
	memset(text, '/', sizeof text);
	assert_true(check_path(text, 253));
	assert_false(check_path(text, 254));
	memset(text, 'a', sizeof text);
	assert_true(check_token(text, 127));
	assert_false(check_token(text, 128));
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

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),
		cmocka_unit_test(tokens_and_paths),
		cmocka_unit_test(words),
		cmocka_unit_test(addresses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
