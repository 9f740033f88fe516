/*
 * Writes the agent's nftables tables into a batch (batch.h, expr.h): no socket, no state. The one
 * for IPv4, as nft(8) would print it (with mesh.subnet6 there is a table `ip6 edgeway` that differs
 * from it only in the addresses and their type):
 *
 *	table ip edgeway {
 *		set upstreams { type ipv4_addr; flags timeout; }
 *		set clusterips { type ipv4_addr; }
 *		map services { type ipv4_addr . inet_proto . inet_service : verdict; }
 *		map callers { type ipv4_addr . ipv4_addr . inet_proto . inet_service : verdict; }
 *		map hosts { type ipv4_addr . inet_proto . inet_service : verdict; }
 *		map external { type ipv4_addr . inet_proto . inet_service : verdict; }
 *		map sources { type ipv4_addr . inet_proto . inet_service : verdict; }
 *		map single { type ipv4_addr . inet_proto . inet_service
 *			: ipv4_addr . inet_service; }
 *		map endpoints { typeof ip daddr . meta l4proto . th dport . numgen inc mod 2
 *			: ip daddr . tcp dport; }
 *		chain prerouting { type nat hook prerouting priority dstnat - 5;
 *			iifname "docker0" goto pods
 *			iifname "br-*" meta l4proto tcp goto guests
 *			iifname "br-*" goto pods }
 *		chain output { type nat hook output priority dstnat - 5; meta mark != M goto own }
 *		chain own { ip daddr . meta l4proto . th dport vmap @hosts; goto mesh }
 *		chain external { type nat hook prerouting priority dstnat + 5;
 *			ip daddr . meta l4proto . th dport vmap @external }
 *		chain external-own { type nat hook output priority dstnat + 5;
 *			meta mark != M ip daddr . meta l4proto . th dport vmap @external }
 *		chain pods {
 *			ip saddr != @upstreams ip daddr @upstreams udp dport 53
 *				dnat to 172.17.0.1:53
 *			... the same for tcp
 *			goto mesh }
 *		chain guests { what `pods` has for tcp; goto listened }
 *		chain mesh {
 *			ip daddr . meta l4proto . th dport vmap @services
 *			ip saddr . ip daddr . meta l4proto . th dport vmap @callers
 *			goto listened }
 *		chain listened {
 *			ip daddr 9.251.0.0/16 goto proxy
 *			ip daddr @clusterips goto proxy
 *			ip daddr @podranges goto proxy }
 *		chain proxy { meta l4proto tcp dnat to 172.17.0.1:40001 }
 *		chain flow-1 { dnat to ip daddr . meta l4proto . th dport map @single }
 *		chain flow-2 { dnat to ip daddr . meta l4proto . th dport
 *			. jhash ip saddr . th sport mod 2 map @endpoints }
 *		chain client-16 { the same with jhash ip saddr mod 16 }
 *		... one for each length of a row, see slots.h
 *		chain postrouting { type nat hook postrouting priority srcnat - 5;
 *			oifname != "lo" ct status dnat ct original ip daddr 9.251.0.0/16 masquerade
 *			... the same for @clusterips
 *			oifname != "lo" meta l4proto tcp ct status dnat ct original ip daddr
 *				. meta l4proto . ct original proto-dst vmap @sources
 *			... the same for udp }
 *		chain masqueraded { masquerade }
 *		chain kept { iifname "docker0" masquerade
 *			... the same for the others
 *			iif 0 masquerade }
 *		chain early { type filter hook prerouting priority dstnat + 50;
 *			ip daddr 9.251.0.0/16 meta l4proto tcp reject with tcp reset
 *			... the same for @clusterips
 *			ip daddr 9.251.0.0/16 reject
 *			... the same for @clusterips }
 *		chain forward { the same at hook forward, for old kernels }
 *		chain local { the same at hook output }
 *		set ports { type inet_proto . inet_service; }
 *		chain input { type filter hook input priority srcnat + 50;
 *			ip daddr 172.17.0.1 ct status dnat meta l4proto . th dport @ports
 *				socket transparent 0 reject }
 *	}
 *
 * dstnat - 5 puts our chains before those of iptables, Docker and kube-proxy. The number of rules
 * does not depend on the number of services: what the kernel carries is elements of the maps
 * (service_maps.h), the rest goes to the listener. Installing creates the table if it is missing,
 * deletes it and creates it anew, all in one transaction: an earlier run's table is replaced
 * without a gap. Packets for us that are not translated (no such service, no endpoint, a caller
 * that is not allowed) are rejected, not dropped, and early: otherwise routing would send an ICMP
 * redirect first, and then the kernel's rate limit of such messages would suppress the rejection.
 * NodePorts and the addresses that services have outside are elements of `external`, for each
 * address one. Their chains come after those of iptables, Docker and kube-proxy: what these have
 * translated, such as a container's published port, is theirs. `sources` says which of the flows
 * that the kernel carries are masqueraded; with externalTrafficPolicy Local it is only those of
 * pods of this node, whose answers would otherwise not come this way. With br_netfilter the kernel
 * names no input interface for a packet from a bridge's port to another or the same one.
 * `pods` does not capture the upstreams' own queries: an upstream may be a container here.
 * Masquerading lets a pod reach itself, a pod of its own bridge and whatever the host reaches,
 * whatever Docker does.
 *
 * The table outlives a killed agent, and the ports that it translates to are free then: any user of
 * the host may bind them. So `input` checks packets that we translated to one of these ports
 * (`ports`): the receiving socket must be ours, recognised by IP_TRANSPARENT (sock_transparent),
 * which other users cannot set. A foreign socket never gets a packet, and if nobody listens the
 * kernel refuses as usual. The chain comes after srcnat, because our own masquerading would
 * otherwise treat the rejection as the first packet of a flow. It rejects by ICMP, because where
 * br_netfilter is loaded a reset to a packet from a bridge is sent without any translation. It is
 * at `input`, because packets of a connection have their socket by then (early demux).
 */
#ifndef EDGEWAY_IPTABLES_MAPS_RULES_H
#define EDGEWAY_IPTABLES_MAPS_RULES_H

#include "base/core/err.h"
#include "iptables/table/batch.h"
#include "iptables/table/expr.h"

enum {
	RULES_CHAIN_MAX = 32,
	RULES_PRIORITY = -105 /* dstnat - 5 */,
	RULES_EXTERNAL_PRIORITY = -95 /* dstnat + 5 */,
	RULES_INPUT_PRIORITY = 150 /* srcnat + 50 */
};
#define RULES_TABLE "edgeway"
#define RULES_PORTS "ports"
#define RULES_CLUSTER_IPS "clusterips"
#define RULES_POD_RANGES "podranges"
#define RULES_SERVICES "services"
#define RULES_SINGLE "single"
#define RULES_ENDPOINTS "endpoints"
#define RULES_CALLERS "callers"
#define RULES_HOSTS "hosts"
#define RULES_EXTERNAL "external"
#define RULES_SOURCES "sources"
#define RULES_PROXY "proxy"
#define RULES_MASQUERADED "masqueraded"
#define RULES_KEPT "kept"

struct rules {
	const char *const *
		/* names or PREFIX*, NULL-terminated, accepted by rules_check; the mesh's own
		 * first */
		interfaces;
	struct expr_net net; /* of the fake addresses; the table is of its family */
	struct in6_addr address; /* of the listener and of DNS */
	uint16_t port, dns_port;
	uint32_t mark; /* connections with it are not translated; 0: none */
	bool draining; /* the state after rules_drain */
	bool old_kernel; /* before 5.9, which cannot reject at prerouting */
	/* the kernel lacks nft_socket: any program that takes our ports gets our traffic */
	bool no_sockets;
};

/* Replaces the ranges of addresses of other nodes' pods (IPv4's table only). */
struct pod_ranges;
void rules_pod_ranges(struct batch *b, const struct pod_ranges *ranges);
/* Whether it is the name of an interface, or a glob of one: sets of characters, and '*' at the end.
 * If not, -EINVAL with the reason. Globs with sets are not for rules_install. */
int rules_check(const char *interface, struct err *err);
/* Adds to an open batch; leaves b->family at the table's. */
void rules_install(struct batch *b, const struct rules *r);
/* The functions below are about the table of b->family.
 *
 * New connections no longer go to the listener; they are refused. */
void rules_drain(struct batch *b);
/* The chain that selects from a row of n slots, for the elements of `services`; returns `to`. */
const char *rules_chain(char to[RULES_CHAIN_MAX], bool by_client, uint16_t n);
void rules_remove(struct batch *b);
/* Adds ports of ours that our rules translate to (host byte order) to those in the table. */
void rules_ports(struct batch *b, uint8_t proto, const uint16_t *ports, size_t n);
/* Upstreams to capture for timeout_ms from now, those of the family; replaces the content of the
 * set. */
void rules_capture(
	struct batch *b, const struct in6_addr *upstreams, size_t n, uint64_t timeout_ms);

#endif
