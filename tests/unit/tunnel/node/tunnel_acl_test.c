/* Table of rules, targets and verdicts. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tunnel/node/tunnel_acl.h"

static const struct {
	const char *rules[4];
	enum tunnel_acl_kind kind;
	const char *target;
	bool allowed;
} table[] = {
	{{NULL}, TUNNEL_ACL_NODE, "127.0.0.1:10250", false},
	{{NULL}, TUNNEL_ACL_BESIDE, "192.168.1.12:10250", true}, /* tunnel.reach has named it */
	{{"!192.168.1.0/28"}, TUNNEL_ACL_BESIDE, "192.168.1.12:10250", false},
	{{"!node:10250"}, TUNNEL_ACL_BESIDE, "192.168.1.12:10250", true},
	{{"node:*"}, TUNNEL_ACL_BESIDE, "127.0.0.1:10250", false},
	{{"node:*"}, TUNNEL_ACL_BESIDE, "169.254.1.1:10250", false},
	{{"node:*"}, TUNNEL_ACL_BESIDE, "100.100.100.200:80", false},
	{{"node"}, TUNNEL_ACL_NODE, "127.0.0.1:10250", true},
	{{"node"}, TUNNEL_ACL_NODE, "[::1]:10255", true},
	{{"node"}, TUNNEL_ACL_NODE, "192.0.2.1:10251", false},
	{{"node"}, TUNNEL_ACL_PODS, "172.17.0.2:10250", false},
	{{"node:10255-10260"}, TUNNEL_ACL_NODE, "192.0.2.1:10254", false},
	{{"node:10255-10260"}, TUNNEL_ACL_NODE, "192.0.2.1:10255", true},
	{{"node:10255-10260"}, TUNNEL_ACL_NODE, "192.0.2.1:10260", true},
	{{"node:10255-10260"}, TUNNEL_ACL_NODE, "192.0.2.1:10261", false},
	{{"node:*"}, TUNNEL_ACL_NODE, "192.0.2.1:1", true},
	{{"node:*", "!node:22"}, TUNNEL_ACL_NODE, "192.0.2.1:22", false},
	{{"!node:22", "node:*"}, TUNNEL_ACL_NODE, "192.0.2.1:22", false},
	{{"!node:22", "node:*"}, TUNNEL_ACL_NODE, "192.0.2.1:23", true},
	{{"!node", "node:*"}, TUNNEL_ACL_NODE, "192.0.2.1:9", false},
	{{"node:22"}, TUNNEL_ACL_NODE, "192.0.2.1:22", true},
	{{"pods"}, TUNNEL_ACL_PODS, "172.17.0.2:80", true},
	{{"pods"}, TUNNEL_ACL_SERVICES, "172.17.0.2:80", false},
	{{"pods:80"}, TUNNEL_ACL_PODS, "172.17.0.2:81", false},
	{{"services"}, TUNNEL_ACL_SERVICES, "10.96.0.1:443", true},
	{{"pods"}, TUNNEL_ACL_PODS, "127.0.0.1:80", false},
	{{"pods"}, TUNNEL_ACL_PODS, "[::1]:80", false},
	{{"pods"}, TUNNEL_ACL_PODS, "[::ffff:127.0.0.1]:80", false},
	{{"pods", "node:*", "services"}, TUNNEL_ACL_NODE, "169.254.169.254:80", false},
	{{"node:*"}, TUNNEL_ACL_NODE, "[::ffff:169.254.169.254]:80", false},
	{{"node:*"}, TUNNEL_ACL_NODE, "169.254.1.1:80", false},
	{{"node:*"}, TUNNEL_ACL_NODE, "169.253.1.1:80", true},
	{{"node:*"}, TUNNEL_ACL_NODE, "[fe80::1]:80", false},
	{{"node:*"}, TUNNEL_ACL_NODE, "[febf::1]:80", false},
	{{"node:*"}, TUNNEL_ACL_NODE, "[fec0::1]:80", true},
	{{"node:*"}, TUNNEL_ACL_NODE, "[fd00:ec2::254]:80", false},
	{{"node:*"}, TUNNEL_ACL_NODE, "100.100.100.200:80", false},
	{{"node:*"}, TUNNEL_ACL_NODE, "168.63.129.16:80", false},
	{{"node:*"}, TUNNEL_ACL_NODE, "224.0.0.1:80", false},
	{{"node:*"}, TUNNEL_ACL_NODE, "255.255.255.255:80", false},
	{{"node:*"}, TUNNEL_ACL_NODE, "223.255.255.255:80", true},
	{{"node:*"}, TUNNEL_ACL_NODE, "0.0.0.0:80", false},
	{{"node:*"}, TUNNEL_ACL_NODE, "[::]:80", false},
	{{"node:*"}, TUNNEL_ACL_NODE, "[ff02::1]:80", false},
	{{"node:*"}, TUNNEL_ACL_NODE, "unix:/run/x", false},
	{{"10.1.0.0/16"}, TUNNEL_ACL_PODS, "10.1.255.255:80", true},
	{{"10.1.0.0/16"}, TUNNEL_ACL_NODE, "10.2.0.0:80", false},
	{{"10.1.0.0/17"}, TUNNEL_ACL_PODS, "10.1.128.0:80", false},
	{{"pods", "!10.1.0.0/16"}, TUNNEL_ACL_PODS, "10.1.0.1:80", false},
	{{"!2001:db8::/33", "node:*"}, TUNNEL_ACL_NODE, "[2001:db8::1]:80", false},
	{{"!2001:db8::/33", "node:*"}, TUNNEL_ACL_NODE, "[2001:db8:8000::1]:80", true},
	{{"0.0.0.0/0"}, TUNNEL_ACL_PODS, "169.254.169.254:80", false},
};

static void
test_table(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		struct tunnel_acl *a;
		struct addr target;
		const char *why = "unset";
		size_t n = 0;

		while (n < 4 && table[i].rules[n] != NULL)
			n++;
		assert_int_equal(tunnel_acl_new(table[i].rules, n, &a, NULL), 0);
		assert_int_equal(addr_parse(&target, table[i].target, 0, NULL), 0);
		if (tunnel_acl_check(a, table[i].kind, &target, &why) != table[i].allowed)
			fail_msg("row %zu: %s", i, table[i].target);
		assert_true((why == NULL) == table[i].allowed);
		tunnel_acl_free(&a);
	}
}

static void
test_bad_rules(void **state)
{
	static const char *const bad[] = {"agent:80", "", "!", "nodes", "node:", "node:0",
		"node:65536", "node:1-", "node:2-1", "node:1-2-3", "node:**", "pods:x", "Node",
		"node ", "node:1 ", "!!node", "node:99999999999999999999"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct tunnel_acl *a;
		struct err err = {0};

		if (tunnel_acl_new(&bad[i], 1, &a, &err) == 0)
			fail_msg("\"%s\" was taken", bad[i]);
		assert_non_null(strstr(err.text, bad[i]));
	}
}

static void
test_never(void **state)
{
	static const struct {
		const char *target;
		bool never;
	} rows[] = {
		{"169.254.169.254:80", true},
		{"[::ffff:169.254.169.254]:80", true},
		{"100.100.100.200:80", true},
		{"169.254.1.1:80", true},
		{"[fe80::1]:80", true},
		{"224.0.0.1:80", true},
		{"255.255.255.255:80", true},
		{"0.0.0.0:10012", true},
		{"0.1.2.3:80", true},
		{"[::]:10012", true},
		{"[::ffff:0.0.0.0]:10012", true},
		{"[ff02::1]:80", true},
		{"unix:/run/x", true},
		{"127.0.0.1:80", false}, /* the caller's affair */
		{"10.0.0.1:80", false},
		{"[2001:db8::1]:80", false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct addr target;

		assert_int_equal(addr_parse(&target, rows[i].target, 0, NULL), 0);
		if ((tunnel_acl_never(&target) != NULL) != rows[i].never)
			fail_msg("%s", rows[i].target);
	}
}

/* The agent itself is no target: nothing else opens it. */
static void
test_agent(void **state)
{
	static const struct {
		const char *rules[4];
		bool open;
	} rows[] = {
		{{"node", "pods", "services"}, false},
		{{"node:*", "0.0.0.0/0"}, false},
		{{"agent"}, true},
		{{"agent", "!agent"}, false},
		{{"!agent", "agent"}, false},
		{{"!node:10250", "agent"}, true},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct tunnel_acl *a;
		struct addr kubelet = addr_ipv4(0x7f000001, 10250);
		const char *why;
		size_t n = 0;

		while (n < ARRAY_LEN(rows[i].rules) && rows[i].rules[n] != NULL)
			n++;
		assert_int_equal(tunnel_acl_new(rows[i].rules, n, &a, NULL), 0);
		if (tunnel_acl_agent(a) != rows[i].open)
			fail_msg("row %zu", i);
		assert_int_equal(tunnel_acl_check(a, TUNNEL_ACL_NODE, &kubelet, &why), i < 2);
		tunnel_acl_free(&a);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_bad_rules),
		cmocka_unit_test(test_never),
		cmocka_unit_test(test_agent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
