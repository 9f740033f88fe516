/*
 * An IPv4 or IPv6 address or network in CIDR notation: 192.0.2.0/24, 2001:db8::1. IPv4 is kept as
 * ::ffff:a.b.c.d. Leaves.
 */
#ifndef EDGEWAY_BASE_OS_NETWORK_H
#define EDGEWAY_BASE_OS_NETWORK_H

#include <netinet/in.h>

#include "base/core/util.h"

struct network {
	struct in6_addr ip;
	unsigned bits; /* of the IPv6 form: an IPv4 /24 has 120 */
};

/* False: not an address and not a network. */
bool network_parse(struct network *to, const char *text);
/* A network of IPv6 (::/0) holds no IPv4 address, which `ip` has as ::ffff:a.b.c.d. */
bool network_holds(const struct network *n, const struct in6_addr *ip);

#endif
