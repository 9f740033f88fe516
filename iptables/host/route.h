/*
 * The route by which processes of the host itself reach the fake range: `SUBNET dev INTERFACE scope
 * link src ADDRESS`, by rtnetlink. Without a route connect(2) fails before the output chain is
 * reached.
 *
 * Why not a `local` route: if our table were missing for a moment, every listener of the host on
 * 0.0.0.0 (for example sshd) would answer on every fake IP. With this route an untranslated
 * connection goes out on the bridge, where nobody answers. It also works while the bridge has no
 * carrier (no container runs), because the translated packet is local and never leaves by the
 * bridge.
 */
#ifndef EDGEWAY_IPTABLES_HOST_ROUTE_H
#define EDGEWAY_IPTABLES_HOST_ROUTE_H

#include "base/core/err.h"

struct route {
	uint32_t subnet, mask, source; /* host byte order */
	int ifindex;
};

/* Adds the route, or replaces the existing one to this subnet. */
int route_set(const struct route *r, struct err *err);
/* Takes away the ranges to which this machine has a route of its own: others carry those, or they
 * are here. Default routes do not count. */
struct pod_ranges;
int route_subtract(struct pod_ranges *ranges, struct err *err);
/* Removes it; also 0 if there is none. */
int route_remove(uint32_t subnet, uint32_t mask, struct err *err);

#endif
