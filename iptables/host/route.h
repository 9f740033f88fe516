/*
 * The route that lets processes of the host itself reach the fake range: `SUBNET dev INTERFACE
 * scope link src ADDRESS`, by rtnetlink. Without a route connect(2) fails before the output chain
 * is asked.
 *
 * Why not a `local` route: were our table gone for a moment, every listener of the host on 0.0.0.0
 * (sshd, say) would answer on every fake IP. With this one a connection that is not translated goes
 * out on the bridge, where nobody answers. It also works while the bridge has no carrier (no
 * container runs), since the translated packet is local and never leaves by it.
 */
#ifndef EDGEWAY_IPTABLES_HOST_ROUTE_H
#define EDGEWAY_IPTABLES_HOST_ROUTE_H

#include "base/core/err.h"

struct route {
	uint32_t subnet, mask, source; /* host byte order */
	int ifindex;
};

/* Adds the route, or replaces the one there is to this subnet. */
int route_set(const struct route *r, struct err *err);
/* Removes it; 0 also when it is not there. */
int route_remove(uint32_t subnet, uint32_t mask, struct err *err);

#endif
