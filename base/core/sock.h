/*
 * Socket addresses and the few ways in which this project opens sockets. Every descriptor is
 * non-blocking and close-on-exec. TCP at a loopback address is not paced, whatever the kernel's
 * default is.
 */
#ifndef EDGEWAY_BASE_CORE_SOCK_H
#define EDGEWAY_BASE_CORE_SOCK_H

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/core/err.h"

struct addr {
	union {
		struct sockaddr sa;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
		struct sockaddr_un un;
	};
	socklen_t len;
};

enum { ADDR_TEXT_MAX = 128 };

/* "192.0.2.1:53", "192.0.2.1" (default_port), "[2001:db8::1]:53", "unix:/path"; numeric only. */
int addr_parse(struct addr *a, const char *text, uint16_t default_port, struct err *err);
/* host in host byte order */
struct addr addr_ipv4(uint32_t host, uint16_t port);
/* Text for logs; returns `to`. */
const char *addr_text(const struct addr *a, char to[ADDR_TEXT_MAX]);
uint16_t addr_port(const struct addr *a);
/* IPv4 as ::ffff:a.b.c.d. False: it is a path. */
bool addr_ip(const struct addr *a, struct in6_addr *ip);

enum {
	SOCK_REUSEPORT = 1, /* several sockets of this process share the port */
	SOCK_FREEBIND = 2, /* bind before the address exists (IP_FREEBIND) */
	SOCK_INTERFACE =
		/* UDP: each datagram comes with its interface and address here (IP_PKTINFO), from
		 * the very first */
	4,
	SOCK_HOPS = 8, /* and with how often we have passed it on (base/core/hops.h) */
	SOCK_TRANSPARENT = 16, /* IPv4: sock_transparent */
};

/* Listening TCP or Unix socket. A Unix socket that nobody answers on is replaced; created 0600. */
int sock_listen(const struct addr *a, unsigned flags, int *fd, struct err *err);
/* Bound UDP socket. */
int sock_udp(const struct addr *a, unsigned flags, int *fd, struct err *err);
/* Starts a TCP or Unix connection: 0 (maybe still in progress) with *fd, or -errno. mark 0:
 * none. */
int sock_connect(const struct addr *a, uint32_t mark, int *fd);
/* The same for somebody else's connection or request, which we have passed on so often, this time
 * included (base/core/hops.h). */
int sock_connect_hops(const struct addr *a, uint32_t mark, unsigned hops, int *fd);
/* A UDP socket that sends to this address and hears from it alone. */
int sock_connect_udp(const struct addr *a, uint32_t mark, unsigned hops, int *fd);
/* Two connected TCP sockets of this machine, non-blocking: a reset is one here, as it is not
 * between Unix sockets. What waits in them is bounded, to some hundred kB each. -errno. */
int sock_pair(int fds[2]);
/* Pending error of a socket, 0 or positive errno. */
int sock_error(int fd);
/* Does what was written to this TCP connection still wait for the other end's kernel, which has
 * taken some of it within so many ms? */
bool sock_drains(int fd, unsigned within_ms);
/* Would a connection to this one's other end begin at another address of this machine now? False
 * also where there is no way at all. */
bool sock_rerouted(int fd);
/* Does this -errno of sock_connect tell of this machine (descriptors, ports, memory), not of the
 * other end? */
bool sock_short_of(int rc);
int sock_nodelay(int fd);
/* IP_TRANSPARENT, which needs CAP_NET_ADMIN or CAP_NET_RAW: by it our nftables rules know a socket
 * of ours from that of whoever else has the port (iptables/maps/rules.h). Without the right nothing
 * is done; there are no rules of ours then. */
void sock_transparent(int fd);
/* The port at which it is bound to this very address; 0: it is not. IPv4, host byte order. */
uint16_t sock_port_at(int fd, uint32_t address);
/* Is it bound to this very address and port? */
bool sock_bound_to(int fd, const struct addr *a);
/* Index of the interface by which the peer of an accepted IPv4 connection came in; 0: not known. */
unsigned sock_interface(int fd);
/* Where the peer of an accepted IPv4 connection wanted to go before the kernel led it here
 * (SO_ORIGINAL_DST); the socket's own address when nobody led it. */
int sock_original(int fd, struct addr *to);

#endif
