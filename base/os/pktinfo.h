/*
 * Datagrams of a UDP socket that is bound to a wildcard, together with the address that each was
 * sent to, so that its answer leaves from there (a client drops what comes from elsewhere). The
 * socket is opened with SOCK_INTERFACE. IPv4 and IPv6, IPv4 on a socket of IPv6 included.
 *
 *	n = pktinfo_recv(fd, buffer, sizeof buffer, &way);	// 0 is an empty datagram, not an end
 *	rc = pktinfo_send(fd, answer, len, &way);
 */
#ifndef EDGEWAY_BASE_OS_PKTINFO_H
#define EDGEWAY_BASE_OS_PKTINFO_H

#include "base/core/sock.h"

struct pktinfo_way {
	struct addr peer;
	struct in6_addr local; /* IPv4 as ::ffff:a.b.c.d */
	unsigned arrived; /* by the interface of this index; 0: not known */
	unsigned hops; /* where the socket has SOCK_HOPS */
	unsigned interface; /* where the address means something on this one alone; else 0 */
};

/* Bytes, or -errno. */
ssize_t pktinfo_recv(int fd, void *to, size_t size, struct pktinfo_way *way);
/* 0 or -errno. */
int pktinfo_send(int fd, const void *data, size_t n, const struct pktinfo_way *way);

#endif
