#include "iptables/maps/divert.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <libnftnl/chain.h>
#include <libnftnl/common.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter_ipv4.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/log.h"
#include "base/core/sock.h"
#include "iptables/host/hook_conflicts.h"
#include "iptables/maps/guard.h"
#include "iptables/maps/rules.h"
#include "iptables/table/elements.h"
#include "iptables/table/expr.h"

#define ADDRESSES "addresses"
#define PORTS "ports"
#define OUTPUT "output"
#define PREROUTING "prerouting"
#define INPUT "input"
/* The numbers of nft(8) for key types, so that it can print our sets. */
enum { TYPE_IPV4 = 7, TYPE_IPV6 = 8, TYPE_PORT = 13 };
enum { PRIORITY = NF_IP_PRI_NAT_DST - 10 };

struct divert {
	struct guard guard;
	struct divert_rules rules; /* in force; the lists are our copies */
	struct in6_addr *addresses;
	uint32_t *ports;
	bool draining;
	bool no_sockets; /* as in struct rules (rules.h) */
	/* There are, or were, IPv6 addresses: their table stays, as divert_drain says. */
	bool ipv6;
	char refused6[256]; /* why the kernel has refused that table; "" it has not */
	uint64_t changes;
};

/* --- what goes into a transaction ----------------------------------------------------------- */

static enum divert_family
family_of(const struct batch *b)
{
	return b->family == NFPROTO_IPV4 ? DIVERT_V4 : DIVERT_V6;
}

static void
add_rule(
	struct batch *b, const char *chain, const struct divert_rules *r, const struct in6_addr *to)
{
	struct nftnl_rule *rule;

	if (IN6_IS_ADDR_UNSPECIFIED(to))
		return;
	rule = expr_rule(b->family);
	if (r->mark != 0 && strcmp(chain, OUTPUT) == 0)
		expr_match_not_mark(rule, r->mark);
	expr_match_set(rule, EXPR_DADDR, ADDRESSES, false);
	expr_match_l4proto(rule, IPPROTO_TCP);
	expr_match_set(rule, EXPR_DPORT, PORTS, false);
	expr_dnat(rule, to, r->port);
	batch_rule(b, chain, rule);
}

/* The table outlives a killed hub; this keeps a program that takes its port from the traffic: see
 * rules.h. */
static void
add_input(struct batch *b, const struct divert_rules *r)
{
	struct nftnl_rule *rule = expr_rule(b->family);

	expr_match_l4proto(rule, IPPROTO_TCP);
	expr_match_dport(rule, r->port);
	expr_match_translated(rule);
	expr_match_asked_set(rule, ADDRESSES);
	expr_match_foreign_socket(rule);
	expr_reject(rule, false);
	batch_rule(b, INPUT, rule);
}

static int
by_bytes(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct in6_addr));
}

/* Adds those of the table's family in `list` that `but` lacks. */
static void
put_addresses(struct elements *e, const struct divert_rules *list, const struct divert_rules *but)
{
	const bool v6 = family_of(e->batch) == DIVERT_V6;
	const uint16_t len = v6 ? sizeof(struct in6_addr) : sizeof(struct in_addr);

	for (size_t i = 0; i < list->n_addresses; i++) {
		const struct in6_addr *ip = &list->addresses[i];

		if (IN6_IS_ADDR_V4MAPPED(ip) == v6 ||
			(but->n_addresses > 0 &&
				bsearch(ip, but->addresses, but->n_addresses, sizeof *ip,
					by_bytes) != NULL))
			continue;
		elements_add(e,
			&(struct element){.key = ip->s6_addr + sizeof *ip - len, .key_len = len});
	}
}

static void
put_ports(struct elements *e, const struct divert_rules *list, const struct divert_rules *but)
{
	for (size_t i = 0, k = 0; i < list->n_ports; i++) {
		const uint16_t port = htons((uint16_t)list->ports[i]);

		while (k < but->n_ports && but->ports[k] < list->ports[i])
			k++;
		if (k == but->n_ports || but->ports[k] != list->ports[i])
			elements_add(e, &(struct element){.key = &port, .key_len = sizeof port});
	}
}

/* Changes the sets from `was` to `is`. */
static void
put_difference(struct batch *b, const struct divert_rules *was, const struct divert_rules *is)
{
	static const struct {
		const char *set;
		void (*put)(struct elements *e, const struct divert_rules *list,
			const struct divert_rules *but);
	} sets[] = {{ADDRESSES, put_addresses}, {PORTS, put_ports}};

	for (size_t i = 0; i < ARRAY_LEN(sets); i++) {
		struct elements e;

		elements_open(&e, b, NFT_MSG_DELSETELEM, sets[i].set);
		sets[i].put(&e, was, is);
		elements_close(&e);
		elements_open(&e, b, NFT_MSG_NEWSETELEM, sets[i].set);
		sets[i].put(&e, is, was);
		elements_close(&e);
	}
}

static void
put_table(struct batch *b, const struct divert_rules *r, const struct divert *d)
{
	const enum divert_family f = family_of(b);
	const struct batch_set sets[] = {
		{.name = ADDRESSES,
			.key_type = f == DIVERT_V6 ? TYPE_IPV6 : TYPE_IPV4,
			.key_len =
				f == DIVERT_V6 ? sizeof(struct in6_addr) : sizeof(struct in_addr)},
		{.name = PORTS, .key_type = TYPE_PORT, .key_len = sizeof(uint16_t)},
	};
	static const struct batch_hook output = {"nat", NF_INET_LOCAL_OUT, PRIORITY};
	static const struct batch_hook prerouting = {"nat", NF_INET_PRE_ROUTING, PRIORITY};
	static const struct batch_hook input = {"filter", NF_INET_LOCAL_IN, RULES_INPUT_PRIORITY};
	static const struct divert_rules nothing;

	batch_table(b, NFT_MSG_NEWTABLE);
	batch_table(b, NFT_MSG_DELTABLE);
	batch_table(b, NFT_MSG_NEWTABLE);
	for (size_t i = 0; i < ARRAY_LEN(sets); i++)
		batch_set(b, &sets[i]);
	batch_chain(b, OUTPUT, &output);
	batch_chain(b, PREROUTING, &prerouting);
	batch_chain(b, INPUT, &input);
	add_rule(b, OUTPUT, r, &r->local[f]);
	add_rule(b, PREROUTING, r, &r->others[f]);
	if (!d->no_sockets)
		add_input(b, r);
	if (!d->draining)
		put_difference(b, &nothing, r);
}

/* --- the table ------------------------------------------------------------------------------ */

static bool
has_ipv6(const struct divert_rules *r)
{
	for (size_t i = r->n_addresses; i-- > 0;)
		if (!IN6_IS_ADDR_V4MAPPED(&r->addresses[i]))
			return true;
	return false;
}

static bool
divert_serves6(const struct divert *d)
{
	return d->ipv6 && d->refused6[0] == '\0';
}

static int
commit_tables(struct divert *d, const struct divert_rules *r)
{
	struct transaction t;

	guard_begin(&d->guard, &t);
	put_table(&t.batch, r, d);
	if (divert_serves6(d)) {
		t.batch.family = NFPROTO_IPV6;
		put_table(&t.batch, r, d);
	}
	return guard_commit(&d->guard, &t);
}

/* With what this kernel can do. */
static int
try_tables(struct divert *d, const struct divert_rules *r)
{
	int rc = commit_tables(d, r);

	if (rc == -ENOENT && !d->no_sockets) {
		d->no_sockets = true;
		rc = commit_tables(d, r);
		if (rc == 0)
			log_warn("iptables",
				"the kernel cannot tell our sockets from others' "
				"(CONFIG_NFT_SOCKET, modprobe nft_socket): "
				"whoever takes the port of ingress.redirect after the hub was "
				"killed gets what is led there");
	}
	return rc;
}

/* A kernel that cannot have the IPv6 table has the IPv4 one. */
static int
make_anew(struct divert *d, const struct divert_rules *r)
{
	bool no_sockets = d->no_sockets;
	int rc, rc6;

	d->ipv6 |= has_ipv6(r);
	d->refused6[0] = '\0';
	rc = rc6 = try_tables(d, r);
	if (rc < 0 && d->ipv6) {
		snprintf(d->refused6, sizeof d->refused6,
			"the kernel refuses the nftables table ip6 " DIVERT_TABLE
			", which needs nf_tables with nat for IPv6 (%s)",
			strerror(-rc6));
		d->no_sockets = no_sockets;
		rc = try_tables(d, r);
	}
	if (rc < 0)
		d->refused6[0] = '\0';
	else
		guard_replaced(&d->guard);
	return rc;
}

static int
divert_install(void *arg, struct err *err)
{
	struct divert *d = arg;
	int rc = make_anew(d, &d->rules);

	return rc < 0 ? guard_explain(err, rc, "put back") : 0;
}

/* Which families have a table of ours. */
struct divert_left {
	bool found[DIVERT_FAMILIES];
};

static int
on_table(const struct nlmsghdr *nlh, void *arg)
{
	const struct nfgenmsg *gen = mnl_nlmsg_get_payload(nlh);
	struct divert_left *left = arg;

	if (strcmp(nl_text(nlh, sizeof *gen, NFTA_TABLE_NAME), DIVERT_TABLE) != 0)
		return MNL_CB_OK;
	left->found[DIVERT_V4] |= gen->nfgen_family == NFPROTO_IPV4;
	left->found[DIVERT_V6] |= gen->nfgen_family == NFPROTO_IPV6;
	return MNL_CB_OK;
}

static int
divert_look(struct mnl_socket *nl, struct divert_left *left, uint32_t seq)
{
	char bytes[256];
	struct nlmsghdr *nlh =
		nftnl_nlmsg_build_hdr(bytes, NFT_MSG_GETTABLE, NFPROTO_UNSPEC, NLM_F_DUMP, seq);

	*left = (struct divert_left){{false}};
	return nl_request(nl, nlh, on_table, left);
}

int
divert_open(struct divert **out, struct loop *loop, struct err *err)
{
	struct divert_left left;
	struct divert *d = xcalloc(1, sizeof *d);
	int rc = guard_open(&d->guard,
		&(struct guard_config){
			.loop = loop, .table = DIVERT_TABLE, .install = divert_install, .arg = d},
		err);

	if (rc == 0 && divert_look(d->guard.changes, &left, d->guard.seq++) == 0)
		d->ipv6 = left.found[DIVERT_V6];
	if (rc < 0)
		divert_close(&d);
	*out = d;
	return rc;
}

static void *
divert_copy(const void *list, size_t n, size_t each)
{
	void *to = xcalloc(n + 1, each);

	if (n > 0)
		memcpy(to, list, n * each);
	return to;
}

static void
divert_adopt(struct divert *d, const struct divert_rules *rules)
{
	void *addresses =
		divert_copy(rules->addresses, rules->n_addresses, sizeof *rules->addresses);
	void *ports = divert_copy(rules->ports, rules->n_ports, sizeof *rules->ports);

	free(d->addresses);
	free(d->ports);
	d->rules = *rules;
	d->rules.addresses = d->addresses = addresses;
	d->rules.ports = d->ports = ports;
}

static bool
same_lists(const struct divert_rules *a, const struct divert_rules *b)
{
	return a->n_addresses == b->n_addresses && a->n_ports == b->n_ports &&
		(a->n_addresses == 0 ||
			memcmp(a->addresses, b->addresses, a->n_addresses * sizeof *a->addresses) ==
				0) &&
		(a->n_ports == 0 || memcmp(a->ports, b->ports, a->n_ports * sizeof *a->ports) == 0);
}

static bool
same_rules(const struct divert *d, const struct divert_rules *r)
{
	return d->guard.armed && !d->draining && r->mark == d->rules.mark &&
		r->port == d->rules.port &&
		memcmp(r->local, d->rules.local, sizeof r->local) == 0 &&
		memcmp(r->others, d->rules.others, sizeof r->others) == 0;
}

/* Changes only the sets, in one transaction. */
static int
change_sets(struct divert *d, const struct divert_rules *rules)
{
	struct transaction t;

	guard_begin(&d->guard, &t);
	put_difference(&t.batch, &d->rules, rules);
	if (divert_serves6(d)) {
		t.batch.family = NFPROTO_IPV6;
		put_difference(&t.batch, &d->rules, rules);
	}
	return guard_commit(&d->guard, &t);
}

int
divert_use(struct divert *d, const struct divert_rules *rules, struct err *err)
{
	bool same = same_rules(d, rules) && (d->ipv6 || !has_ipv6(rules));
	int rc = -ENOENT;

	if (same && same_lists(rules, &d->rules))
		return 0;
	d->draining = false;
	if (same)
		rc = change_sets(d, rules);
	/* Another program may just have changed the sets: then create the table anew. */
	if (rc < 0 && (rc = make_anew(d, rules)) < 0)
		return guard_explain(err, rc, d->guard.armed ? "change" : "install");
	divert_adopt(d, rules);
	d->guard.armed = true;
	d->changes++;
	return 0;
}

/* The rules stay: if no other program translates, the kernel would stop tracking connections
 * without them, and existing connections would break. */
int
divert_drain(struct divert *d, struct err *err)
{
	struct transaction t;
	int rc;

	d->draining = true;
	if (!d->guard.armed)
		return 0;
	guard_begin(&d->guard, &t);
	elements_flush(&t.batch, ADDRESSES);
	if (divert_serves6(d)) {
		t.batch.family = NFPROTO_IPV6;
		elements_flush(&t.batch, ADDRESSES);
	}
	rc = guard_commit(&d->guard, &t);
	return rc < 0 ? guard_explain(err, rc, "change") : 0;
}

static void
put_removal(struct batch *b)
{
	batch_table(b, NFT_MSG_NEWTABLE); /* so that deleting cannot fail */
	batch_table(b, NFT_MSG_DELTABLE);
}

int
divert_remove(struct divert *d, struct err *err)
{
	struct transaction t;
	int rc;

	guard_disarm(&d->guard);
	guard_begin(&d->guard, &t);
	put_removal(&t.batch);
	if (divert_serves6(d)) {
		t.batch.family = NFPROTO_IPV6;
		put_removal(&t.batch);
	}
	d->ipv6 = false;
	rc = guard_commit(&d->guard, &t);
	return rc < 0 ? guard_explain(err, rc, "remove") : 0;
}

void
divert_close(struct divert **out)
{
	struct divert *d = take_ptr(out);

	if (d == NULL)
		return;
	guard_close(&d->guard);
	free(d->addresses);
	free(d->ports);
	free(d);
}

void
divert_report(const struct divert *d, struct divert_report *report)
{
	*report = (struct divert_report){
		.installed = d->guard.armed,
		.ipv6 = d->guard.armed && divert_serves6(d),
		.refused6 = d->refused6,
		.addresses = d->rules.n_addresses,
		.ports = d->rules.n_ports,
		.changes = d->changes,
		.repairs = d->guard.repairs,
		.failures = d->guard.failures,
	};
}

/* --- what an earlier run left --------------------------------------------------------------- */

int
divert_sweep(struct err *err)
{
	static const uint8_t families[] = {[DIVERT_V4] = NFPROTO_IPV4, [DIVERT_V6] = NFPROTO_IPV6};
	auto_nl struct mnl_socket *nl = NULL;
	auto_buf struct buf out;
	struct divert_left left;
	struct batch b;
	uint32_t seq = 2;
	int rc = nl_open(&nl, NETLINK_NETFILTER, 0, err);

	buf_init(&out, BUF_UNLIMITED);
	if (rc == 0 && (rc = divert_look(nl, &left, 1)) < 0)
		return guard_explain(err, rc, "look for");
	if (rc < 0 || (!left.found[DIVERT_V4] && !left.found[DIVERT_V6]))
		return rc;
	batch_open(&b, DIVERT_TABLE, &out, &seq);
	for (enum divert_family f = 0; f < DIVERT_FAMILIES; f++) {
		b.family = families[f];
		if (left.found[f])
			put_removal(&b);
	}
	batch_close(&b);
	rc = nl_batch(nl, buf_at(&out), buf_len(&out), b.acks);
	return rc < 0 ? guard_explain(err, rc, "remove") : 1;
}

void
divert_rivals(enum divert_family family, struct buf *out)
{
	hook_conflicts_translating(DIVERT_TABLE, PRIORITY,
		family == DIVERT_V6 ? HOOK_CONFLICTS_V6 : HOOK_CONFLICTS_V4, out);
}
