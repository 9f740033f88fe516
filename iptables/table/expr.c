#include "iptables/table/expr.h"

#include <arpa/inet.h>
#include <assert.h>
#include <libnftnl/expr.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_conntrack_tuple_common.h>
#include <linux/netfilter/nf_nat.h>
#include <linux/netfilter/nf_tables.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <stddef.h>
#include <string.h>

#include "base/core/util.h"

/* Constant across restarts: a client keeps its endpoint. */
enum { CLIENT_SEED = 0x45570001 };

struct nftnl_rule *
expr_rule(void)
{
	struct nftnl_rule *r = nftnl_rule_alloc();

	assert(r != NULL);
	return r;
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
		load_payload(r, NFT_PAYLOAD_NETWORK_HEADER, offsetof(struct iphdr, saddr), 4, reg);
		return;
	case EXPR_DADDR:
		load_payload(r, NFT_PAYLOAD_NETWORK_HEADER, offsetof(struct iphdr, daddr), 4, reg);
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
mask_register(struct nftnl_rule *r, uint32_t bits)
{
	uint32_t zero = 0;
	struct nftnl_expr *e = expr_add(r, "bitwise");

	nftnl_expr_set_u32(e, NFTNL_EXPR_BITWISE_SREG, NFT_REG_1);
	nftnl_expr_set_u32(e, NFTNL_EXPR_BITWISE_DREG, NFT_REG_1);
	nftnl_expr_set_u32(e, NFTNL_EXPR_BITWISE_LEN, sizeof bits);
	nftnl_expr_set(e, NFTNL_EXPR_BITWISE_MASK, &bits, sizeof bits);
	nftnl_expr_set(e, NFTNL_EXPR_BITWISE_XOR, &zero, sizeof zero);
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
match_net(struct nftnl_rule *r, uint32_t subnet, uint32_t mask)
{
	uint32_t net = htonl(subnet);

	mask_register(r, htonl(mask));
	expr_compare(r, NFT_CMP_EQ, &net, sizeof net);
}

void
expr_match_subnet(struct nftnl_rule *r, uint32_t subnet, uint32_t mask)
{
	expr_load(r, EXPR_DADDR, NFT_REG_1);
	match_net(r, subnet, mask);
}

void
expr_match_address(struct nftnl_rule *r, uint32_t address)
{
	uint32_t be = htonl(address);

	expr_load(r, EXPR_DADDR, NFT_REG_1);
	expr_compare(r, NFT_CMP_EQ, &be, sizeof be);
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
	nftnl_expr_set_u32(e, NFTNL_EXPR_NAT_FAMILY, NFPROTO_IPV4);
	nftnl_expr_set_u32(e, NFTNL_EXPR_NAT_REG_ADDR_MIN, address);
	nftnl_expr_set_u32(e, NFTNL_EXPR_NAT_REG_PROTO_MIN, port);
	nftnl_expr_set_u32(
		e, NFTNL_EXPR_NAT_FLAGS, NF_NAT_RANGE_MAP_IPS | NF_NAT_RANGE_PROTO_SPECIFIED);
}

void
expr_dnat(struct nftnl_rule *r, uint32_t address, uint16_t port)
{
	uint32_t ip = htonl(address);
	uint16_t be = htons(port);

	set_register(r, NFT_REG_1, &ip, sizeof ip);
	set_register(r, NFT_REG_2, &be, sizeof be);
	dnat_by_registers(r, NFT_REG_1, NFT_REG_2);
}

static void
load_ct(struct nftnl_rule *r, uint32_t key)
{
	struct nftnl_expr *e = expr_add(r, "ct");

	nftnl_expr_set_u32(e, NFTNL_EXPR_CT_KEY, key);
	nftnl_expr_set_u32(e, NFTNL_EXPR_CT_DREG, NFT_REG_1);
	if (key == NFT_CT_DST_IP)
		nftnl_expr_set_u8(e, NFTNL_EXPR_CT_DIR, IP_CT_DIR_ORIGINAL);
}

void
expr_match_translated(struct nftnl_rule *r)
{
	uint32_t none = 0;

	load_ct(r, NFT_CT_STATUS);
	mask_register(r, IPS_DST_NAT);
	expr_compare(r, NFT_CMP_NEQ, &none, sizeof none);
}

void
expr_match_asked_subnet(struct nftnl_rule *r, uint32_t subnet, uint32_t mask)
{
	load_ct(r, NFT_CT_DST_IP);
	match_net(r, subnet, mask);
}

void
expr_match_asked_set(struct nftnl_rule *r, const char *set)
{
	load_ct(r, NFT_CT_DST_IP);
	look_up(r, set);
}

/* Fills consecutive four-byte parts of NFT_REG_1. */
static void
load_service(struct nftnl_rule *r)
{
	expr_load(r, EXPR_DADDR, NFT_REG_1);
	expr_load(r, EXPR_L4PROTO, NFT_REG32_01);
	expr_load(r, EXPR_DPORT, NFT_REG32_02);
}

void
expr_verdict_map(struct nftnl_rule *r, const char *map)
{
	load_service(r);
	nftnl_expr_set_u32(look_up(r, map), NFTNL_EXPR_LOOKUP_DREG, NFT_REG_VERDICT);
}

void
expr_verdict_map_of_caller(struct nftnl_rule *r, const char *map)
{
	expr_load(r, EXPR_SADDR, NFT_REG_1);
	expr_load(r, EXPR_DADDR, NFT_REG32_01);
	expr_load(r, EXPR_L4PROTO, NFT_REG32_02);
	expr_load(r, EXPR_DPORT, NFT_REG32_03);
	nftnl_expr_set_u32(look_up(r, map), NFTNL_EXPR_LOOKUP_DREG, NFT_REG_VERDICT);
}

static void
draw_slot(struct nftnl_rule *r, bool by_client, uint16_t n)
{
	struct nftnl_expr *e;

	expr_load(r, EXPR_SADDR, NFT_REG_2);
	if (!by_client)
		expr_load(r, EXPR_SPORT, NFT_REG32_05);
	e = expr_add(r, "hash");
	nftnl_expr_set_u32(e, NFTNL_EXPR_HASH_SREG, NFT_REG_2);
	nftnl_expr_set_u32(e, NFTNL_EXPR_HASH_DREG, NFT_REG32_03);
	nftnl_expr_set_u32(
		e, NFTNL_EXPR_HASH_LEN, (by_client ? 1 : 2) * (uint32_t)sizeof(uint32_t));
	nftnl_expr_set_u32(e, NFTNL_EXPR_HASH_MODULUS, n);
	nftnl_expr_set_u32(e, NFTNL_EXPR_HASH_SEED, CLIENT_SEED);
	nftnl_expr_set_u32(e, NFTNL_EXPR_HASH_TYPE, NFT_HASH_JENKINS);
}

static void
dnat_by_map(struct nftnl_rule *r, const char *map)
{
	nftnl_expr_set_u32(look_up(r, map), NFTNL_EXPR_LOOKUP_DREG, NFT_REG_1);
	dnat_by_registers(r, NFT_REG_1, NFT_REG32_01);
}

void
expr_dnat_single(struct nftnl_rule *r, const char *map)
{
	load_service(r);
	dnat_by_map(r, map);
}

void
expr_dnat_map(struct nftnl_rule *r, const char *map, bool by_client, uint16_t n)
{
	load_service(r);
	draw_slot(r, by_client, n);
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
	nftnl_expr_set_u8(e, NFTNL_EXPR_REJECT_CODE, ICMP_PORT_UNREACH);
}
