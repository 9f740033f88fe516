/*
 * The hub's table against the real kernel, in network namespaces of the test's own; nft(8) tells
 * what is there. Skipped (said aloud) where namespaces are not allowed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/log.h"
#include "base/core/sock.h"
#include "iptables/maps/divert.h"
#include "tests/unit/patience.h"

enum { TEXT_MAX = 65536 };

struct lab {
	struct loop *loop;
	struct divert *divert;
	char text[TEXT_MAX];
};

#define V4(a, b, c, d)                                                                             \
	{                                                                                          \
		.s6_addr = { [10] = 0xff, 0xff, a, b, c, d }                                       \
	}
#define V6(last)                                                                                   \
	{                                                                                          \
		.s6_addr = { 0xfd, [15] = last }                                                   \
	} /* fd00::last */
static const struct in6_addr three[] = {V4(10, 0, 0, 1), V4(192, 168, 1, 11), V4(192, 168, 1, 20)};
static const struct in6_addr both[] = {V4(10, 0, 0, 1), V6(0x11), V6(0x12)};
static const uint32_t ports[] = {10250, 10255};

static struct divert_rules
sample(void)
{
	return (struct divert_rules){.mark = 0x6564,
		.local = {V4(127, 0, 0, 1), V6(1)},
		.others = {V4(192, 0, 2, 1), V6(2)},
		.port = 10260,
		.addresses = three,
		.n_addresses = ARRAY_LEN(three),
		.ports = ports,
		.n_ports = ARRAY_LEN(ports)};
}

static const char *
ask(struct lab *lab, const char *command)
{
	FILE *f = popen(command, "r");
	size_t n;

	assert_non_null(f);
	n = fread(lab->text, 1, sizeof lab->text - 1, f);
	lab->text[n] = '\0';
	pclose(f);
	return lab->text;
}

static void
sh(struct lab *lab, const char *command)
{
	(void)lab;
	if (system(command) != 0)
		fail_msg("%s fails", command);
}

static const char *
listed(struct lab *lab)
{
	return ask(lab, "nft list table ip edgeway-hub 2>/dev/null");
}

static bool
says(struct lab *lab, const char *text)
{
	return strstr(listed(lab), text) != NULL;
}

static void
wait_for(struct lab *lab, const char *text)
{
	patience_until(patience_turn(lab->loop), says(lab, text));
}

static int
setup(void **state)
{
	struct lab *lab = xcalloc(1, sizeof *lab);

	*state = lab;
	if (unshare(CLONE_NEWNET) < 0)
		return -1;
	assert_int_equal(loop_new(&lab->loop, NULL), 0);
	return divert_open(&lab->divert, lab->loop, NULL);
}

static int
teardown(void **state)
{
	struct lab *lab = *state;

	divert_close(&lab->divert);
	loop_free(&lab->loop);
	free(lab);
	return 0;
}

/* As nft prints it, it is what the header shows; and nft reads it again. */
static void
the_table(void **state)
{
	struct lab *lab = *state;
	struct divert_rules r = sample();

	assert_int_equal(divert_use(lab->divert, &r, NULL), 0);
	assert_true(says(lab, "elements = { 10.0.0.1, 192.168.1.11,"));
	assert_true(says(lab, "elements = { 10250, 10255 }"));
	assert_true(
		says(lab, "type nat hook output priority -110; policy accept;") || /* nft 1.1: */
		says(lab, "type nat hook output priority dstnat - 10; policy accept;"));
	assert_true(says(lab, "type nat hook prerouting priority dstnat - 10; policy accept;"));
	assert_true(says(lab,
		"meta mark != 0x00006564 ip daddr @addresses tcp dport @ports dnat to "
		"127.0.0.1:10260"));
	assert_true(says(lab, "\t\tip daddr @addresses tcp dport @ports dnat to 192.0.2.1:10260"));
	sh(lab,
		"nft list ruleset > /tmp/divert-$$ && nft -f /tmp/divert-$$; rc=$?; rm "
		"/tmp/divert-$$; exit $rc");
	/* loopback: nothing for those who come from elsewhere */
	memset(r.others, 0, sizeof r.others);
	assert_int_equal(divert_use(lab->divert, &r, NULL), 0);
	assert_false(says(lab, "192.0.2.1"));
	assert_int_equal(divert_remove(lab->divert, NULL), 0);
	assert_string_equal(ask(lab, "nft list ruleset"), "");
	assert_int_equal(divert_remove(lab->divert, NULL), 0);
}

/* What changes are elements alone: the rules keep their handles. */
static void
elements_change_and_rules_do_not(void **state)
{
	static const struct in6_addr other[] = {
		V4(10, 0, 0, 1), V4(10, 0, 0, 2), V4(192, 168, 1, 21)};
	static const uint32_t more[] = {1, 10255};
	struct lab *lab = *state;
	struct divert_rules r = sample();
	struct divert_report report;
	auto_free char *rules = NULL;

	assert_int_equal(divert_use(lab->divert, &r, NULL), 0);
	rules = xstrdup(ask(lab, "nft -a list chain ip edgeway-hub output"));
	assert_int_equal(divert_use(lab->divert, &r, NULL), 0);
	divert_report(lab->divert, &report);
	assert_int_equal(report.changes, 1);
	r.addresses = other;
	r.ports = more;
	assert_int_equal(divert_use(lab->divert, &r, NULL), 0);
	assert_true(says(lab, "elements = { 10.0.0.1, 10.0.0.2,"));
	assert_true(says(lab, "192.168.1.21 }"));
	assert_true(says(lab, "elements = { 1, 10255 }"));
	r.n_addresses = r.n_ports = 0;
	assert_int_equal(divert_use(lab->divert, &r, NULL), 0);
	assert_false(says(lab, "elements"));
	assert_string_equal(ask(lab, "nft -a list chain ip edgeway-hub output"), rules);
	divert_report(lab->divert, &report);
	assert_int_equal(report.changes, 3);
	assert_int_equal(report.repairs, 0);
	assert_true(report.installed);
}

static void
many_nodes(void **state)
{
	enum { MANY = 20000 };
	struct lab *lab = *state;
	struct divert_rules r = sample();
	auto_free struct in6_addr *list = xcalloc(MANY, sizeof *list);

	for (uint32_t i = 0; i < MANY; i++)
		list[i] = ip_of_v4(0x0a000000 + 2 * i);
	r.addresses = list;
	r.n_addresses = MANY;
	assert_int_equal(divert_use(lab->divert, &r, NULL), 0);
	assert_string_equal(
		ask(lab, "nft list set ip edgeway-hub addresses | tr ',' '\\n' | grep -c '10\\.'"),
		"20000\n");
	for (uint32_t i = 0; i < MANY; i++)
		list[i].s6_addr[15]++;
	assert_int_equal(divert_use(lab->divert, &r, NULL), 0);
	assert_string_equal(
		ask(lab, "nft list set ip edgeway-hub addresses | tr ',' '\\n' | grep -c '10\\.'"),
		"20000\n");
	assert_string_equal(
		ask(lab, "nft get element ip edgeway-hub addresses '{ 10.0.0.1 }' >&2; echo $?"),
		"0\n");
}

static void
put_back(void **state)
{
	static const char *const harms[] = {"nft flush ruleset", "nft delete table ip edgeway-hub",
		"nft flush chain ip edgeway-hub output",
		"nft add element ip edgeway-hub ports '{ 443 }'",
		"nft delete element ip edgeway-hub addresses '{ 10.0.0.1 }'"};
	struct lab *lab = *state;
	struct divert_rules r = sample();
	struct divert_report report;
	auto_free char *whole = NULL;

	assert_int_equal(divert_use(lab->divert, &r, NULL), 0);
	whole = xstrdup(listed(lab));
	for (size_t i = 0; i < ARRAY_LEN(harms); i++) {
		sh(lab, harms[i]);
		assert_string_not_equal(listed(lab), whole);
		wait_for(lab, whole);
	}
	divert_report(lab->divert, &report);
	assert_int_equal(report.repairs, ARRAY_LEN(harms));
	/* A table of another's is not ours. */
	sh(lab, "nft add table ip edgeway && nft delete table ip edgeway");
	loop_turn(lab->loop);
	divert_report(lab->divert, &report);
	assert_int_equal(report.repairs, ARRAY_LEN(harms));
}

/* The sets are not what we believe, and nobody has turned the loop meanwhile: the table is made
 * anew. */
static void
changed_under_our_hands(void **state)
{
	static const struct in6_addr other[] = {V4(10, 0, 0, 2)};
	struct lab *lab = *state;
	struct divert_rules r = sample();

	assert_int_equal(divert_use(lab->divert, &r, NULL), 0);
	sh(lab, "nft delete table ip edgeway-hub");
	r.addresses = other;
	r.n_addresses = 1;
	assert_int_equal(divert_use(lab->divert, &r, NULL), 0);
	assert_true(says(lab, "elements = { 10.0.0.2 }") && says(lab, "10250, 10255"));
}

/* New connections go their own way; what is translated stays so, for which the rules must stay. */
static void
drained(void **state)
{
	struct lab *lab = *state;
	struct divert_rules r = sample();

	assert_int_equal(divert_use(lab->divert, &r, NULL), 0);
	assert_int_equal(divert_drain(lab->divert, NULL), 0);
	assert_true(says(lab, "dnat to 127.0.0.1:10260") && says(lab, "dnat to 192.0.2.1:10260"));
	assert_false(says(lab, "10.0.0.1"));
	sh(lab, "nft flush ruleset");
	wait_for(lab, "dnat to");
	assert_false(says(lab, "10.0.0.1"));
	assert_int_equal(divert_use(lab->divert, &r, NULL), 0);
	assert_true(says(lab, "10.0.0.1"));
}

static void
what_an_earlier_run_left(void **state)
{
	struct lab *lab = *state;
	struct divert_rules r = sample();

	assert_int_equal(divert_sweep(NULL), 0);
	sh(lab, "nft add table ip other && nft add table ip edgeway");
	assert_int_equal(divert_use(lab->divert, &r, NULL), 0);
	divert_close(&lab->divert);
	assert_int_equal(divert_sweep(NULL), 1);
	assert_string_equal(ask(lab, "nft list tables"), "table ip other\ntable ip edgeway\n");
	sh(lab, "nft -f - <<E\ntable ip edgeway-hub { chain c { accept; }; }\nE");
	assert_int_equal(divert_open(&lab->divert, lab->loop, NULL), 0);
	assert_int_equal(divert_use(lab->divert, &r, NULL), 0);
	assert_false(says(lab, "chain c "));
}

static void
rivals(void **state)
{
	struct lab *lab = *state;
	struct divert_rules r = sample();
	auto_buf struct buf text;

	buf_init(&text, BUF_UNLIMITED);
	assert_int_equal(divert_use(lab->divert, &r, NULL), 0);
	sh(lab,
		"nft -f - <<E\n"
		"table ip late { chain a { type nat hook output priority -100; }; }\n"
		"table ip filter { chain b { type filter hook output priority -150; }; }\n"
		"table ip6 six { chain c { type nat hook output priority -150; }; }\n"
		"table ip post { chain d { type nat hook postrouting priority -150; }; }\nE");
	divert_rivals(DIVERT_V4, &text);
	assert_string_equal(buf_str(&text), "");
	sh(lab,
		"nft -f - <<E\n"
		"table ip early { chain e { type nat hook output priority -150; }; }\nE");
	sh(lab,
		"nft -f - <<E\n"
		"table inet both { chain f { type nat hook prerouting priority -111; }; }\nE");
	divert_rivals(DIVERT_V4, &text);
	assert_non_null(strstr(buf_str(&text), "early e (output, priority -150)"));
	assert_non_null(strstr(buf_str(&text), "both f (prerouting, priority -111)"));
	assert_null(strstr(buf_str(&text), "six"));
	buf_consume(&text, buf_len(&text));
	divert_rivals(DIVERT_V6, &text);
	assert_string_equal(buf_str(&text),
		"six c (output, priority -150), both f (prerouting, priority -111)");
}

static bool
same_ruleset(struct lab *lab, const char *text)
{
	return strcmp(ask(lab, "nft list ruleset"), text) == 0;
}

/* The IPv6 table comes with the first such address, has the same rules, and stays. */
static void
both_families(void **state)
{
	static const char *const harms[] = {"nft flush ruleset", "nft delete table ip6 edgeway-hub",
		"nft delete element ip6 edgeway-hub addresses '{ fd00::11 }'"};
	struct lab *lab = *state;
	struct divert_rules r = sample();
	struct divert_report report;
	auto_free char *whole = NULL;

	assert_int_equal(divert_use(lab->divert, &r, NULL), 0);
	assert_string_equal(ask(lab, "nft list tables"), "table ip edgeway-hub\n");
	divert_report(lab->divert, &report);
	assert_false(report.ipv6);
	r.addresses = both;
	assert_int_equal(divert_use(lab->divert, &r, NULL), 0);
	ask(lab, "nft list table ip edgeway-hub");
	assert_non_null(strstr(lab->text, "elements = { 10.0.0.1 }"));
	assert_null(strstr(lab->text, "fd00"));
	whole = xstrdup(ask(lab, "nft list ruleset"));
	ask(lab, "nft list table ip6 edgeway-hub");
	assert_non_null(strstr(lab->text, "fd00::11,"));
	assert_non_null(strstr(lab->text, "elements = { 10250, 10255 }"));
	assert_non_null(strstr(lab->text,
		"meta mark != 0x00006564 ip6 daddr @addresses tcp dport @ports dnat to "
		"[fd00::1]:10260"));
	assert_non_null(strstr(
		lab->text, "\t\tip6 daddr @addresses tcp dport @ports dnat to [fd00::2]:10260"));
	sh(lab,
		"nft list ruleset > /tmp/divert-$$ && nft -f /tmp/divert-$$; rc=$?; rm "
		"/tmp/divert-$$; exit $rc");
	patience_until(patience_turn(lab->loop), same_ruleset(lab, whole));
	for (size_t i = 0; i < ARRAY_LEN(harms); i++) {
		sh(lab, harms[i]);
		assert_string_not_equal(ask(lab, "nft list ruleset"), whole);
		patience_until(patience_turn(lab->loop), same_ruleset(lab, whole));
	}
	r.n_addresses = 2;
	assert_int_equal(divert_use(lab->divert, &r, NULL), 0);
	assert_string_equal(ask(lab, "nft list set ip6 edgeway-hub addresses | grep -o 'fd00.*'"),
		"fd00::11 }\n");
	r.n_addresses = 1;
	assert_int_equal(divert_use(lab->divert, &r, NULL), 0);
	assert_string_equal(
		ask(lab, "nft list set ip6 edgeway-hub addresses | grep -c fd00"), "0\n");
	divert_report(lab->divert, &report);
	assert_true(report.ipv6);
	r.n_addresses = 3;
	assert_int_equal(divert_use(lab->divert, &r, NULL), 0);
	assert_int_equal(divert_drain(lab->divert, NULL), 0);
	assert_string_equal(ask(lab, "nft list ruleset | grep -c 'fd00::11'"), "0\n");
	assert_string_equal(ask(lab, "nft list ruleset | grep -c 'dnat to'"), "4\n");
	/* Whoever comes after a killed hub keeps its table until it knows the nodes. */
	assert_int_equal(divert_use(lab->divert, &r, NULL), 0);
	divert_close(&lab->divert);
	assert_int_equal(divert_open(&lab->divert, lab->loop, NULL), 0);
	r.n_addresses = 0;
	assert_int_equal(divert_use(lab->divert, &r, NULL), 0);
	assert_string_equal(
		ask(lab, "nft list tables"), "table ip edgeway-hub\ntable ip6 edgeway-hub\n");
	assert_int_equal(divert_remove(lab->divert, NULL), 0);
	assert_string_equal(ask(lab, "nft list ruleset"), "");
	sh(lab, "nft add table ip6 edgeway-hub");
	assert_int_equal(divert_sweep(NULL), 1);
	assert_string_equal(ask(lab, "nft list ruleset"), "");
}

/* Here since another program owns the table. */
static void
kernel_refuses_ipv6(void **state)
{
	struct lab *lab = *state;
	struct divert_rules r = sample();
	struct divert_report report;
	FILE *owner = popen("nft -i >/dev/null", "w");

	assert_non_null(owner);
	fputs("add table ip6 edgeway-hub { flags owner; }\n", owner);
	fflush(owner);
	patience_until(patience_turn(lab->loop),
		strstr(ask(lab, "nft list tables"), "ip6 edgeway-hub") != NULL);
	r.addresses = both;
	assert_int_equal(divert_use(lab->divert, &r, NULL), 0);
	assert_true(says(lab, "elements = { 10.0.0.1 }"));
	divert_report(lab->divert, &report);
	assert_true(report.installed && !report.ipv6);
	assert_non_null(strstr(report.refused6, "table ip6 edgeway-hub"));
	r.n_addresses = 2; /* IPv4 goes on */
	assert_int_equal(divert_use(lab->divert, &r, NULL), 0);
	sh(lab, "nft flush table ip edgeway-hub");
	patience_until(patience_turn(lab->loop), says(lab, "dnat to 127.0.0.1:10260"));
	pclose(owner);
	r.mark++; /* new rules are tried in both again */
	assert_int_equal(divert_use(lab->divert, &r, NULL), 0);
	divert_report(lab->divert, &report);
	assert_true(report.ipv6 && report.refused6[0] == '\0');
}

/* Not root: the last test, since there is no way back. */
static void
no_permission_is_said(void **state)
{
	struct lab *lab = *state;
	struct divert_rules r = sample();
	struct divert *another;
	struct divert_report report;
	struct err err;

	assert_int_equal(setuid(65534), 0);
	assert_int_equal(divert_use(lab->divert, &r, &err), -EPERM);
	assert_non_null(strstr(err.text, "CAP_NET_ADMIN"));
	divert_report(lab->divert, &report);
	assert_false(report.installed);
	assert_int_equal(divert_open(&another, lab->loop, &err), -EPERM);
	assert_null(another);
	assert_int_equal(divert_sweep(&err), -EPERM);
}

#define LAB_TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		LAB_TEST(the_table),
		LAB_TEST(elements_change_and_rules_do_not),
		LAB_TEST(many_nodes),
		LAB_TEST(put_back),
		LAB_TEST(changed_under_our_hands),
		LAB_TEST(drained),
		LAB_TEST(what_an_earlier_run_left),
		LAB_TEST(rivals),
		LAB_TEST(both_families),
		LAB_TEST(kernel_refuses_ipv6),
		LAB_TEST(no_permission_is_said),
	};

	if (geteuid() != 0 || unshare(CLONE_NEWNET) < 0) {
		puts("1..0 # SKIP needs root and network namespaces");
		return 0;
	}
	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_TEXT);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
