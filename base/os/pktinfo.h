/*
 * Receives datagrams on a UDP socket bound to the wildcard address, each with its destination
 * address, so that the answer is sent from there (clients drop answers from another address). The
 * socket must be opened with SOCK_INTERFACE. IPv4 and IPv6, including IPv4 on an IPv6 socket.
 *
 *	n = pktinfo_recv(fd, buffer, sizeof buffer, &way);	// 0: an empty datagram
 *	rc = pktinfo_send(fd, answer, len, &way);
 */
#ifndef EDGEWAY_BASE_OS_PKTINFO_H
#define EDGEWAY_BASE_OS_PKTINFO_H

#include "base/core/sock.h"

struct pktinfo_way {
	struct addr peer;
	struct in6_addr local; /* IPv4 as ::ffff:a.b.c.d */
	unsigned arrived; /* index of the interface it arrived at; 0: not known */
	unsigned hops; /* hop count, if the socket has SOCK_HOPS */
	/* index, for addresses valid on one interface only (link-local); else 0 */
	unsigned interface;
};

/* Bytes, or -errno. */
ssize_t pktinfo_recv(int fd, void *to, size_t size, struct pktinfo_way *way);
/* 0 or -errno. */
int pktinfo_send(int fd, const void *data, size_t n, const struct pktinfo_way *way);

#endif
