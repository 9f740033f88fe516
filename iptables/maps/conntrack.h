/*
 * The kernel's connection tracking (ctnetlink). A flow keeps the translation it had at its begin,
 * whatever our table says now: a UDP client that keeps its port would stay with an endpoint that is
 * gone, or with an upstream captured since. Such entries are deleted here, and the flow's next
 * packet is translated anew. Each call dumps the kernel's table, about a microsecond per flow: call
 * it when something has changed, not periodically.
 *
 *	n = conntrack_delete(IPPROTO_UDP, &self->locals, is_stale, self, MOST, &err);
 */
#ifndef EDGEWAY_IPTABLES_MAPS_CONNTRACK_H
#define EDGEWAY_IPTABLES_MAPS_CONNTRACK_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/core/buf.h"
#include "base/core/err.h"

/* Source and destination before translation, and the server after it. Ports in host byte order,
 * addresses IPv4 as ::ffff:a.b.c.d. */
struct conntrack_flow {
	uint8_t proto;
	bool replied; /* the other side has answered */
	struct in6_addr src, dst; /* as the client sent it */
	uint16_t sport, dport;
	struct in6_addr server; /* the real server */
	uint16_t server_port;
};

typedef bool conntrack_pick_fn(void *arg, const struct conntrack_flow *flow);

/* Deletes the flows of this protocol (0: of all that have ports) that `pick` selects, at most
 * `most` per call, because each takes a microsecond of the loop. `pick` finds the machine's
 * addresses in `locals` (iptables/host/iface.h), which are there during the call. Returns their
 * number (`most`: there may be more), or -errno. Needs CAP_NET_ADMIN and nf_conntrack_netlink. */
int conntrack_delete(uint8_t proto, struct buf *locals, conntrack_pick_fn *pick, void *arg,
	unsigned most, struct err *err);
/* The first flow of this protocol that `pick` selects: 1 and *found, 0: there is none, or
 * -errno. Same requirements. The dump ends there. */
int conntrack_find(uint8_t proto, conntrack_pick_fn *pick, void *arg, struct conntrack_flow *found,
	struct err *err);

#endif
