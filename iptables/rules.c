#include "iptables/rules.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <libnftnl/chain.h>
#include <libnftnl/common.h>
#include <libnftnl/expr.h>
#include <libnftnl/rule.h>
#include <libnftnl/table.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_nat.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter_ipv4.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/ip.h>

enum {
	PRIORITY = NF_IP_PRI_NAT_DST - 5,
	MESSAGE_MAX = 4096, /* the longest, a rule of twelve expressions, takes under 700 bytes */
};

struct batch {
	struct buf *out;
	uint32_t *seq;
	unsigned acks;
	char bytes[MESSAGE_MAX];
};

static void
batch_add(struct batch *b, const struct nlmsghdr *nlh)
{
	assert(nlh->nlmsg_len <= sizeof b->bytes);
	buf_add(b->out, b->bytes, nlh->nlmsg_len);
	(*b->seq)++;
}

static void
batch_begin(struct batch *b)
{
	batch_add(b, nftnl_batch_begin(b->bytes, *b->seq));
}

static void
batch_end(struct batch *b)
{
	batch_add(b, nftnl_batch_end(b->bytes, *b->seq));
}

static struct nlmsghdr *
message(struct batch *b, uint16_t type, uint16_t flags)
{
	b->acks++;
	return nftnl_nlmsg_build_hdr(b->bytes, type, NFPROTO_IPV4, flags | NLM_F_ACK, *b->seq);
}

static void
add_table(struct batch *b, uint16_t type)
{
	struct nftnl_table *t = nftnl_table_alloc();
	struct nlmsghdr *nlh = message(b, type, type == NFT_MSG_NEWTABLE ? NLM_F_CREATE : 0);

	assert(t != NULL);
	nftnl_table_set_str(t, NFTNL_TABLE_NAME, RULES_TABLE);
	nftnl_table_nlmsg_build_payload(nlh, t);
	nftnl_table_free(t);
	batch_add(b, nlh);
}

static void
add_chain(struct batch *b, const char *name, uint32_t hook)
{
	struct nftnl_chain *c = nftnl_chain_alloc();
	struct nlmsghdr *nlh = message(b, NFT_MSG_NEWCHAIN, NLM_F_CREATE);

	assert(c != NULL);
	nftnl_chain_set_str(c, NFTNL_CHAIN_TABLE, RULES_TABLE);
	nftnl_chain_set_str(c, NFTNL_CHAIN_NAME, name);
	nftnl_chain_set_str(c, NFTNL_CHAIN_TYPE, "nat");
	nftnl_chain_set_u32(c, NFTNL_CHAIN_HOOKNUM, hook);
	nftnl_chain_set_s32(c, NFTNL_CHAIN_PRIO, PRIORITY);
	nftnl_chain_set_u32(c, NFTNL_CHAIN_POLICY, NF_ACCEPT);
	nftnl_chain_nlmsg_build_payload(nlh, c);
	nftnl_chain_free(c);
	batch_add(b, nlh);
}

static struct nftnl_expr *
expr(struct nftnl_rule *r, const char *kind)
{
	struct nftnl_expr *e = nftnl_expr_alloc(kind);

	assert(e != NULL);
	nftnl_rule_add_expr(r, e);
	return e;
}

static void
load_meta(struct nftnl_rule *r, uint32_t key)
{
	struct nftnl_expr *e = expr(r, "meta");

	nftnl_expr_set_u32(e, NFTNL_EXPR_META_KEY, key);
	nftnl_expr_set_u32(e, NFTNL_EXPR_META_DREG, NFT_REG_1);
}

static void
compare(struct nftnl_rule *r, uint32_t op, const void *data, size_t len)
{
	struct nftnl_expr *e = expr(r, "cmp");

	nftnl_expr_set_u32(e, NFTNL_EXPR_CMP_SREG, NFT_REG_1);
	nftnl_expr_set_u32(e, NFTNL_EXPR_CMP_OP, op);
	nftnl_expr_set(e, NFTNL_EXPR_CMP_DATA, data, (uint32_t)len);
}

/* iifname "docker0", or the first bytes of it for "br-*". */
static void
match_interface(struct nftnl_rule *r, const char *pattern)
{
	char name[IFNAMSIZ] = "";
	size_t n = strlen(pattern);

	assert(n > 0 && n <= IFNAMSIZ);
	load_meta(r, NFT_META_IIFNAME);
	if (pattern[n - 1] == '*') {
		compare(r, NFT_CMP_EQ, pattern, n - 1);
		return;
	}
	memcpy(name, pattern, MIN(n, sizeof name - 1));
	compare(r, NFT_CMP_EQ, name, sizeof name);
}

static void
match_subnet(struct nftnl_rule *r, uint32_t subnet, uint32_t mask)
{
	uint32_t net = htonl(subnet), bits = htonl(mask), zero = 0;
	struct nftnl_expr *e = expr(r, "payload");

	nftnl_expr_set_u32(e, NFTNL_EXPR_PAYLOAD_BASE, NFT_PAYLOAD_NETWORK_HEADER);
	nftnl_expr_set_u32(e, NFTNL_EXPR_PAYLOAD_OFFSET, offsetof(struct iphdr, daddr));
	nftnl_expr_set_u32(e, NFTNL_EXPR_PAYLOAD_LEN, sizeof net);
	nftnl_expr_set_u32(e, NFTNL_EXPR_PAYLOAD_DREG, NFT_REG_1);
	e = expr(r, "bitwise");
	nftnl_expr_set_u32(e, NFTNL_EXPR_BITWISE_SREG, NFT_REG_1);
	nftnl_expr_set_u32(e, NFTNL_EXPR_BITWISE_DREG, NFT_REG_1);
	nftnl_expr_set_u32(e, NFTNL_EXPR_BITWISE_LEN, sizeof net);
	nftnl_expr_set(e, NFTNL_EXPR_BITWISE_MASK, &bits, sizeof bits);
	nftnl_expr_set(e, NFTNL_EXPR_BITWISE_XOR, &zero, sizeof zero);
	compare(r, NFT_CMP_EQ, &net, sizeof net);
}

static void
match_tcp(struct nftnl_rule *r)
{
	uint8_t tcp = IPPROTO_TCP;

	load_meta(r, NFT_META_L4PROTO);
	compare(r, NFT_CMP_EQ, &tcp, sizeof tcp);
}

static void
set_register(struct nftnl_rule *r, uint32_t reg, const void *data, uint32_t len)
{
	struct nftnl_expr *e = expr(r, "immediate");

	nftnl_expr_set_u32(e, NFTNL_EXPR_IMM_DREG, reg);
	nftnl_expr_set(e, NFTNL_EXPR_IMM_DATA, data, len);
}

static void
dnat_to(struct nftnl_rule *r, uint32_t address, uint16_t port)
{
	uint32_t ip = htonl(address);
	uint16_t be_port = htons(port);
	struct nftnl_expr *e;

	set_register(r, NFT_REG_1, &ip, sizeof ip);
	set_register(r, NFT_REG_2, &be_port, sizeof be_port);
	e = expr(r, "nat");
	nftnl_expr_set_u32(e, NFTNL_EXPR_NAT_TYPE, NFT_NAT_DNAT);
	nftnl_expr_set_u32(e, NFTNL_EXPR_NAT_FAMILY, NFPROTO_IPV4);
	nftnl_expr_set_u32(e, NFTNL_EXPR_NAT_REG_ADDR_MIN, NFT_REG_1);
	nftnl_expr_set_u32(e, NFTNL_EXPR_NAT_REG_PROTO_MIN, NFT_REG_2);
	nftnl_expr_set_u32(
		e, NFTNL_EXPR_NAT_FLAGS, NF_NAT_RANGE_MAP_IPS | NF_NAT_RANGE_PROTO_SPECIFIED);
}

/* interface NULL: the rule of the output chain. */
static void
add_rule(struct batch *b, const struct rules *rules, const char *interface)
{
	struct nftnl_rule *r = nftnl_rule_alloc();
	struct nlmsghdr *nlh = message(b, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND);

	assert(r != NULL);
	nftnl_rule_set_str(r, NFTNL_RULE_TABLE, RULES_TABLE);
	nftnl_rule_set_str(r, NFTNL_RULE_CHAIN, interface != NULL ? "prerouting" : "output");
	if (interface != NULL) {
		match_interface(r, interface);
	} else if (rules->mark != 0) {
		load_meta(r, NFT_META_MARK);
		compare(r, NFT_CMP_NEQ, &rules->mark, sizeof rules->mark);
	}
	match_subnet(r, rules->subnet, rules->mask);
	match_tcp(r);
	dnat_to(r, rules->address, rules->port);
	nftnl_rule_nlmsg_build_payload(nlh, r);
	nftnl_rule_free(r);
	batch_add(b, nlh);
}

int
rules_check(const char *interface, struct err *err)
{
	size_t n = strlen(interface);
	size_t fixed = n > 0 && interface[n - 1] == '*' ? n - 1 : n;

	if (n == 0 || fixed == 0 || fixed >= IFNAMSIZ)
		return err_set(err, EINVAL,
			"\"%s\" is not the name of an interface: want 1 to %d characters",
			interface, IFNAMSIZ - 1);
	for (size_t i = 0; i < fixed; i++) {
		if (interface[i] <= ' ' || interface[i] > '~' ||
			strchr("/*?[]\"\\", interface[i]) != NULL)
			return err_set(err, EINVAL,
				"\"%s\" is not the name of an interface: a '*' may stand at the "
				"end, no other special character",
				interface);
	}
	return 0;
}

unsigned
rules_install(struct buf *out, uint32_t *seq, const struct rules *r)
{
	struct batch b = {.out = out, .seq = seq};

	batch_begin(&b);
	add_table(&b, NFT_MSG_NEWTABLE);
	add_table(&b, NFT_MSG_DELTABLE);
	add_table(&b, NFT_MSG_NEWTABLE);
	add_chain(&b, "prerouting", NF_INET_PRE_ROUTING);
	add_chain(&b, "output", NF_INET_LOCAL_OUT);
	for (size_t i = 0; r->interfaces[i] != NULL; i++)
		add_rule(&b, r, r->interfaces[i]);
	add_rule(&b, r, NULL);
	batch_end(&b);
	return b.acks;
}

unsigned
rules_remove(struct buf *out, uint32_t *seq)
{
	struct batch b = {.out = out, .seq = seq};

	batch_begin(&b);
	add_table(&b, NFT_MSG_NEWTABLE); /* so that deleting cannot fail */
	add_table(&b, NFT_MSG_DELTABLE);
	batch_end(&b);
	return b.acks;
}
