/*
 * Programs of this host, and what is routed through it, that know nothing of us: their TCP
 * connections to addresses of nodes that nobody here can dial are led to a listener of ours (the
 * hub's ingress.redirect). A table of its own, so that an agent may run beside it. As nft(8) prints
 * it:
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
 * The rules are the same for any number of nodes; nodes and ports are elements, and what changes of
 * them is one transaction. dstnat - 10 comes before the agent, Docker, kube-proxy and iptables. The
 * kernel tells the listener by SO_ORIGINAL_DST whom the connection was for. Whoever deletes the
 * table finds it back (guard.h). On the loop given.
 *
 *	divert_open(&d, loop, &err);
 *	divert_use(d, &rules, &err);	// now, and whenever it is to be another
 *	divert_drain(d);		// new connections go their own way; those that are there stay translated
 *	divert_remove(d, &err);
 *	divert_close(&d);
 */
#ifndef EDGEWAY_IPTABLES_MAPS_DIVERT_H
#define EDGEWAY_IPTABLES_MAPS_DIVERT_H

#include "base/core/buf.h"
#include "base/core/loop.h"

#define DIVERT_TABLE "edgeway-hub"

struct divert;

/* All numbers are in host byte order; lists are in order and hold nothing twice. */
struct divert_rules {
	uint32_t mark; /* connections of this machine that have it are left alone */
	/* where connections of this machine's own programs go; 0: they are left alone */
	uint32_t local;
	uint32_t others; /* the same for those that are routed through it */
	uint16_t port;
	const uint32_t *addresses, *ports;
	size_t n_addresses, n_ports;
};

struct divert_report {
	bool installed;
	size_t addresses, ports; /* elements in force */
	uint64_t changes, repairs, failures;
};

/* -EPERM: needs CAP_NET_ADMIN. */
int divert_open(struct divert **d, struct loop *loop, struct err *err);
/* Makes the table, replacing one that an earlier run left, or changes it. With an error it is as it
 * was. Copies. */
int divert_use(struct divert *d, const struct divert_rules *rules, struct err *err);
int divert_drain(struct divert *d, struct err *err);
/* Fine when there is none. */
int divert_remove(struct divert *d, struct err *err);
/* Leaves the table as it is. */
void divert_close(struct divert **d);
void divert_report(const struct divert *d, struct divert_report *report);

/* Removes a table that an earlier run has left, without a divert: 1 when there was one, 0 when not,
 * -EPERM: not to be seen. */
int divert_sweep(struct err *err);
/* Base chains of others that translate addresses before ours do: "TABLE CHAIN (output, priority
 * -150), ..."; "" none. */
void divert_rivals(struct buf *out);

#endif
