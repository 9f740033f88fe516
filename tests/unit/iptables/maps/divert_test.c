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
#include "iptables/maps/divert.h"
#include "tests/unit/patience.h"

enum { TEXT_MAX = 65536 };

struct lab {
	struct loop *loop;
	struct divert *divert;
	char text[TEXT_MAX];
};

static const uint32_t three[] = {0x0a000001, 0xc0a8010b, 0xc0a80114}, ports[] = {10250, 10255};

static struct divert_rules
sample(void)
{
	return (struct divert_rules){.mark = 0x6564,
		.local = 0x7f000001,
		.others = 0xc0000201,
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
	r.others = 0;
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
	static const uint32_t other[] = {0x0a000001, 0x0a000002, 0xc0a80115}, more[] = {1, 10255};
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
	auto_free uint32_t *list = xcalloc(MANY, sizeof *list);

	for (uint32_t i = 0; i < MANY; i++)
		list[i] = 0x0a000000 + 2 * i;
	r.addresses = list;
	r.n_addresses = MANY;
	assert_int_equal(divert_use(lab->divert, &r, NULL), 0);
	assert_string_equal(
		ask(lab, "nft list set ip edgeway-hub addresses | tr ',' '\\n' | grep -c '10\\.'"),
		"20000\n");
	for (uint32_t i = 0; i < MANY; i++)
		list[i]++;
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
	static const uint32_t other[] = {0x0a000002};
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
	divert_rivals(&text);
	assert_string_equal(buf_str(&text), "");
	sh(lab,
		"nft -f - <<E\n"
		"table ip early { chain e { type nat hook output priority -150; }; }\nE");
	sh(lab,
		"nft -f - <<E\n"
		"table inet both { chain f { type nat hook prerouting priority -111; }; }\nE");
	divert_rivals(&text);
	assert_non_null(strstr(buf_str(&text), "early e (output, priority -150)"));
	assert_non_null(strstr(buf_str(&text), "both f (prerouting, priority -111)"));
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
		LAB_TEST(no_permission_is_said),
	};

	if (geteuid() != 0 || unshare(CLONE_NEWNET) < 0) {
		puts("1..0 # SKIP needs root and network namespaces");
		return 0;
	}
	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_TEXT);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
