/*
 * The address of a client of either family, and the number that stands for it where clients are
 * counted: the pods of one bridge share a /64, so it is made of the whole IPv6 address.
 *
 * Pure.
 */
#ifndef EDGEWAY_DNS_FORWARD_CLIENT_H
#define EDGEWAY_DNS_FORWARD_CLIENT_H

#include <netinet/in.h>

#include "base/core/hash.h"

struct dns_client {
	union {
		struct sockaddr sa;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	};
};

/* For limit, client_quota and the connections of one client. */
static inline uint64_t
dns_client_key(const struct dns_client *c)
{
	if (c->sa.sa_family == AF_INET6)
		return hash64(&c->in6.sin6_addr, sizeof c->in6.sin6_addr, 0);
	return c->in.sin_addr.s_addr;
}

static inline socklen_t
dns_client_len(const struct dns_client *c)
{
	return c->sa.sa_family == AF_INET6 ? sizeof c->in6 : sizeof c->in;
}

/* Its address's bytes, in network byte order; *len: how many. */
static inline const uint8_t *
dns_client_bytes(const struct dns_client *c, size_t *len)
{
	bool six = c->sa.sa_family == AF_INET6;

	*len = six ? sizeof c->in6.sin6_addr : sizeof c->in.sin_addr;
	return six ? c->in6.sin6_addr.s6_addr : (const uint8_t *)&c->in.sin_addr;
}

#endif
