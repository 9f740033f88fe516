/*
 * Redirects TCP connections of programs that do not know the hub, on this host or routed through
 * it: connections to addresses of nodes that cannot be reached directly from here go to a listener
 * of ours (the hub's ingress.redirect). It has a table of its own, so that an agent can run on the
 * same host. As nft(8) prints it:
 *
 *	table ip edgeway-hub {
 *		set addresses { type ipv4_addr; }
 *		set ports { type inet_service; }
 *		chain output { type nat hook output priority dstnat - 10;
 *			meta mark != M ip daddr @addresses tcp dport @ports dnat to LOCAL:PORT }
 *		chain prerouting { type nat hook prerouting priority dstnat - 10;
 *			ip daddr @addresses tcp dport @ports dnat to OTHERS:PORT }
 *	}
 *
 * and the same again as `table ip6 edgeway-hub` from the first IPv6 address on. Addresses are
 * in6_addr, IPv4 as ::ffff:a.b.c.d; each table has those of its family. A kernel that refuses the
 * IPv6 table has the IPv4 one, and the report says why.
 *
 * The number of nodes does not change the rules; nodes and ports are elements, and a change of them
 * is one transaction. dstnat - 10 comes before the agent, Docker, kube-proxy and iptables. The
 * listener reads the original destination with SO_ORIGINAL_DST. If another program deletes the
 * table, it is restored (guard.h). On the loop given.
 *
 *	divert_open(&d, loop, &err);
 *	divert_use(d, &rules, &err);	// now, and whenever the rules change
 *	divert_drain(d, &err);		// new connections are not redirected any more; existing
 *					// ones stay translated
 *	divert_remove(d, &err);
 *	divert_close(&d);
 */
#ifndef EDGEWAY_IPTABLES_MAPS_DIVERT_H
#define EDGEWAY_IPTABLES_MAPS_DIVERT_H

#include <netinet/in.h>

#include "base/core/buf.h"
#include "base/core/loop.h"

#define DIVERT_TABLE "edgeway-hub"

struct divert;

enum divert_family { DIVERT_V4, DIVERT_V6, DIVERT_FAMILIES };

/* Numbers are in host byte order; lists are sorted (addresses by their bytes) and without
 * duplicates. */
struct divert_rules {
	uint32_t mark; /* connections of this machine with this mark are not redirected */
	/* target for connections of this machine's own programs; ::: not redirected */
	struct in6_addr local[DIVERT_FAMILIES];
	/* the same for connections routed through it */
	struct in6_addr others[DIVERT_FAMILIES];
	uint16_t port;
	const struct in6_addr *addresses;
	const uint32_t *ports;
	size_t n_addresses, n_ports;
};

struct divert_report {
	bool installed;
	bool ipv6; /* also the IPv6 table */
	const char *refused6; /* why that cannot be; "": not known to be so */
	size_t addresses, ports; /* elements in force */
	uint64_t changes, repairs, failures;
};

/* -EPERM: needs CAP_NET_ADMIN. */
int divert_open(struct divert **d, struct loop *loop, struct err *err);
/* Creates the tables, replacing one left by an earlier run, or changes it. On an error it stays as
 * it was. Copies the rules. */
int divert_use(struct divert *d, const struct divert_rules *rules, struct err *err);
int divert_drain(struct divert *d, struct err *err);
/* Succeeds if there is none. */
int divert_remove(struct divert *d, struct err *err);
/* Leaves the table in place. */
void divert_close(struct divert **d);
void divert_report(const struct divert *d, struct divert_report *report);

/* Removes tables left by an earlier run, without a struct divert: 1 if there was one, 0 if not,
 * -EPERM: not permitted to look. */
int divert_sweep(struct err *err);
/* Other programs' base chains that translate addresses of the family before ours: "TABLE CHAIN
 * (output, priority -150), ..."; "" none. */
void divert_rivals(enum divert_family family, struct buf *out);

#endif
