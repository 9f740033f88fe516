/*
 * The expressions of our rules (libnftnl), in the order in which nft(8) prints a rule. Each call
 * appends to the rule; a rule is created by expr_rule for a table of its family and passed to
 * batch_rule. Addresses are of that family, IPv4 as ::ffff:a.b.c.d; ports are in host byte order.
 * Matches use the registers from 1 on and do not depend on earlier ones. The texts below are
 * IPv4's.
 */
#ifndef EDGEWAY_IPTABLES_TABLE_EXPR_H
#define EDGEWAY_IPTABLES_TABLE_EXPR_H

#include <libnftnl/rule.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

enum expr_field { EXPR_SADDR, EXPR_DADDR, EXPR_L4PROTO, EXPR_SPORT, EXPR_DPORT };

/* A network. bits: of 128, also of IPv4. */
struct expr_net {
	struct in6_addr ip;
	unsigned bits;
};

struct nftnl_rule *expr_rule(uint8_t family); /* NFPROTO_IPV4 or NFPROTO_IPV6 */

/* PATTERN: a whole name, or the beginning of one followed by '*'. */
void expr_match_interface(struct nftnl_rule *r, const char *pattern);
void expr_match_no_input(struct nftnl_rule *r); /* iif 0: of the host, or bridged (br_netfilter) */
void expr_match_not_output(struct nftnl_rule *r, const char *interface);
void expr_match_not_mark(struct nftnl_rule *r, uint32_t mark);
void expr_match_l4proto(struct nftnl_rule *r, uint8_t proto);
void expr_match_dport(struct nftnl_rule *r, uint16_t port);
void expr_match_subnet(struct nftnl_rule *r, const struct expr_net *net); /* ip daddr */
void expr_match_address(struct nftnl_rule *r, const struct in6_addr *address); /* ip daddr */
/* meta l4proto . th dport @set */
void expr_match_port_set(struct nftnl_rule *r, const char *set);
/* socket transparent 0: there is a socket, and it lacks IP_TRANSPARENT. Needs Linux 4.18 with
 * nft_socket; otherwise -ENOENT. */
void expr_match_foreign_socket(struct nftnl_rule *r);
/* ip saddr or daddr @set; `inverted`: != @set */
void expr_match_set(struct nftnl_rule *r, enum expr_field field, const char *set, bool inverted);

/* Matches flows that we translated when they began, to the range or to an address of the set. */
void expr_match_translated(struct nftnl_rule *r);
void expr_match_asked_subnet(struct nftnl_rule *r, const struct expr_net *net);
void expr_match_asked_set(struct nftnl_rule *r, const char *set);

/* ip daddr . meta l4proto . th dport vmap @map */
void expr_verdict_map(struct nftnl_rule *r, const char *map);
/* The same for what the flow asked for when it began:
 * ct original ip daddr . meta l4proto . ct original proto-dst vmap @map */
void expr_verdict_map_of_asked(struct nftnl_rule *r, const char *map);
/* ip saddr . ip daddr . meta l4proto . th dport vmap @map */
void expr_verdict_map_of_caller(struct nftnl_rule *r, const char *map);
/* dnat to ip daddr . meta l4proto . th dport map @map */
void expr_dnat_single(struct nftnl_rule *r, const char *map);
/* dnat to ip daddr . meta l4proto . th dport . SLOT map @map; the slot below n (which must exceed
 * 1, or the kernel rejects it) is a hash of the client's address, or of its address and port. */
void expr_dnat_map(struct nftnl_rule *r, const char *map, bool by_client, uint16_t n);
void expr_masquerade(struct nftnl_rule *r);
void expr_dnat(struct nftnl_rule *r, const struct in6_addr *address, uint16_t port);
void expr_goto(struct nftnl_rule *r, const char *chain);
void expr_reject(struct nftnl_rule *r, bool tcp); /* RST, or ICMP port unreachable */

#endif
