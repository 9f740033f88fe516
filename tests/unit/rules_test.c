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

#include "iptables/rules.h"

static const char *const bridges[] = {"docker0", "br-*", NULL};
static const struct rules sample = {.interfaces = bridges,
	.subnet = 0x09fb0000,
	.mask = 0xffff0000,
	.address = 0xac110001,
	.port = 40001,
	.mark = 0x6564};

struct seen {
	unsigned types[32];
	unsigned n, acks;
	uint32_t next_seq;
	char rules[8][2048];
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

static void
install_is_one_batch(void **state)
{
	static const unsigned order[] = {NFNL_MSG_BATCH_BEGIN, NFT_MSG_NEWTABLE, NFT_MSG_DELTABLE,
		NFT_MSG_NEWTABLE, NFT_MSG_NEWCHAIN, NFT_MSG_NEWCHAIN, NFT_MSG_NEWRULE,
		NFT_MSG_NEWRULE, NFT_MSG_NEWRULE, NFNL_MSG_BATCH_END};
	struct seen s = {.next_seq = 7};
	uint32_t seq = 7;
	auto_buf struct buf batch;

	(void)state;
	buf_init(&batch, BUF_UNLIMITED);
	assert_int_equal(rules_install(&batch, &seq, &sample), 8);
	look(&s, &batch);
	assert_int_equal(s.n, ARRAY_LEN(order));
	for (size_t i = 0; i < ARRAY_LEN(order); i++)
		assert_int_equal(s.types[i] & 0xff, order[i]);
	assert_int_equal(s.acks, 8);
	assert_int_equal(s.next_seq, seq);
}

static void
expressions(void **state)
{
	struct seen s = {.next_seq = 1};
	uint32_t seq = 1;
	auto_buf struct buf batch;

	(void)state;
	buf_init(&batch, BUF_UNLIMITED);
	rules_install(&batch, &seq, &sample);
	look(&s, &batch);
	assert_int_equal(s.n_rules, 3);
	/* "docker0" whole with its zero bytes, "br-" as a start */
	assert_non_null(strstr(s.rules[0], "prerouting"));
	assert_non_null(strstr(s.rules[0], "meta load iifname => reg 1"));
	assert_non_null(
		strstr(s.rules[0], "cmp eq reg 1 0x6b636f64 0x00307265 0x00000000 0x00000000"));
	assert_non_null(strstr(s.rules[1], "cmp eq reg 1 0x002d7262 ]"));
	/* the output chain leaves our own connections alone */
	assert_non_null(strstr(s.rules[2], "output"));
	assert_null(strstr(s.rules[2], "iifname"));
	assert_non_null(strstr(s.rules[2], "cmp neq reg 1 0x00006564"));
	for (unsigned i = 0; i < s.n_rules; i++) {
		assert_non_null(
			strstr(s.rules[i], "payload load 4b @ network header + 16 => reg 1"));
		assert_non_null(strstr(s.rules[i], "reg 1 & 0x0000ffff"));
		assert_non_null(strstr(s.rules[i], "cmp eq reg 1 0x0000fb09"));
		assert_non_null(strstr(s.rules[i], "cmp eq reg 1 0x00000006"));
		assert_non_null(strstr(s.rules[i], "immediate reg 1 0x010011ac"));
		assert_non_null(strstr(s.rules[i], "nat dnat ip addr_min reg 1"));
		assert_non_null(strstr(s.rules[i], "proto_min reg 2"));
	}
}

static void
no_mark_no_test_of_it(void **state)
{
	struct rules r = sample;
	struct seen s = {.next_seq = 1};
	uint32_t seq = 1;
	auto_buf struct buf batch;

	(void)state;
	r.mark = 0;
	buf_init(&batch, BUF_UNLIMITED);
	rules_install(&batch, &seq, &r);
	look(&s, &batch);
	assert_null(strstr(s.rules[2], "meta load mark"));
}

static void
remove_cannot_fail_for_lack_of_a_table(void **state)
{
	struct seen s = {.next_seq = 1};
	uint32_t seq = 1;
	auto_buf struct buf batch;

	(void)state;
	buf_init(&batch, BUF_UNLIMITED);
	assert_int_equal(rules_remove(&batch, &seq), 2);
	look(&s, &batch);
	assert_int_equal(s.n, 4);
	assert_int_equal(s.types[1] & 0xff, NFT_MSG_NEWTABLE);
	assert_int_equal(s.types[2] & 0xff, NFT_MSG_DELTABLE);
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
		cmocka_unit_test(expressions),
		cmocka_unit_test(no_mark_no_test_of_it),
		cmocka_unit_test(remove_cannot_fail_for_lack_of_a_table),
		cmocka_unit_test(names_of_interfaces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
