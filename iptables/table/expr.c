#include "iptables/table/expr.h"

#include <arpa/inet.h>
#include <assert.h>
#include <libnftnl/expr.h>
#include <linux/icmpv6.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_conntrack_tuple_common.h>
#include <linux/netfilter/nf_nat.h>
#include <linux/netfilter/nf_tables.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/ip_icmp.h>
#include <stddef.h>
#include <string.h>

#include "base/core/util.h"

/* Constant across restarts: a client keeps its endpoint. */
enum { CLIENT_SEED = 0x45570001 };

enum { WORD = sizeof(uint32_t) }; /* bytes of a register; an IPv6 address takes four of them */

struct nftnl_rule *
expr_rule(uint8_t family)
{
	struct nftnl_rule *r = nftnl_rule_alloc();

	assert(r != NULL);
	nftnl_rule_set_u32(r, NFTNL_RULE_FAMILY, family);
	return r;
}

static bool
is_v6(const struct nftnl_rule *r)
{
	return nftnl_rule_get_u32(r, NFTNL_RULE_FAMILY) == NFPROTO_IPV6;
}

static uint32_t
ip_len(const struct nftnl_rule *r)
{
	return is_v6(r) ? sizeof(struct in6_addr) : sizeof(struct in_addr);
}

static const uint8_t *
ip_bytes(const struct nftnl_rule *r, const struct in6_addr *ip)
{
	return ip->s6_addr + sizeof *ip - ip_len(r);
}

static struct nftnl_expr *
expr_add(struct nftnl_rule *r, const char *kind)
{
	struct nftnl_expr *e = nftnl_expr_alloc(kind);

	assert(e != NULL);
	nftnl_rule_add_expr(r, e);
	return e;
}

static void
load_meta(struct nftnl_rule *r, uint32_t key, uint32_t reg)
{
	struct nftnl_expr *e = expr_add(r, "meta");

	nftnl_expr_set_u32(e, NFTNL_EXPR_META_KEY, key);
	nftnl_expr_set_u32(e, NFTNL_EXPR_META_DREG, reg);
}

static void
load_payload(struct nftnl_rule *r, uint32_t base, uint32_t offset, uint32_t len, uint32_t reg)
{
	struct nftnl_expr *e = expr_add(r, "payload");

	nftnl_expr_set_u32(e, NFTNL_EXPR_PAYLOAD_BASE, base);
	nftnl_expr_set_u32(e, NFTNL_EXPR_PAYLOAD_OFFSET, offset);
	nftnl_expr_set_u32(e, NFTNL_EXPR_PAYLOAD_LEN, len);
	nftnl_expr_set_u32(e, NFTNL_EXPR_PAYLOAD_DREG, reg);
}

static void
expr_load(struct nftnl_rule *r, enum expr_field field, uint32_t reg)
{
	switch (field) {
	case EXPR_SADDR:
		load_payload(r, NFT_PAYLOAD_NETWORK_HEADER,
			is_v6(r) ? offsetof(struct ip6_hdr, ip6_src)
				 : offsetof(struct iphdr, saddr),
			ip_len(r), reg);
		return;
	case EXPR_DADDR:
		load_payload(r, NFT_PAYLOAD_NETWORK_HEADER,
			is_v6(r) ? offsetof(struct ip6_hdr, ip6_dst)
				 : offsetof(struct iphdr, daddr),
			ip_len(r), reg);
		return;
	case EXPR_L4PROTO:
		load_meta(r, NFT_META_L4PROTO, reg);
		return;
	case EXPR_SPORT:
		load_payload(r, NFT_PAYLOAD_TRANSPORT_HEADER, 0, 2, reg);
		return;
	case EXPR_DPORT:
		/* UDP and TCP have the port at the same place. */
		load_payload(r, NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2, reg);
		return;
	}
}

static void
expr_compare(struct nftnl_rule *r, uint32_t op, const void *data, size_t len)
{
	struct nftnl_expr *e = expr_add(r, "cmp");

	nftnl_expr_set_u32(e, NFTNL_EXPR_CMP_SREG, NFT_REG_1);
	nftnl_expr_set_u32(e, NFTNL_EXPR_CMP_OP, op);
	nftnl_expr_set(e, NFTNL_EXPR_CMP_DATA, data, (uint32_t)len);
}

static void
mask_register(struct nftnl_rule *r, const void *mask, uint32_t len)
{
	static const struct in6_addr zero;
	struct nftnl_expr *e = expr_add(r, "bitwise");

	nftnl_expr_set_u32(e, NFTNL_EXPR_BITWISE_SREG, NFT_REG_1);
	nftnl_expr_set_u32(e, NFTNL_EXPR_BITWISE_DREG, NFT_REG_1);
	nftnl_expr_set_u32(e, NFTNL_EXPR_BITWISE_LEN, len);
	nftnl_expr_set(e, NFTNL_EXPR_BITWISE_MASK, mask, len);
	nftnl_expr_set(e, NFTNL_EXPR_BITWISE_XOR, &zero, len);
}

/* iifname "docker0", or the first bytes of it for "br-*". */
void
expr_match_interface(struct nftnl_rule *r, const char *pattern)
{
	char name[IFNAMSIZ] = "";
	size_t n = strlen(pattern);

	assert(n > 0 && n <= IFNAMSIZ);
	load_meta(r, NFT_META_IIFNAME, NFT_REG_1);
	if (pattern[n - 1] == '*') {
		expr_compare(r, NFT_CMP_EQ, pattern, n - 1);
		return;
	}
	memcpy(name, pattern, MIN(n, sizeof name - 1));
	expr_compare(r, NFT_CMP_EQ, name, sizeof name);
}

void
expr_match_no_input(struct nftnl_rule *r)
{
	const uint32_t none = 0;

	load_meta(r, NFT_META_IIF, NFT_REG_1);
	expr_compare(r, NFT_CMP_EQ, &none, sizeof none);
}

void
expr_match_not_output(struct nftnl_rule *r, const char *interface)
{
	char name[IFNAMSIZ] = "";

	memcpy(name, interface, MIN(strlen(interface), sizeof name - 1));
	load_meta(r, NFT_META_OIFNAME, NFT_REG_1);
	expr_compare(r, NFT_CMP_NEQ, name, sizeof name);
}

void
expr_match_not_mark(struct nftnl_rule *r, uint32_t mark)
{
	load_meta(r, NFT_META_MARK, NFT_REG_1);
	expr_compare(r, NFT_CMP_NEQ, &mark, sizeof mark);
}

void
expr_match_l4proto(struct nftnl_rule *r, uint8_t proto)
{
	load_meta(r, NFT_META_L4PROTO, NFT_REG_1);
	expr_compare(r, NFT_CMP_EQ, &proto, sizeof proto);
}

void
expr_match_dport(struct nftnl_rule *r, uint16_t port)
{
	uint16_t be = htons(port);

	expr_load(r, EXPR_DPORT, NFT_REG_1);
	expr_compare(r, NFT_CMP_EQ, &be, sizeof be);
}

static void
match_net(struct nftnl_rule *r, const struct expr_net *net)
{
	struct in6_addr mask = {0};

	for (unsigned i = 0; i < net->bits; i++)
		mask.s6_addr[i / 8] |= (uint8_t)(0x80 >> i % 8);
	mask_register(r, ip_bytes(r, &mask), ip_len(r));
	expr_compare(r, NFT_CMP_EQ, ip_bytes(r, &net->ip), ip_len(r));
}

void
expr_match_subnet(struct nftnl_rule *r, const struct expr_net *net)
{
	expr_load(r, EXPR_DADDR, NFT_REG_1);
	match_net(r, net);
}

void
expr_match_address(struct nftnl_rule *r, const struct in6_addr *address)
{
	expr_load(r, EXPR_DADDR, NFT_REG_1);
	expr_compare(r, NFT_CMP_EQ, ip_bytes(r, address), ip_len(r));
}

void
expr_match_foreign_socket(struct nftnl_rule *r)
{
	struct nftnl_expr *e = expr_add(r, "socket");
	uint8_t no = 0;

	nftnl_expr_set_u32(e, NFTNL_EXPR_SOCKET_KEY, NFT_SOCKET_TRANSPARENT);
	nftnl_expr_set_u32(e, NFTNL_EXPR_SOCKET_DREG, NFT_REG_1);
	expr_compare(r, NFT_CMP_EQ, &no, sizeof no);
}

static struct nftnl_expr *
look_up(struct nftnl_rule *r, const char *set)
{
	struct nftnl_expr *e = expr_add(r, "lookup");

	nftnl_expr_set_u32(e, NFTNL_EXPR_LOOKUP_SREG, NFT_REG_1);
	nftnl_expr_set_str(e, NFTNL_EXPR_LOOKUP_SET, set);
	return e;
}

void
expr_match_set(struct nftnl_rule *r, enum expr_field field, const char *set, bool inverted)
{
	struct nftnl_expr *e;

	expr_load(r, field, NFT_REG_1);
	e = look_up(r, set);
	if (inverted)
		nftnl_expr_set_u32(e, NFTNL_EXPR_LOOKUP_FLAGS, NFT_LOOKUP_F_INV);
}

/* Fills consecutive four-byte parts of NFT_REG_1. */
void
expr_match_port_set(struct nftnl_rule *r, const char *set)
{
	expr_load(r, EXPR_L4PROTO, NFT_REG_1);
	expr_load(r, EXPR_DPORT, NFT_REG32_01);
	look_up(r, set);
}

static void
set_register(struct nftnl_rule *r, uint32_t reg, const void *data, uint32_t len)
{
	struct nftnl_expr *e = expr_add(r, "immediate");

	nftnl_expr_set_u32(e, NFTNL_EXPR_IMM_DREG, reg);
	nftnl_expr_set(e, NFTNL_EXPR_IMM_DATA, data, len);
}

static void
dnat_by_registers(struct nftnl_rule *r, uint32_t address, uint32_t port)
{
	struct nftnl_expr *e = expr_add(r, "nat");

	nftnl_expr_set_u32(e, NFTNL_EXPR_NAT_TYPE, NFT_NAT_DNAT);
	nftnl_expr_set_u32(e, NFTNL_EXPR_NAT_FAMILY, is_v6(r) ? NFPROTO_IPV6 : NFPROTO_IPV4);
	nftnl_expr_set_u32(e, NFTNL_EXPR_NAT_REG_ADDR_MIN, address);
	nftnl_expr_set_u32(e, NFTNL_EXPR_NAT_REG_PROTO_MIN, port);
	nftnl_expr_set_u32(
		e, NFTNL_EXPR_NAT_FLAGS, NF_NAT_RANGE_MAP_IPS | NF_NAT_RANGE_PROTO_SPECIFIED);
}

void
expr_dnat(struct nftnl_rule *r, const struct in6_addr *address, uint16_t port)
{
	uint16_t be = htons(port);

	set_register(r, NFT_REG_1, ip_bytes(r, address), ip_len(r));
	set_register(r, NFT_REG_2, &be, sizeof be);
	dnat_by_registers(r, NFT_REG_1, NFT_REG_2);
}

static void
load_ct(struct nftnl_rule *r, uint32_t key, uint32_t reg)
{
	struct nftnl_expr *e = expr_add(r, "ct");

	nftnl_expr_set_u32(e, NFTNL_EXPR_CT_KEY, key);
	nftnl_expr_set_u32(e, NFTNL_EXPR_CT_DREG, reg);
	if (key != NFT_CT_STATUS)
		nftnl_expr_set_u8(e, NFTNL_EXPR_CT_DIR, IP_CT_DIR_ORIGINAL);
}

void
expr_match_translated(struct nftnl_rule *r)
{
	const uint32_t none = 0, translated = IPS_DST_NAT;

	load_ct(r, NFT_CT_STATUS, NFT_REG_1);
	mask_register(r, &translated, sizeof translated);
	expr_compare(r, NFT_CMP_NEQ, &none, sizeof none);
}

void
expr_match_asked_subnet(struct nftnl_rule *r, const struct expr_net *net)
{
	load_ct(r, is_v6(r) ? NFT_CT_DST_IP6 : NFT_CT_DST_IP, NFT_REG_1);
	match_net(r, net);
}

void
expr_match_asked_set(struct nftnl_rule *r, const char *set)
{
	load_ct(r, is_v6(r) ? NFT_CT_DST_IP6 : NFT_CT_DST_IP, NFT_REG_1);
	look_up(r, set);
}

/* Fill consecutive registers from this one on, and return the next. */
static uint32_t
load_ip(struct nftnl_rule *r, enum expr_field field, uint32_t reg)
{
	expr_load(r, field, reg);
	return reg + ip_len(r) / WORD;
}

static uint32_t
load_service(struct nftnl_rule *r, uint32_t reg)
{
	reg = load_ip(r, EXPR_DADDR, reg);
	expr_load(r, EXPR_L4PROTO, reg++);
	expr_load(r, EXPR_DPORT, reg++);
	return reg;
}

void
expr_verdict_map(struct nftnl_rule *r, const char *map)
{
	load_service(r, NFT_REG32_00);
	nftnl_expr_set_u32(look_up(r, map), NFTNL_EXPR_LOOKUP_DREG, NFT_REG_VERDICT);
}

void
expr_verdict_map_of_asked(struct nftnl_rule *r, const char *map)
{
	uint32_t reg = NFT_REG32_00;

	load_ct(r, is_v6(r) ? NFT_CT_DST_IP6 : NFT_CT_DST_IP, reg);
	reg += ip_len(r) / WORD;
	expr_load(r, EXPR_L4PROTO, reg);
	load_ct(r, NFT_CT_PROTO_DST, reg + 1);
	nftnl_expr_set_u32(look_up(r, map), NFTNL_EXPR_LOOKUP_DREG, NFT_REG_VERDICT);
}

void
expr_verdict_map_of_caller(struct nftnl_rule *r, const char *map)
{
	load_service(r, load_ip(r, EXPR_SADDR, NFT_REG32_00));
	nftnl_expr_set_u32(look_up(r, map), NFTNL_EXPR_LOOKUP_DREG, NFT_REG_VERDICT);
}

/* Into this register; those that it hashes are behind it. */
static void
draw_slot(struct nftnl_rule *r, bool by_client, uint16_t n, uint32_t reg)
{
	uint32_t from = is_v6(r) ? NFT_REG32_08 : NFT_REG32_04;
	uint32_t end = load_ip(r, EXPR_SADDR, from);
	struct nftnl_expr *e;

	if (!by_client)
		expr_load(r, EXPR_SPORT, end);
	e = expr_add(r, "hash");
	nftnl_expr_set_u32(e, NFTNL_EXPR_HASH_SREG, from);
	nftnl_expr_set_u32(e, NFTNL_EXPR_HASH_DREG, reg);
	nftnl_expr_set_u32(e, NFTNL_EXPR_HASH_LEN, ip_len(r) + (by_client ? 0 : WORD));
	nftnl_expr_set_u32(e, NFTNL_EXPR_HASH_MODULUS, n);
	nftnl_expr_set_u32(e, NFTNL_EXPR_HASH_SEED, CLIENT_SEED);
	nftnl_expr_set_u32(e, NFTNL_EXPR_HASH_TYPE, NFT_HASH_JENKINS);
}

static void
dnat_by_map(struct nftnl_rule *r, const char *map)
{
	nftnl_expr_set_u32(look_up(r, map), NFTNL_EXPR_LOOKUP_DREG, NFT_REG_1);
	dnat_by_registers(r, NFT_REG_1, NFT_REG32_00 + ip_len(r) / WORD);
}

void
expr_dnat_single(struct nftnl_rule *r, const char *map)
{
	load_service(r, NFT_REG32_00);
	dnat_by_map(r, map);
}

void
expr_dnat_map(struct nftnl_rule *r, const char *map, bool by_client, uint16_t n)
{
	draw_slot(r, by_client, n, load_service(r, NFT_REG32_00));
	dnat_by_map(r, map);
}

void
expr_masquerade(struct nftnl_rule *r)
{
	expr_add(r, "masq");
}

void
expr_goto(struct nftnl_rule *r, const char *chain)
{
	struct nftnl_expr *e = expr_add(r, "immediate");

	nftnl_expr_set_u32(e, NFTNL_EXPR_IMM_DREG, NFT_REG_VERDICT);
	nftnl_expr_set_u32(e, NFTNL_EXPR_IMM_VERDICT, (uint32_t)NFT_GOTO);
	nftnl_expr_set_str(e, NFTNL_EXPR_IMM_CHAIN, chain);
}

void
expr_reject(struct nftnl_rule *r, bool tcp)
{
	struct nftnl_expr *e = expr_add(r, "reject");

	nftnl_expr_set_u32(
		e, NFTNL_EXPR_REJECT_TYPE, tcp ? NFT_REJECT_TCP_RST : NFT_REJECT_ICMP_UNREACH);
	nftnl_expr_set_u8(
		e, NFTNL_EXPR_REJECT_CODE, is_v6(r) ? ICMPV6_PORT_UNREACH : ICMP_PORT_UNREACH);
}
