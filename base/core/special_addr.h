/*
 * Classifies IP addresses that must not be dialled merely because a peer names them: the
 * special-purpose ranges of RFC 6890 that lead to this machine, to its link or to no particular
 * host, and the addresses at which clouds serve instance metadata (often with credentials). Pure.
 * Addresses of this machine's interfaces are base/os/addresses.
 *
 * An IPv6 address that only wraps an IPv4 address is classified by that one: IPv4-mapped (RFC 4291
 * section 2.5.5.2), IPv4-compatible (2.5.5.1), IPv4-translated (RFC 2765), NAT64 (RFC 6052, RFC
 * 8215) and 6to4 (RFC 3056).
 *
 *	if (special_addr_class(&ip) != SPECIAL_NONE)	// special_addr_text() says what it is
 */
#ifndef EDGEWAY_BASE_CORE_SPECIAL_ADDR_H
#define EDGEWAY_BASE_CORE_SPECIAL_ADDR_H

#include <netinet/in.h>
#include <stdbool.h>

enum special_addr {
	SPECIAL_NONE, /* an ordinary unicast address, private ones included */
	SPECIAL_LOOPBACK, /* 127.0.0.0/8, ::1 */
	SPECIAL_LINK_LOCAL, /* 169.254.0.0/16, fe80::/10 */
	SPECIAL_METADATA, /* of a cloud; takes precedence over link-local */
	SPECIAL_UNSPECIFIED, /* 0.0.0.0/8 and ::, which the kernel dials as loopback */
	SPECIAL_MULTICAST, /* 224.0.0.0/4, ff00::/8 */
	SPECIAL_RESERVED, /* 240.0.0.0/4 with 255.255.255.255 */
	SPECIAL_OWN, /* of this machine: from base/os/addresses, never from special_addr_class */
	SPECIAL_CLEAR, /* reached in clear text alone where that is not wanted; likewise */
	SPECIAL_CLASSES
};

/* ip: IPv4 as ::ffff:a.b.c.d */
enum special_addr special_addr_class(const struct in6_addr *ip);
/* For people: "a loopback address". SPECIAL_NONE: "". */
const char *special_addr_text(enum special_addr class);
/* For metrics and state: "loopback", "link_local". SPECIAL_NONE: "". */
const char *special_addr_name(enum special_addr class);
/* The wrapped IPv4 address as ::ffff:a.b.c.d; any other address unchanged. */
struct in6_addr special_addr_inner(const struct in6_addr *ip);
/* Are the first `bits` (of 128) equal? */
bool special_addr_in_net(const struct in6_addr *ip, const struct in6_addr *prefix, unsigned bits);

#endif
