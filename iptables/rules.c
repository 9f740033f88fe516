#include "iptables/rules.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter_ipv4.h>
#include <net/if.h>
#include <netinet/in.h>

#include "iptables/elements.h"
#include "iptables/expr.h"

/* Types of keys as nft(8) knows them, so that it can print our sets. */
enum { TYPE_IPV4 = 7 };
enum { DNS_PORT = 53 };
#define UPSTREAMS "upstreams"

static void
add_goto(struct batch *b, const char *from, const char *to)
{
	struct nftnl_rule *r = expr_rule();

	expr_goto(r, to);
	batch_rule(b, from, r);
}

static void
add_bases(struct batch *b)
{
	static const struct batch_hook prerouting = {"nat", NF_INET_PRE_ROUTING,
					       NF_IP_PRI_NAT_DST - 5},
				       output = {"nat", NF_INET_LOCAL_OUT, NF_IP_PRI_NAT_DST - 5},
				       forward = {"filter", NF_INET_FORWARD, NF_IP_PRI_FILTER},
				       local = {"filter", NF_INET_LOCAL_OUT, NF_IP_PRI_FILTER};

	batch_chain(b, "prerouting", &prerouting);
	batch_chain(b, "output", &output);
	batch_chain(b, "forward", &forward);
	batch_chain(b, "local", &local);
}

static void
add_entry(struct batch *b, const struct rules *rules)
{
	struct nftnl_rule *r;

	for (size_t i = 0; rules->interfaces[i] != NULL; i++) {
		r = expr_rule();
		expr_match_interface(r, rules->interfaces[i]);
		expr_goto(r, "pods");
		batch_rule(b, "prerouting", r);
	}
	r = expr_rule();
	if (rules->mark != 0)
		expr_match_not_mark(r, rules->mark);
	expr_goto(r, "mesh");
	batch_rule(b, "output", r);
}

static void
add_capture(struct batch *b, const struct rules *rules)
{
	static const uint8_t protos[] = {IPPROTO_UDP, IPPROTO_TCP};

	for (size_t i = 0; i < ARRAY_LEN(protos); i++) {
		struct nftnl_rule *r = expr_rule();

		expr_match_set(r, EXPR_SADDR, UPSTREAMS, true);
		expr_match_set(r, EXPR_DADDR, UPSTREAMS, false);
		expr_match_l4proto(r, protos[i]);
		expr_match_dport(r, DNS_PORT);
		expr_dnat(r, rules->address, rules->dns_port);
		batch_rule(b, "pods", r);
	}
	add_goto(b, "pods", "mesh");
}

static void
add_mesh(struct batch *b, const struct rules *rules)
{
	struct nftnl_rule *r = expr_rule();

	expr_match_subnet(r, rules->subnet, rules->mask);
	expr_goto(r, "proxy");
	batch_rule(b, "mesh", r);
	r = expr_rule();
	expr_match_l4proto(r, IPPROTO_TCP);
	expr_dnat(r, rules->address, rules->port);
	batch_rule(b, "proxy", r);
}

static void
add_refusal(struct batch *b, const struct rules *rules, const char *chain)
{
	struct nftnl_rule *r = expr_rule();

	expr_match_subnet(r, rules->subnet, rules->mask);
	expr_reject(r);
	batch_rule(b, chain, r);
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

void
rules_install(struct batch *b, const struct rules *rules)
{
	static const struct batch_set upstreams = {.name = UPSTREAMS,
		.flags = NFT_SET_TIMEOUT,
		.key_type = TYPE_IPV4,
		.key_len = sizeof(uint32_t)};
	static const char *const inner[] = {"pods", "mesh", "proxy"};

	batch_table(b, NFT_MSG_NEWTABLE);
	batch_table(b, NFT_MSG_DELTABLE);
	batch_table(b, NFT_MSG_NEWTABLE);
	batch_set(b, &upstreams);
	for (size_t i = 0; i < ARRAY_LEN(inner); i++)
		batch_chain(b, inner[i], NULL);
	add_bases(b);
	add_mesh(b, rules);
	add_capture(b, rules);
	add_refusal(b, rules, "forward");
	add_refusal(b, rules, "local");
	add_entry(b, rules);
}

void
rules_remove(struct batch *b)
{
	batch_table(b, NFT_MSG_NEWTABLE); /* so that deleting cannot fail */
	batch_table(b, NFT_MSG_DELTABLE);
}

void
rules_capture(struct batch *b, const uint32_t *upstreams, size_t n, uint64_t timeout_ms)
{
	struct elements e;

	elements_flush(b, UPSTREAMS);
	elements_open(&e, b, NFT_MSG_NEWSETELEM, UPSTREAMS);
	for (size_t i = 0; i < n; i++) {
		uint32_t ip = htonl(upstreams[i]);

		elements_add(&e,
			&(struct element){
				.key = &ip, .key_len = sizeof ip, .timeout_ms = timeout_ms});
	}
	elements_close(&e);
}
