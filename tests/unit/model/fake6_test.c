#include "model/fake6.h"

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct in6_addr
ip6(const char *text)
{
	struct in6_addr ip;

	assert_int_equal(inet_pton(AF_INET6, text, &ip), 1);
	return ip;
}

static void
addresses_end_in_those_of_ipv4(void **state)
{
	struct fake6 range;
	const struct in6_addr want = ip6("fd09:251::9fb:102"), own = ip6("fd09:251::1:0:1");
	struct in6_addr got;

	(void)state;
	assert_int_equal(fake6_parse(&range, "fd09:251::/64", NULL), 0);
	got = fake6_of(&range, 0x09fb0102);
	assert_memory_equal(&got, &want, sizeof got);
	assert_int_equal(fake6_inner(&range, &got), 0x09fb0102);
	got = fake6_own(&range);
	assert_memory_equal(&got, &own, sizeof got);
}

static void
other_addresses_have_no_ipv4_one(void **state)
{
	static const char *const others[] = {
		"fd09:252::9fb:102", "::ffff:9.251.1.2", "fd09:251::1:0:9fb:102"};
	struct fake6 range, none;

	(void)state;
	assert_int_equal(fake6_parse(&range, "fd09:251::/64", NULL), 0);
	assert_int_equal(fake6_parse(&none, "", NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		const struct in6_addr ip = ip6(others[i]);

		assert_int_equal(fake6_inner(&range, &ip), 0);
		assert_int_equal(fake6_inner(&none, &ip), 0);
	}
}

static void
ranges_that_serve_nobody_are_refused(void **state)
{
	static const char *const wrong[] = {"9.251.0.0/16", "fd09:251::", "fd09:251::/65",
		"fd09::/31", "fd09:251::1/64", "fe80::/64", "ff02::/64", "::/64", "::ffff:0:0/96",
		"64:ff9b::/96", "2002:9fb::/32", "fd09:251::/", "fd09:251::/x", "fd09:251/64"};
	struct fake6 range;
	struct err err;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		if (fake6_parse(&range, wrong[i], &err) != -EINVAL)
			fail_msg("%s", wrong[i]);
		assert_non_null(strstr(err.text, "fd09:251::/64"));
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_end_in_those_of_ipv4),
		cmocka_unit_test(other_addresses_have_no_ipv4_one),
		cmocka_unit_test(ranges_that_serve_nobody_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
