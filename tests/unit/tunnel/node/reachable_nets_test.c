/* What tunnel.reach may say, and what it opens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "model/check.h"
#include "tunnel/node/reachable_nets.h"

static const struct {
	const char *entry, *why; /* NULL: it is right */
} entries[] = {
	{"edge-2", NULL},
	{"edge-2.example", NULL},
	{"edge-2:22", NULL},
	{"edge-2:9100-9105", NULL},
	{"edge-2:*", NULL},
	{"192.168.1.0/24", NULL},
	{"192.168.1.0/24:9100", NULL},
	{"192.168.1.50", NULL},
	{"192.168.1.50:9100-9100", NULL},
	{"172.16.0.0/12", NULL},
	{"100.64.0.0/12", NULL},
	{"fd00:1::/48", NULL},
	{"fd00:1::1", NULL},
	{"[fd00:1::/64]:22", NULL},
	{"[fd00:1::1]:22", NULL},
	{"[fd00:1::1]", NULL},
	{"10.0.0.0/11", "too wide"},
	{"0.0.0.0/0", "too wide"},
	{"fd00::/47", "too wide"},
	{"192.0.2.0/24", "not a private"},
	{"127.0.0.1", "not a private"},
	{"169.254.169.254", "not a private"},
	{"224.0.0.1", "not a private"},
	{"::1", "not a private"},
	{"[fe80::/64]", "not a private"},
	{"172.32.0.1", "not a private"},
	{"192.168.1.0/33", "expected a node"},
	{"192.168.1.0/", "expected a node"},
	{"192.168.1.0/24/8", "expected a node"},
	{"edge-2/24", "expected a node"},
	{"[edge-2]", "expected a node"},
	{"[fd00::1", "expected a node"},
	{"[fd00::1]x", "expected a node"},
	{"[192.168.1.1]:22", "expected a node"},
	{"fd00::/48:22", "expected a node"},
	{"[fd00::]/48:22", "expected a node"},
	{"[]:22", "expected a node"},
	{"[]", "expected a node"},
	{"edge-2:", "expected :PORT"},
	{"edge-2:0", "expected :PORT"},
	{"edge-2:65536", "expected :PORT"},
	{"edge-2:2-1", "expected :PORT"},
	{"edge-2:1-", "expected :PORT"},
	{"edge-2:1x", "expected :PORT"},
	{"edge-2:99999999999999999999", "expected :PORT"},
	{"Edge-2", "a node's name"},
	{"edge_2", "a node's name"},
	{"*", "a node's name"},
	{"192.168.1.300", "a node's name"},
	{":22", "a node's name"},
	{"edge 2", "expected a node"},
	{"", "expected a node"},
};

static void
what_may_be_said(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(entries); i++) {
		const char *const list[] = {"edge-1", entries[i].entry, NULL};
		struct reachable_nets *v;
		struct err err = {0};
		int rc = reachable_nets_new(list, &v, &err);

		if ((rc == 0) != (entries[i].why == NULL) ||
			(rc < 0 &&
				(strstr(err.text, entries[i].why) == NULL ||
					strstr(err.text, entries[i].entry) == NULL)))
			fail_msg("%s: %d %s", entries[i].entry, rc, err.text);
		reachable_nets_free(&v);
	}
}

static const struct {
	const char *list[4], *meant, *ip;
	uint16_t port;
	const char *why; /* NULL: it is opened */
} asked[] = {
	{{NULL}, "edge-2", "192.168.1.12", 10250, "does not name"},
	{{"edge-2"}, "edge-2", "192.168.1.12", 10250, NULL},
	{{"edge-2"}, "edge-2", "192.168.1.12", 10255, NULL},
	{{"edge-2"}, "edge-2", "192.168.1.12", 10251, "does not open"},
	{{"edge-2"}, "edge-2", "192.168.1.12", 0, NULL},
	{{"edge-2"}, "edge-3", "192.168.1.12", 10250, "does not name"},
	{{"edge-2"}, "edge-22", "192.168.1.12", 10250, "does not name"},
	{{"edge-2"}, REACHABLE_NETS_ANY, "192.168.1.12", 10250, "does not name"},
	{{"edge-2:22"}, "edge-2", "192.168.1.12", 22, NULL},
	{{"edge-2:22"}, "edge-2", "192.168.1.12", 10250, "does not open"},
	{{"edge-2:22", "edge-2"}, "edge-2", "192.168.1.12", 10250, NULL},
	{{"edge-2:22-24"}, "edge-2", "192.168.1.12", 25, "does not open"},
	{{"edge-2:*"}, "edge-2", "192.168.1.12", 65535, NULL},
	{{"192.168.1.0/24"}, "edge-2", "192.168.1.12", 10250, NULL},
	{{"192.168.1.0/24:*"}, REACHABLE_NETS_ANY, "192.168.1.255", 1, NULL},
	{{"192.168.1.0/24:*"}, REACHABLE_NETS_ANY, "192.168.2.0", 1, "does not name"},
	{{"192.168.1.128/25:*"}, REACHABLE_NETS_ANY, "192.168.1.127", 1, "does not name"},
	{{"192.168.1.50:9100"}, REACHABLE_NETS_ANY, "192.168.1.50", 9100, NULL},
	{{"192.168.1.50:9100"}, REACHABLE_NETS_ANY, "192.168.1.51", 9100, "does not name"},
	{{"[fd00:1::/64]:22"}, REACHABLE_NETS_ANY, "fd00:1::7", 22, NULL},
	{{"[fd00:1::/64]:22"}, REACHABLE_NETS_ANY, "fd00:1:0:1::7", 22, "does not name"},
};

static void
what_is_opened(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(asked); i++) {
		struct reachable_nets_ask ask = {.meant = asked[i].meant, .port = asked[i].port};
		struct reachable_nets *v;
		const char *why;

		assert_true(ip_parse(asked[i].ip, &ask.ip));
		assert_int_equal(reachable_nets_new(asked[i].list, &v, NULL), 0);
		why = reachable_nets_check(v, &ask);
		if ((why == NULL) != (asked[i].why == NULL) ||
			(why != NULL && strstr(why, asked[i].why) == NULL))
			fail_msg("row %zu: %s", i, why != NULL ? why : "opened");
		reachable_nets_free(&v);
	}
}

/* The hub reads on behind an entry that is wrong: each has a verdict of its own. */
static void
a_strangers_word(void **state)
{
	static const char text[] = "edge-2\n0.0.0.0/0\n192.168.1.0/24:80\n";
	auto_buf struct buf out;
	struct reachable_nets *v;

	(void)state;
	buf_init(&out, REACHABLE_NETS_TEXT_MAX);
	assert_int_equal(reachable_nets_parse(text, strlen(text), &v, NULL), 0);
	assert_int_equal(v->n, 3);
	assert_null(v->list[0].wrong);
	assert_non_null(v->list[1].wrong);
	assert_null(v->list[2].wrong);
	reachable_nets_write(v, &out);
	assert_string_equal(buf_str(&out), text);
	reachable_nets_free(&v);
	assert_int_equal(reachable_nets_parse("", 0, &v, NULL), 0);
	assert_int_equal(v->n, 0);
	reachable_nets_free(&v);
	assert_true(reachable_nets_parse("edge-2", 6, &v, NULL) < 0);
	assert_true(reachable_nets_parse("\n", 1, &v, NULL) < 0);
	assert_true(reachable_nets_parse("a\0b\n", 4, &v, NULL) < 0);
	assert_true(reachable_nets_parse("a b\n", 4, &v, NULL) < 0);
}

static void
bounds(void **state)
{
	auto_buf struct buf text;
	struct reachable_nets *v;

	(void)state;
	buf_init(&text, BUF_UNLIMITED);
	for (int i = 0; i < REACHABLE_NETS_MAX; i++)
		buf_printf(&text, "edge-%d\n", i);
	assert_int_equal(reachable_nets_parse(buf_str(&text), buf_len(&text), &v, NULL), 0);
	reachable_nets_free(&v);
	buf_adds(&text, "one-more\n");
	assert_true(reachable_nets_parse(buf_str(&text), buf_len(&text), &v, NULL) < 0);
	assert_null(v);
	buf_consume(&text, buf_len(&text));
	buf_printf(&text, "%0*d\n", REACHABLE_NETS_ENTRY_MAX + 1, 0);
	assert_true(reachable_nets_parse(buf_str(&text), buf_len(&text), &v, NULL) < 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_may_be_said),
		cmocka_unit_test(what_is_opened),
		cmocka_unit_test(a_strangers_word),
		cmocka_unit_test(bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
