#include "iptables/maps/rules.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter_ipv4.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>

#include "iptables/maps/describe.h"
#include "iptables/maps/slots.h"
#include "iptables/table/elements.h"
#include "iptables/table/expr.h"
#include "model/pod_ranges.h"

/* The numbers of nft(8) for key types, so that it can print our sets. */
enum {
	TYPE_INTEGER = 4,
	TYPE_IPV4 = 7,
	TYPE_IPV6 = 8,
	TYPE_PROTO = 12,
	TYPE_PORT = 13,
	TYPE_BITS = 6, /* bits per type in a concatenation */
	TYPE_PORTS = TYPE_PROTO << TYPE_BITS | TYPE_PORT,
};
enum { DNS_PORT = 53 };
#define UPSTREAMS "upstreams"
#define PODS "pods"
#define GUESTS "guests"
#define LISTENED "listened"
#define EXTERNAL "external"
#define EXTERNAL_OWN "external-own"
#define EARLY "early"
#define OWN "own"
#define INPUT "input"

/* An element of `ports`, in the form that the kernel compares. */
struct port_key {
	uint8_t proto, pad[3];
	uint16_t port, pad2; /* big-endian */
};

static void
add_goto(struct batch *b, const char *from, const char *to)
{
	struct nftnl_rule *r = expr_rule(b->family);

	expr_goto(r, to);
	batch_rule(b, from, r);
}

static void
add_bases(struct batch *b)
{
	static const struct {
		const char *name;
		struct batch_hook hook;
	} bases[] = {
		{"prerouting", {"nat", NF_INET_PRE_ROUTING, RULES_PRIORITY}},
		{"output", {"nat", NF_INET_LOCAL_OUT, RULES_PRIORITY}},
		{EXTERNAL, {"nat", NF_INET_PRE_ROUTING, RULES_EXTERNAL_PRIORITY}},
		{EXTERNAL_OWN, {"nat", NF_INET_LOCAL_OUT, RULES_EXTERNAL_PRIORITY}},
		{"postrouting", {"nat", NF_INET_POST_ROUTING, NF_IP_PRI_NAT_SRC - 5}},
		{EARLY, {"filter", NF_INET_PRE_ROUTING, NF_IP_PRI_NAT_DST + 50}},
		{"forward", {"filter", NF_INET_FORWARD, NF_IP_PRI_FILTER}},
		{"local", {"filter", NF_INET_LOCAL_OUT, NF_IP_PRI_FILTER}},
		{INPUT, {"filter", NF_INET_LOCAL_IN, RULES_INPUT_PRIORITY}},
	};

	for (size_t i = 0; i < ARRAY_LEN(bases); i++)
		batch_chain(b, bases[i].name, &bases[i].hook);
}

/* Docker drops packets forwarded from one of its bridges to another. So the kernel must not carry
 * TCP from bridges other than the mesh's own; it goes to the listener. */
static void
add_bridge(struct batch *b, const char *interface, bool other)
{
	struct nftnl_rule *r;

	if (other) {
		r = expr_rule(b->family);
		expr_match_interface(r, interface);
		expr_match_l4proto(r, IPPROTO_TCP);
		expr_goto(r, GUESTS);
		batch_rule(b, "prerouting", r);
	}
	r = expr_rule(b->family);
	expr_match_interface(r, interface);
	expr_goto(r, PODS);
	batch_rule(b, "prerouting", r);
}

static void
add_entry(struct batch *b, const struct rules *rules)
{
	struct nftnl_rule *r;

	for (size_t i = 0; rules->interfaces[i] != NULL; i++)
		add_bridge(b, rules->interfaces[i], i > 0);
	r = expr_rule(b->family);
	if (rules->mark != 0)
		expr_match_not_mark(r, rules->mark);
	expr_goto(r, OWN);
	batch_rule(b, "output", r);
}

static void
add_capture(struct batch *b, const struct rules *rules, const char *chain, uint8_t proto)
{
	struct nftnl_rule *r = expr_rule(b->family);

	expr_match_set(r, EXPR_SADDR, UPSTREAMS, true);
	expr_match_set(r, EXPR_DADDR, UPSTREAMS, false);
	expr_match_l4proto(r, proto);
	expr_match_dport(r, DNS_PORT);
	expr_dnat(r, &rules->address, rules->dns_port);
	batch_rule(b, chain, r);
}

static void
add_pods(struct batch *b, const struct rules *rules)
{
	add_capture(b, rules, PODS, IPPROTO_UDP);
	add_capture(b, rules, PODS, IPPROTO_TCP);
	add_goto(b, PODS, "mesh");
	add_capture(b, rules, GUESTS, IPPROTO_TCP);
	add_goto(b, GUESTS, LISTENED);
}

static void
add_mesh(struct batch *b, const struct rules *rules)
{
	struct nftnl_rule *r = expr_rule(b->family);

	expr_verdict_map(r, RULES_SERVICES);
	batch_rule(b, "mesh", r);
	r = expr_rule(b->family);
	expr_verdict_map_of_caller(r, RULES_CALLERS);
	batch_rule(b, "mesh", r);
	add_goto(b, "mesh", LISTENED);
	r = expr_rule(b->family);
	expr_verdict_map(r, RULES_HOSTS);
	batch_rule(b, OWN, r);
	add_goto(b, OWN, "mesh");
	r = expr_rule(b->family);
	expr_match_subnet(r, &rules->net);
	expr_goto(r, RULES_PROXY);
	batch_rule(b, LISTENED, r);
	r = expr_rule(b->family);
	expr_match_set(r, EXPR_DADDR, RULES_CLUSTER_IPS, false);
	expr_goto(r, RULES_PROXY);
	batch_rule(b, LISTENED, r);
	r = expr_rule(b->family);
	expr_match_set(r, EXPR_DADDR, RULES_POD_RANGES, false);
	expr_goto(r, RULES_PROXY);
	batch_rule(b, LISTENED, r);
	if (rules->draining)
		return;
	r = expr_rule(b->family);
	expr_match_l4proto(r, IPPROTO_TCP);
	expr_dnat(r, &rules->address, rules->port);
	batch_rule(b, RULES_PROXY, r);
}

/* From outside, and from pods and processes of the node alike. */
static void
add_external(struct batch *b, const struct rules *rules)
{
	struct nftnl_rule *r = expr_rule(b->family);

	expr_verdict_map(r, RULES_EXTERNAL);
	batch_rule(b, EXTERNAL, r);
	r = expr_rule(b->family);
	if (rules->mark != 0)
		expr_match_not_mark(r, rules->mark);
	expr_verdict_map(r, RULES_EXTERNAL);
	batch_rule(b, EXTERNAL_OWN, r);
}

static void
add_row_chains(struct batch *b, bool by_client)
{
	char chain[RULES_CHAIN_MAX];

	for (const uint16_t *n = slots_lengths(by_client); *n != 0; n++)
		batch_chain(b, rules_chain(chain, by_client, *n), NULL);
}

static void
add_rows(struct batch *b, bool by_client)
{
	for (const uint16_t *n = slots_lengths(by_client); *n != 0; n++) {
		struct nftnl_rule *r = expr_rule(b->family);
		char chain[RULES_CHAIN_MAX];

		rules_chain(chain, by_client, *n);
		if (*n == 1)
			expr_dnat_single(r, RULES_SINGLE);
		else
			expr_dnat_map(r, RULES_ENDPOINTS, by_client, *n);
		batch_rule(b, chain, r);
	}
}

static void
add_one_refusal(struct batch *b, const struct rules *rules, const char *chain, bool tcp)
{
	for (int i = 0; i < 2; i++) {
		struct nftnl_rule *r = expr_rule(b->family);

		if (i == 0)
			expr_match_subnet(r, &rules->net);
		else
			expr_match_set(r, EXPR_DADDR, RULES_CLUSTER_IPS, false);
		if (tcp)
			expr_match_l4proto(r, IPPROTO_TCP);
		expr_reject(r, tcp);
		batch_rule(b, chain, r);
	}
}

static void
add_refusal(struct batch *b, const struct rules *rules, const char *chain)
{
	add_one_refusal(b, rules, chain, true);
	add_one_refusal(b, rules, chain, false);
}

static void
add_input(struct batch *b, const struct rules *rules)
{
	const uint16_t dns[] = {rules->dns_port};
	struct nftnl_rule *r;

	rules_ports(b, IPPROTO_TCP, &rules->port, 1);
	rules_ports(b, IPPROTO_TCP, dns, 1);
	rules_ports(b, IPPROTO_UDP, dns, 1);
	if (rules->no_sockets)
		return;
	r = expr_rule(b->family);
	expr_match_address(r, &rules->address);
	expr_match_translated(r);
	expr_match_port_set(r, RULES_PORTS);
	expr_match_foreign_socket(r);
	expr_reject(r, false);
	batch_rule(b, INPUT, r);
}

/* On lo a packet is for this machine itself, and its source is already right. */
static void
add_masquerade(struct batch *b, const struct rules *rules)
{
	for (int i = 0; i < 2; i++) {
		struct nftnl_rule *r = expr_rule(b->family);

		expr_match_not_output(r, "lo");
		expr_match_translated(r);
		if (i == 0)
			expr_match_asked_subnet(r, &rules->net);
		else
			expr_match_asked_set(r, RULES_CLUSTER_IPS);
		expr_masquerade(r);
		batch_rule(b, "postrouting", r);
	}
}

/* nft(8) reads what it prints of proto-dst only where the protocol is matched before. */
static void
add_sources(struct batch *b, const struct rules *rules)
{
	static const uint8_t protos[] = {IPPROTO_TCP, IPPROTO_UDP};
	struct nftnl_rule *r;

	for (size_t i = 0; i < ARRAY_LEN(protos); i++) {
		r = expr_rule(b->family);
		expr_match_not_output(r, "lo");
		expr_match_l4proto(r, protos[i]);
		expr_match_translated(r);
		expr_verdict_map_of_asked(r, RULES_SOURCES);
		batch_rule(b, "postrouting", r);
	}
	r = expr_rule(b->family);
	expr_masquerade(r);
	batch_rule(b, RULES_MASQUERADED, r);
	for (size_t i = 0; rules->interfaces[i] != NULL; i++) {
		r = expr_rule(b->family);
		expr_match_interface(r, rules->interfaces[i]);
		expr_masquerade(r);
		batch_rule(b, RULES_KEPT, r);
	}
	r = expr_rule(b->family);
	expr_match_no_input(r);
	expr_masquerade(r);
	batch_rule(b, RULES_KEPT, r);
}

int
rules_check(const char *interface, struct err *err)
{
	size_t n = strlen(interface);
	size_t fixed = n > 0 && interface[n - 1] == '*' ? n - 1 : n;
	const char *set = strchr(interface, '[');
	bool glob = set != NULL && strchr(set, ']') != NULL;

	if (n == 0 || fixed == 0 || (fixed >= IFNAMSIZ && !glob))
		return err_set(err, EINVAL,
			"\"%s\" is not the name of an interface: want 1 to %d characters",
			interface, IFNAMSIZ - 1);
	for (size_t i = 0; i < fixed; i++) {
		if (interface[i] <= ' ' || interface[i] > '~' ||
			strchr(glob ? "/*?\"\\" : "/*?[]\"\\", interface[i]) != NULL)
			return err_set(err, EINVAL,
				"\"%s\" is not the name of an interface: a '*' may stand at the "
				"end, and sets such as [0-9], no other special character",
				interface);
	}
	return 0;
}

static void
add_sets(struct batch *b)
{
	const bool v6 = b->family == NFPROTO_IPV6;
	const uint32_t ip = v6 ? TYPE_IPV6 : TYPE_IPV4, part = sizeof(uint32_t);
	const uint32_t ip_len = v6 ? sizeof(struct in6_addr) : sizeof(struct in_addr);
	const uint32_t service = ip << 2 * TYPE_BITS | TYPE_PORTS, service_len = ip_len + 2 * part;
	const uint32_t caller = ip << 3 * TYPE_BITS | service;
	const uint32_t slot = service << TYPE_BITS | TYPE_INTEGER;
	const uint32_t endpoint = ip << TYPE_BITS | TYPE_PORT, endpoint_len = ip_len + part;
	struct nftnl_udata_buf *slots = describe_endpoints(b->family);
	const struct batch_set sets[] = {
		{UPSTREAMS, NFT_SET_TIMEOUT, ip, ip_len, 0, 0, NULL},
		{RULES_CLUSTER_IPS, 0, ip, ip_len, 0, 0, NULL},
		{RULES_POD_RANGES, NFT_SET_INTERVAL, ip, ip_len, 0, 0, NULL},
		{RULES_PORTS, 0, TYPE_PORTS, sizeof(struct port_key), 0, 0, NULL},
		{RULES_SERVICES, NFT_SET_MAP, service, service_len, NFT_DATA_VERDICT, 0, NULL},
		{RULES_CALLERS, NFT_SET_MAP, caller, ip_len + service_len, NFT_DATA_VERDICT, 0,
			NULL},
		{RULES_HOSTS, NFT_SET_MAP, service, service_len, NFT_DATA_VERDICT, 0, NULL},
		{RULES_EXTERNAL, NFT_SET_MAP, service, service_len, NFT_DATA_VERDICT, 0, NULL},
		{RULES_SOURCES, NFT_SET_MAP, service, service_len, NFT_DATA_VERDICT, 0, NULL},
		{RULES_SINGLE, NFT_SET_MAP, service, service_len, endpoint, endpoint_len, NULL},
		{RULES_ENDPOINTS, NFT_SET_MAP, slot, service_len + part, endpoint, endpoint_len,
			slots},
	};

	for (size_t i = 0; i < ARRAY_LEN(sets); i++)
		batch_set(b, &sets[i]);
	nftnl_udata_buf_free(slots);
}

void
rules_install(struct batch *b, const struct rules *rules)
{
	static const char *const inner[] = {
		PODS, GUESTS, OWN, "mesh", LISTENED, RULES_PROXY, RULES_MASQUERADED, RULES_KEPT};

	b->family = IN6_IS_ADDR_V4MAPPED(&rules->net.ip) ? NFPROTO_IPV4 : NFPROTO_IPV6;
	batch_table(b, NFT_MSG_NEWTABLE);
	batch_table(b, NFT_MSG_DELTABLE);
	batch_table(b, NFT_MSG_NEWTABLE);
	add_sets(b);
	for (size_t i = 0; i < ARRAY_LEN(inner); i++)
		batch_chain(b, inner[i], NULL);
	add_row_chains(b, false);
	add_row_chains(b, true);
	add_bases(b);
	add_rows(b, false);
	add_rows(b, true);
	add_mesh(b, rules);
	add_pods(b, rules);
	add_external(b, rules);
	if (!rules->old_kernel)
		add_refusal(b, rules, EARLY);
	add_refusal(b, rules, "forward");
	add_refusal(b, rules, "local");
	add_masquerade(b, rules);
	add_sources(b, rules);
	add_input(b, rules);
	add_entry(b, rules);
}

void
rules_drain(struct batch *b)
{
	batch_flush_chain(b, RULES_PROXY);
}

const char *
rules_chain(char to[RULES_CHAIN_MAX], bool by_client, uint16_t n)
{
	snprintf(to, RULES_CHAIN_MAX, "%s-%u", by_client ? "client" : "flow", n);
	return to;
}

void
rules_remove(struct batch *b)
{
	batch_table(b, NFT_MSG_NEWTABLE); /* so that deleting cannot fail */
	batch_table(b, NFT_MSG_DELTABLE);
}

void
rules_ports(struct batch *b, uint8_t proto, const uint16_t *ports, size_t n)
{
	struct elements e;

	elements_open(&e, b, NFT_MSG_NEWSETELEM, RULES_PORTS);
	for (size_t i = 0; i < n; i++) {
		const struct port_key key = {.proto = proto, .port = htons(ports[i])};

		elements_add(&e, &(struct element){.key = &key, .key_len = sizeof key});
	}
	elements_close(&e);
}

void
rules_capture(struct batch *b, const struct in6_addr *upstreams, size_t n, uint64_t timeout_ms)
{
	const bool v6 = b->family == NFPROTO_IPV6;
	const uint16_t len = v6 ? sizeof(struct in6_addr) : sizeof(struct in_addr);
	struct elements e;

	elements_flush(b, UPSTREAMS);
	elements_open(&e, b, NFT_MSG_NEWSETELEM, UPSTREAMS);
	for (size_t i = 0; i < n; i++) {
		const uint8_t *ip = upstreams[i].s6_addr + sizeof *upstreams - len;

		if (IN6_IS_ADDR_V4MAPPED(&upstreams[i]) != v6)
			elements_add(&e,
				&(struct element){
					.key = ip, .key_len = len, .timeout_ms = timeout_ms});
	}
	elements_close(&e);
}

void
rules_pod_ranges(struct batch *b, const struct pod_ranges *ranges)
{
	struct elements e;

	elements_flush(b, RULES_POD_RANGES);
	elements_open(&e, b, NFT_MSG_NEWSETELEM, RULES_POD_RANGES);
	for (size_t i = 0; i < ranges->n; i++) {
		const uint32_t first = htonl(ranges->list[i].first),
			       behind = htonl(ranges->list[i].last + 1);

		elements_add(&e, &(struct element){.key = &first, .key_len = sizeof first});
		elements_add(&e,
			&(struct element){.key = &behind, .key_len = sizeof behind, .end = true});
	}
	elements_close(&e);
}
