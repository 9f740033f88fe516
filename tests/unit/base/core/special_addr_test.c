/* Which addresses are special, whatever they are wrapped in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/core/special_addr.h"
#include "base/core/util.h"
#include "model/check.h"

static const struct {
	const char *ip;
	enum special_addr class;
} rows[] = {
	{"127.0.0.1", SPECIAL_LOOPBACK},
	{"127.255.255.255", SPECIAL_LOOPBACK},
	{"::1", SPECIAL_LOOPBACK},
	{"126.255.255.255", SPECIAL_NONE},
	{"128.0.0.0", SPECIAL_NONE},
	{"169.254.0.1", SPECIAL_LINK_LOCAL},
	{"169.253.255.255", SPECIAL_NONE},
	{"169.255.0.0", SPECIAL_NONE},
	{"fe80::1", SPECIAL_LINK_LOCAL},
	{"febf:ffff::1", SPECIAL_LINK_LOCAL},
	{"fec0::1", SPECIAL_NONE},
	{"169.254.169.254", SPECIAL_METADATA},
	{"169.254.170.2", SPECIAL_METADATA},
	{"169.254.170.23", SPECIAL_METADATA},
	{"169.254.42.42", SPECIAL_METADATA},
	{"169.254.0.23", SPECIAL_METADATA},
	{"100.100.100.200", SPECIAL_METADATA},
	{"100.100.100.201", SPECIAL_NONE},
	{"100.96.0.96", SPECIAL_METADATA},
	{"168.63.129.16", SPECIAL_METADATA},
	{"192.0.0.192", SPECIAL_METADATA},
	{"192.0.0.193", SPECIAL_NONE},
	{"fd00:ec2::254", SPECIAL_METADATA},
	{"fd00:ec2::23", SPECIAL_METADATA},
	{"fd00:ec3::254", SPECIAL_NONE},
	{"fd20:ce::254", SPECIAL_METADATA},
	{"fd20:ce::253", SPECIAL_NONE},
	{"fd00:c1::a9fe:a9fe", SPECIAL_METADATA},
	{"fd00:100::100:200", SPECIAL_METADATA},
	{"fd00:a9fe:a9fe::1", SPECIAL_METADATA},
	{"fd00:42::42", SPECIAL_METADATA},
	{"fe80::a9fe:a9fe", SPECIAL_METADATA},
	{"0.0.0.0", SPECIAL_UNSPECIFIED},
	{"0.255.255.255", SPECIAL_UNSPECIFIED},
	{"1.0.0.0", SPECIAL_NONE},
	{"::", SPECIAL_UNSPECIFIED},
	{"::2", SPECIAL_UNSPECIFIED}, /* 0.0.0.2 */
	{"224.0.0.1", SPECIAL_MULTICAST},
	{"239.255.255.255", SPECIAL_MULTICAST},
	{"223.255.255.255", SPECIAL_NONE},
	{"ff02::1", SPECIAL_MULTICAST},
	{"240.0.0.1", SPECIAL_RESERVED},
	{"255.255.255.255", SPECIAL_RESERVED},
	{"10.0.0.1", SPECIAL_NONE},
	{"172.17.0.2", SPECIAL_NONE},
	{"100.64.0.1", SPECIAL_NONE},
	{"9.251.0.1", SPECIAL_NONE},
	{"2001:db8::1", SPECIAL_NONE},
	{"fd00::1", SPECIAL_NONE},
	/* wrapped */
	{"::ffff:127.0.0.1", SPECIAL_LOOPBACK},
	{"::ffff:169.254.169.254", SPECIAL_METADATA},
	{"::127.0.0.1", SPECIAL_LOOPBACK},
	{"::169.254.169.254", SPECIAL_METADATA},
	{"::ffff:0:127.0.0.1", SPECIAL_LOOPBACK},
	{"64:ff9b::169.254.169.254", SPECIAL_METADATA},
	{"64:ff9b::8.8.8.8", SPECIAL_NONE},
	{"64:ff9b:1::127.0.0.1", SPECIAL_LOOPBACK},
	{"64:ff9c::127.0.0.1", SPECIAL_NONE},
	{"2002:7f00:1::", SPECIAL_LOOPBACK},
	{"2002:a9fe:a9fe::1", SPECIAL_METADATA},
	{"2002:808:808::1", SPECIAL_NONE},
	{"2003:7f00:1::", SPECIAL_NONE},
};

static void
test_classes(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct in6_addr ip;

		assert_true(ip_parse(rows[i].ip, &ip));
		if (special_addr_class(&ip) != rows[i].class)
			fail_msg("%s is \"%s\", not \"%s\"", rows[i].ip,
				special_addr_text(special_addr_class(&ip)),
				special_addr_text(rows[i].class));
	}
}

static void
test_inner(void **state)
{
	static const char *const pairs[][2] = {
		{"10.1.2.3", "10.1.2.3"},
		{"::10.1.2.3", "10.1.2.3"},
		{"64:ff9b::10.1.2.3", "10.1.2.3"},
		{"2002:a01:203::7", "10.1.2.3"},
		{"::ffff:0:10.1.2.3", "10.1.2.3"},
		{"2001:db8::1", "2001:db8::1"},
		{"::1", "::1"},
		{"::", "::"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
		struct in6_addr ip, inner;

		assert_true(ip_parse(pairs[i][0], &ip) && ip_parse(pairs[i][1], &inner));
		ip = special_addr_inner(&ip);
		assert_memory_equal(&ip, &inner, sizeof ip);
	}
}

/* Each has its words, and no two the same. */
static void
test_words(void **state)
{
	(void)state;
	for (unsigned a = SPECIAL_NONE; a < SPECIAL_CLASSES; a++)
		for (unsigned b = SPECIAL_NONE; b < a; b++) {
			assert_string_not_equal(special_addr_text(a), special_addr_text(b));
			assert_string_not_equal(special_addr_name(a), special_addr_name(b));
		}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_classes),
		cmocka_unit_test(test_inner),
		cmocka_unit_test(test_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
