/* The batch of messages that installs the table: its order, its bounds, its expressions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <libmnl/libmnl.h>
#include <libnftnl/rule.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>

#include "base/core/sock.h"
#include "iptables/maps/rules.h"
#include "iptables/table/elements.h"

static const char *const bridges[] = {"docker0", "br-*", NULL};
static const struct rules sample = {.interfaces = bridges,
	.net = {{.s6_addr = {[10] = 0xff, 0xff, 9, 251}}, 96 + 16},
	.address = {.s6_addr = {[10] = 0xff, 0xff, 172, 17, 0, 1}},
	.port = 40001,
	.dns_port = 53,
	.mark = 0x6564};

struct seen {
	unsigned types[192];
	unsigned n, acks;
	uint32_t next_seq;
	char rules[96][2048];
	unsigned n_rules;
};

static void
look(struct seen *s, struct buf *batch)
{
	const struct nlmsghdr *nlh = (const void *)buf_at(batch);
	int left = (int)buf_len(batch);

	for (; mnl_nlmsg_ok(nlh, left); nlh = mnl_nlmsg_next(nlh, &left)) {
		assert_true(s->n < ARRAY_LEN(s->types));
		s->types[s->n++] = nlh->nlmsg_type;
		assert_int_equal(nlh->nlmsg_seq, s->next_seq++);
		s->acks += (nlh->nlmsg_flags & NLM_F_ACK) != 0;
		if (nlh->nlmsg_type == (NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWRULE)) {
			struct nftnl_rule *r = nftnl_rule_alloc();

			assert_int_equal(nftnl_rule_nlmsg_parse(nlh, r), 0);
			assert_true(s->n_rules < ARRAY_LEN(s->rules));
			nftnl_rule_snprintf(s->rules[s->n_rules], sizeof s->rules[0], r,
				NFTNL_OUTPUT_DEFAULT, 0);
			s->n_rules++;
			nftnl_rule_free(r);
		}
	}
	assert_int_equal(left, 0);
}

/* The batch that installs `r`, looked at. */
static void
install(struct seen *s, const struct rules *r)
{
	auto_buf struct buf bytes;
	struct batch b;
	uint32_t seq = 7;

	s->next_seq = 7;
	buf_init(&bytes, BUF_UNLIMITED);
	batch_open(&b, RULES_TABLE, &bytes, &seq);
	rules_install(&b, r);
	batch_close(&b);
	look(s, &bytes);
	assert_int_equal(s->next_seq, seq);
	assert_int_equal(s->acks, b.acks);
	assert_int_equal(s->acks, s->n - 2); /* all but the batch's own ends */
}

/* The rule of this chain that has `text`. */
static const char *
rule_of(const struct seen *s, const char *chain, const char *text)
{
	auto_free char *head = xasprintf("ip edgeway %s", chain);

	for (unsigned i = 0; i < s->n_rules; i++) {
		if (strncmp(s->rules[i], head, strlen(head)) == 0 &&
			strstr(s->rules[i], text) != NULL)
			return s->rules[i];
	}
	fail_msg("no rule in %s has %s", chain, text);
	return NULL;
}

static void
install_is_one_batch(void **state)
{
	static const unsigned order[] = {NFNL_MSG_BATCH_BEGIN, NFT_MSG_NEWTABLE, NFT_MSG_DELTABLE,
		NFT_MSG_NEWTABLE, NFT_MSG_NEWSET};
	struct seen s = {0};
	bool rules = false;

	(void)state;
	install(&s, &sample);
	for (size_t i = 0; i < ARRAY_LEN(order); i++)
		assert_int_equal(s.types[i] & 0xff, order[i]);
	assert_int_equal(s.types[s.n - 1], NFNL_MSG_BATCH_END);
	for (unsigned i = 0; i < s.n; i++) {
		unsigned type = s.types[i] & 0xff;

		if (s.types[i] >> 8 != NFNL_SUBSYS_NFTABLES)
			continue;
		rules |= type == NFT_MSG_NEWRULE;
		if (type == NFT_MSG_NEWCHAIN || type == NFT_MSG_NEWSET)
			assert_false(rules); /* a rule may name any chain and set */
	}
	assert_true(rules);
}

/* Behind other programs' translations; sources are kept but for callers of this node. */
static void
external(void **state)
{
	struct seen s = {0};

	(void)state;
	install(&s, &sample);
	rule_of(&s, "external", "set external dreg 0");
	assert_non_null(strstr(
		rule_of(&s, "external-own", "set external dreg 0"), "cmp neq reg 1 0x00006564"));
	rule_of(&s, "postrouting", "set sources dreg 0");
	rule_of(&s, "masqueraded", "masq");
	assert_non_null(strstr(rule_of(&s, "kept", "0x6b636f64"), "masq"));
	assert_non_null(strstr(rule_of(&s, "kept", "meta load iif => reg 1"), "masq"));
}

static void
entry(void **state)
{
	struct seen s = {0};
	const char *rule;

	(void)state;
	install(&s, &sample);
	/* "docker0" whole with its zero bytes, "br-" as a start */
	rule = rule_of(
		&s, "prerouting", "cmp eq reg 1 0x6b636f64 0x00307265 0x00000000 0x00000000");
	assert_non_null(strstr(rule, "meta load iifname => reg 1"));
	assert_non_null(strstr(rule, "goto -> pods"));
	rule_of(&s, "prerouting", "cmp eq reg 1 0x002d7262 ]");
	/* other bridges: TCP never by the kernel, see rules.h */
	rule = rule_of(&s, "prerouting", "goto -> guests");
	assert_non_null(strstr(rule, "cmp eq reg 1 0x002d7262 ]"));
	assert_non_null(strstr(rule, "cmp eq reg 1 0x00000006"));
	rule_of(&s, "guests", "lookup reg 1 set upstreams ]");
	rule_of(&s, "guests", "goto -> listened");
	/* the output chain leaves our own connections alone */
	rule = rule_of(&s, "output", "goto -> own");
	assert_null(strstr(rule, "iifname"));
	assert_non_null(strstr(rule, "cmp neq reg 1 0x00006564"));
	/* what only some may call: by the caller's address, or for processes of the node */
	rule_of(&s, "own", "set hosts dreg 0");
	rule_of(&s, "own", "goto -> mesh");
	rule_of(&s, "mesh", "set callers dreg 0");
}

static void
listener(void **state)
{
	struct seen s = {0};
	const char *rule;

	(void)state;
	install(&s, &sample);
	rule_of(&s, "listened", "set podranges");
	rule = rule_of(&s, "listened", "goto -> proxy");
	assert_non_null(strstr(rule, "payload load 4b @ network header + 16 => reg 1"));
	assert_non_null(strstr(rule, "reg 1 & 0x0000ffff"));
	assert_non_null(strstr(rule, "cmp eq reg 1 0x0000fb09"));
	rule = rule_of(&s, "proxy", "nat dnat ip addr_min reg 1");
	assert_non_null(strstr(rule, "cmp eq reg 1 0x00000006"));
	assert_non_null(strstr(rule, "immediate reg 1 0x010011ac"));
	assert_non_null(strstr(rule, "immediate reg 2 0x0000419c"));
	assert_non_null(strstr(rule, "proto_min reg 2"));
}

/* The table of IPv6 has the same rules, with other addresses. */
static void
ipv6(void **state)
{
	const struct rules six = {.interfaces = bridges,
		.net = {{.s6_addr = {0xfd, 0x09, 0x02, 0x51}}, 96},
		.address = {.s6_addr = {0xfd, 0x09, 0x02, 0x51, [11] = 1, [15] = 1}},
		.port = 40001,
		.dns_port = 53,
		.mark = 0x6564};
	struct seen four = {0}, s = {0};
	bool translates = false, range = false;

	(void)state;
	install(&four, &sample);
	install(&s, &six);
	assert_int_equal(s.n, four.n);
	assert_memory_equal(s.types, four.types, sizeof s.types);
	assert_int_equal(s.n_rules, four.n_rules);
	for (unsigned i = 0; i < s.n_rules; i++) {
		assert_int_equal(strncmp(s.rules[i], "ip6 edgeway ", 12), 0);
		translates |=
			strstr(s.rules[i],
				"immediate reg 1 0x510209fd 0x00000000 0x01000000 0x01000000") !=
			NULL;
		range |= strstr(s.rules[i], "payload load 16b @ network header + 24 => reg 1") !=
				NULL &&
			strstr(s.rules[i], "& 0xffffffff 0xffffffff 0xffffffff 0x00000000") != NULL;
	}
	assert_true(translates && range);
}

/* What is translated to a port of ours reaches a socket of ours, or none. */
static void
foreign_sockets(void **state)
{
	struct rules r = sample;
	struct seen s = {0}, without = {0};
	const char *rule;

	(void)state;
	install(&s, &r);
	rule = rule_of(&s, "input", "reject type 0 code 3");
	assert_non_null(strstr(rule, "cmp eq reg 1 0x010011ac"));
	assert_non_null(strstr(rule, "lookup reg 1 set ports ]"));
	assert_non_null(strstr(rule, "socket load transparent => reg 1 ]"));
	assert_non_null(strstr(rule, "cmp eq reg 1 0x00000000 ]"));
	r.no_sockets = true;
	install(&without, &r);
	for (unsigned i = 0; i < without.n_rules; i++)
		assert_null(strstr(without.rules[i], "socket load"));
}

/* What is for the range and was not translated. */
static void
refusal(void **state)
{
	static const char *const chains[] = {"early", "forward", "local"};
	struct seen s = {0};

	(void)state;
	install(&s, &sample);
	for (size_t i = 0; i < ARRAY_LEN(chains); i++) {
		const char *rule = rule_of(&s, chains[i], "reject type 0 code 3");

		assert_non_null(strstr(rule, "cmp eq reg 1 0x0000fb09"));
	}
}

static void
captures_only_pods(void **state)
{
	struct seen s = {0};
	const char *udp, *tcp;

	(void)state;
	install(&s, &sample);
	udp = rule_of(&s, "pods", "cmp eq reg 1 0x00000011");
	tcp = rule_of(&s, "pods", "cmp eq reg 1 0x00000006");
	for (size_t i = 0; i < 2; i++) {
		const char *rule = i == 0 ? udp : tcp;

		assert_non_null(strstr(rule, "lookup reg 1 set upstreams ]"));
		assert_non_null(strstr(rule, "lookup reg 1 set upstreams 0x1 ]")); /* saddr != */
		assert_non_null(strstr(rule, "cmp eq reg 1 0x00003500"));
		assert_non_null(strstr(rule, "immediate reg 2 0x00003500"));
	}
	rule_of(&s, "pods", "goto -> mesh"); /* the rest */
	for (unsigned i = 0; i < s.n_rules; i++) {
		if (strstr(s.rules[i], "upstreams") != NULL)
			assert_true(strstr(s.rules[i], "ip edgeway pods") != NULL ||
				strstr(s.rules[i], "ip edgeway guests") != NULL);
	}
}

static void
no_mark_no_test_of_it(void **state)
{
	struct rules r = sample;
	struct seen s = {0};

	(void)state;
	r.mark = 0;
	install(&s, &r);
	assert_null(strstr(rule_of(&s, "output", "goto -> own"), "meta load mark"));
}

/* Old elements go and new ones come in one batch: renewing works on every kernel. */
static void
capture_replaces(void **state)
{
	const struct in6_addr upstreams[] = {ip_of_v4(0xc0000235), ip_of_v4(0xc0000236)};
	static const unsigned with[] = {NFT_MSG_DELSETELEM, NFT_MSG_NEWSETELEM};

	(void)state;
	for (size_t n = 0; n <= ARRAY_LEN(upstreams); n += 2) {
		struct seen s = {.next_seq = 1};
		auto_buf struct buf bytes;
		struct batch b;
		uint32_t seq = 1;

		buf_init(&bytes, BUF_UNLIMITED);
		batch_open(&b, RULES_TABLE, &bytes, &seq);
		rules_capture(&b, upstreams, n, 10000);
		batch_close(&b);
		look(&s, &bytes);
		assert_int_equal(b.acks, n == 0 ? 1 : 2);
		assert_int_equal(s.n, b.acks + 2);
		for (unsigned i = 0; i < b.acks; i++)
			assert_int_equal(s.types[1 + i] & 0xff, with[i]);
	}
}

static void
remove_cannot_fail_for_lack_of_a_table(void **state)
{
	struct seen s = {.next_seq = 1};
	uint32_t seq = 1;
	auto_buf struct buf bytes;
	struct batch b;

	(void)state;
	buf_init(&bytes, BUF_UNLIMITED);
	batch_open(&b, RULES_TABLE, &bytes, &seq);
	rules_remove(&b);
	batch_close(&b);
	assert_int_equal(b.acks, 2);
	look(&s, &bytes);
	assert_int_equal(s.n, 4);
	assert_int_equal(s.types[1] & 0xff, NFT_MSG_NEWTABLE);
	assert_int_equal(s.types[2] & 0xff, NFT_MSG_DELTABLE);
}

/* More elements than one message holds. */
static void
elements_fill_messages(void **state)
{
	struct seen s = {.next_seq = 1};
	uint32_t seq = 1;
	auto_buf struct buf bytes;
	struct elements e;
	struct batch b;

	(void)state;
	buf_init(&bytes, BUF_UNLIMITED);
	batch_open(&b, RULES_TABLE, &bytes, &seq);
	elements_open(&e, &b, NFT_MSG_NEWSETELEM, "upstreams");
	for (uint32_t i = 0; i < 3000; i++)
		elements_add(&e, &(struct element){.key = &i, .key_len = sizeof i, .chain = "one"});
	elements_close(&e);
	batch_close(&b);
	look(&s, &bytes);
	assert_true(b.acks > 1 && b.acks < 20);
	assert_int_equal(s.n, b.acks + 2);
}

static void
names_of_interfaces(void **state)
{
	static const char *const good[] = {
		"docker0", "br-*", "a", "abcdefghijklmno", "abcdefghijklmno*"};
	static const char *const bad[] = {
		"", "*", "abcdefghijklmnop", "a b", "br-*x", "b?", "a/b", "a\"b", "a\\b"};
	struct err err;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		assert_int_equal(rules_check(good[i], &err), 0);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(rules_check(bad[i], &err), -EINVAL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(install_is_one_batch),
		cmocka_unit_test(external),
		cmocka_unit_test(entry),
		cmocka_unit_test(listener),
		cmocka_unit_test(ipv6),
		cmocka_unit_test(foreign_sockets),
		cmocka_unit_test(refusal),
		cmocka_unit_test(captures_only_pods),
		cmocka_unit_test(capture_replaces),
		cmocka_unit_test(elements_fill_messages),
		cmocka_unit_test(no_mark_no_test_of_it),
		cmocka_unit_test(remove_cannot_fail_for_lack_of_a_table),
		cmocka_unit_test(names_of_interfaces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
