#include "iptables/maps/divert.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libnftnl/chain.h>
#include <libnftnl/common.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter_ipv4.h>
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
enum { TYPE_IPV4 = 7, TYPE_PORT = 13 };
enum { PRIORITY = NF_IP_PRI_NAT_DST - 10 };

struct divert {
	struct guard guard;
	struct divert_rules rules; /* in force; the lists are our copies */
	uint32_t *addresses, *ports;
	bool draining;
	bool no_sockets; /* as in struct rules (rules.h) */
	uint64_t changes;
};

/* --- what goes into a transaction ----------------------------------------------------------- */

static void
add_rule(struct batch *b, const char *chain, const struct divert_rules *r, uint32_t to)
{
	const struct in6_addr target = ip_of_v4(to);
	struct nftnl_rule *rule;

	if (to == 0)
		return;
	rule = expr_rule(b->family);
	if (r->mark != 0 && strcmp(chain, OUTPUT) == 0)
		expr_match_not_mark(rule, r->mark);
	expr_match_set(rule, EXPR_DADDR, ADDRESSES, false);
	expr_match_l4proto(rule, IPPROTO_TCP);
	expr_match_set(rule, EXPR_DPORT, PORTS, false);
	expr_dnat(rule, &target, r->port);
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

static void
add_element(struct elements *e, uint32_t number, uint16_t len)
{
	uint32_t address = htonl(number);
	uint16_t port = htons((uint16_t)number);

	elements_add(e,
		&(struct element){.key = len == sizeof address ? (void *)&address : (void *)&port,
			.key_len = len});
}

/* Adds the elements of `list` that `but` lacks. */
static void
divert_put(struct elements *e, const struct divert_rules *list, const struct divert_rules *but,
	bool ports)
{
	const uint32_t *a = ports ? list->ports : list->addresses;
	const uint32_t *b = ports ? but->ports : but->addresses;
	size_t n = ports ? list->n_ports : list->n_addresses;
	size_t m = ports ? but->n_ports : but->n_addresses;

	for (size_t i = 0, k = 0; i < n; i++) {
		while (k < m && b[k] < a[i])
			k++;
		if (k == m || b[k] != a[i])
			add_element(e, a[i], ports ? sizeof(uint16_t) : sizeof(uint32_t));
	}
}

/* Changes the sets from `was` to `is`. */
static void
put_difference(struct batch *b, const struct divert_rules *was, const struct divert_rules *is)
{
	for (int ports = 0; ports < 2; ports++) {
		const char *set = ports ? PORTS : ADDRESSES;
		struct elements e;

		elements_open(&e, b, NFT_MSG_DELSETELEM, set);
		divert_put(&e, was, is, ports);
		elements_close(&e);
		elements_open(&e, b, NFT_MSG_NEWSETELEM, set);
		divert_put(&e, is, was, ports);
		elements_close(&e);
	}
}

static void
put_table(struct batch *b, const struct divert_rules *r, const struct divert *d)
{
	static const struct batch_set sets[] = {
		{.name = ADDRESSES, .key_type = TYPE_IPV4, .key_len = sizeof(uint32_t)},
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
	add_rule(b, OUTPUT, r, r->local);
	add_rule(b, PREROUTING, r, r->others);
	if (!d->no_sockets)
		add_input(b, r);
	if (!d->draining)
		put_difference(b, &nothing, r);
}

/* --- the table ------------------------------------------------------------------------------ */

static int
commit_table(struct divert *d, const struct divert_rules *r)
{
	struct transaction t;

	guard_begin(&d->guard, &t);
	put_table(&t.batch, r, d);
	return guard_commit(&d->guard, &t);
}

static int
make_anew(struct divert *d, const struct divert_rules *r)
{
	int rc = commit_table(d, r);

	if (rc == -ENOENT && !d->no_sockets) {
		d->no_sockets = true;
		rc = commit_table(d, r);
		if (rc == 0)
			log_warn("iptables",
				"the kernel cannot tell our sockets from others' "
				"(CONFIG_NFT_SOCKET, modprobe nft_socket): "
				"whoever takes the port of ingress.redirect after the hub was "
				"killed gets what is led there");
	}
	if (rc == 0)
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

int
divert_open(struct divert **out, struct loop *loop, struct err *err)
{
	struct divert *d = xcalloc(1, sizeof *d);
	int rc = guard_open(&d->guard,
		&(struct guard_config){
			.loop = loop, .table = DIVERT_TABLE, .install = divert_install, .arg = d},
		err);

	if (rc < 0)
		divert_close(&d);
	*out = d;
	return rc;
}

static uint32_t *
divert_copy(const uint32_t *list, size_t n)
{
	uint32_t *to = xcalloc(n + 1, sizeof *to);

	if (n > 0)
		memcpy(to, list, n * sizeof *to);
	return to;
}

static void
divert_adopt(struct divert *d, const struct divert_rules *rules)
{
	uint32_t *addresses = divert_copy(rules->addresses, rules->n_addresses);
	uint32_t *ports = divert_copy(rules->ports, rules->n_ports);

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

/* Changes only the sets, in one transaction. */
static int
change_sets(struct divert *d, const struct divert_rules *rules)
{
	struct transaction t;

	guard_begin(&d->guard, &t);
	put_difference(&t.batch, &d->rules, rules);
	return guard_commit(&d->guard, &t);
}

int
divert_use(struct divert *d, const struct divert_rules *rules, struct err *err)
{
	bool same_rules = d->guard.armed && !d->draining && rules->mark == d->rules.mark &&
		rules->local == d->rules.local && rules->others == d->rules.others &&
		rules->port == d->rules.port;
	int rc = -ENOENT;

	if (same_rules && same_lists(rules, &d->rules))
		return 0;
	d->draining = false;
	if (same_rules)
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
		.addresses = d->rules.n_addresses,
		.ports = d->rules.n_ports,
		.changes = d->changes,
		.repairs = d->guard.repairs,
		.failures = d->guard.failures,
	};
}

/* --- what an earlier run left --------------------------------------------------------------- */

static int
on_table(const struct nlmsghdr *nlh, void *arg)
{
	bool *found = arg;

	*found |= strcmp(nl_text(nlh, sizeof(struct nfgenmsg), NFTA_TABLE_NAME), DIVERT_TABLE) == 0;
	return MNL_CB_OK;
}

int
divert_sweep(struct err *err)
{
	char bytes[256];
	struct nlmsghdr *nlh =
		nftnl_nlmsg_build_hdr(bytes, NFT_MSG_GETTABLE, NFPROTO_IPV4, NLM_F_DUMP, 1);
	auto_nl struct mnl_socket *nl = NULL;
	auto_buf struct buf out;
	struct batch b;
	uint32_t seq = 2;
	bool found = false;
	int rc = nl_open(&nl, NETLINK_NETFILTER, 0, err);

	buf_init(&out, BUF_UNLIMITED);
	if (rc == 0 && (rc = nl_request(nl, nlh, on_table, &found)) < 0)
		return guard_explain(err, rc, "look for");
	if (rc < 0 || !found)
		return rc;
	batch_open(&b, DIVERT_TABLE, &out, &seq);
	put_removal(&b);
	batch_close(&b);
	rc = nl_batch(nl, buf_at(&out), buf_len(&out), b.acks);
	return rc < 0 ? guard_explain(err, rc, "remove") : 1;
}

void
divert_rivals(struct buf *out)
{
	hook_conflicts_translating(DIVERT_TABLE, PRIORITY, out);
}
