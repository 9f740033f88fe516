/*
 * IPv6 fake addresses (mesh.subnet6): the range's prefix, zeros, and in the last 32 bits the IPv4
 * fake address of the same service, as RFC 6052 embeds one. So they need neither an allocator nor a
 * database of their own, and live as long as the IPv4 ones: fd09:251::9fb:102 for 9.251.1.2. The
 * mesh's own address, where DNS and the proxy listen, is beside them: fd09:251::1:0:1.
 */
#ifndef EDGEWAY_MODEL_FAKE6_H
#define EDGEWAY_MODEL_FAKE6_H

#include <netinet/in.h>

#include "base/core/err.h"

/* of the prefix and the zeros that all fake addresses begin with */
enum { FAKE6_BITS = 96 };

struct fake6 {
	struct in6_addr prefix;
	unsigned bits; /* of the prefix; 0: no IPv6 */
};

/* "fd09:251::/64", or "" for none. -EINVAL: with the reason. */
int fake6_parse(struct fake6 *range, const char *text, struct err *err);
/* The address of the service with this IPv4 fake address (host byte order). Range and address must
 * not be empty. */
struct in6_addr fake6_of(const struct fake6 *range, uint32_t fake_ip);
/* The IPv4 fake address; 0: none that fake6_of makes. */
uint32_t fake6_inner(const struct fake6 *range, const struct in6_addr *ip);
/* The mesh's own address; :: if the range is empty. */
struct in6_addr fake6_own(const struct fake6 *range);

#endif
