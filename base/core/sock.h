/*
 * Socket addresses, and the functions with which this project opens sockets. Every descriptor is
 * non-blocking and close-on-exec. TCP to a loopback address is not paced, whatever the kernel's
 * default is.
 */
#ifndef EDGEWAY_BASE_CORE_SOCK_H
#define EDGEWAY_BASE_CORE_SOCK_H

#include <netinet/in.h>
#include <string.h>
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
/* ip: IPv4 as ::ffff:a.b.c.d, which gives an IPv4 address */
struct addr addr_of(const struct in6_addr *ip, uint16_t port);
/* ::ffff:a.b.c.d of an IPv4 address in host byte order; and back, 0: not IPv4. */
struct in6_addr ip_of_v4(uint32_t host);
uint32_t ip_to_v4(const struct in6_addr *ip);
static inline bool
ip_same(const struct in6_addr *a, const struct in6_addr *b)
{
	return memcmp(a, b, sizeof *a) == 0;
}
/* "192.0.2.1", "2001:db8::1"; returns `to`. */
enum { IP_TEXT_MAX = INET6_ADDRSTRLEN };
const char *ip_text(const struct in6_addr *ip, char to[IP_TEXT_MAX]);
/* The same address with this port. */
struct addr addr_with_port(const struct addr *a, uint16_t port);
/* Text for logs; returns `to`. */
const char *addr_text(const struct addr *a, char to[ADDR_TEXT_MAX]);
uint16_t addr_port(const struct addr *a);
/* The same IP address, family and port; no address equals none. */
bool addr_same(const struct addr *a, const struct addr *b);
/* IPv4 as ::ffff:a.b.c.d. False: the address is a path. */
bool addr_ip(const struct addr *a, struct in6_addr *ip);

enum {
	SOCK_REUSEPORT = 1, /* several sockets of this process share the port */
	SOCK_FREEBIND = 2, /* bind before the address exists (IP_FREEBIND) */
	SOCK_INTERFACE =
		/* UDP: each datagram, from the first on, comes with the interface and local address
		 * it arrived at */
	4,
	SOCK_HOPS = 8, /* and with its hop count (base/core/hops.h) */
	SOCK_TRANSPARENT = 16, /* sock_transparent */
	SOCK_MULTIPATH = 64, /* TCP: accepts MPTCP as well */
	SOCK_V6ONLY = 32, /* [::] without IPv4, which has a socket of its own */
};

/* Listening TCP or Unix socket. A Unix socket file on which nobody answers is replaced; created
 * 0600. */
int sock_listen(const struct addr *a, unsigned flags, int *fd, struct err *err);
/* Bound UDP socket. */
int sock_udp(const struct addr *a, unsigned flags, int *fd, struct err *err);
/* Starts a TCP or Unix connection: 0 (maybe still in progress) with *fd, or -errno.
 * -ENETUNREACH also where this machine has no address from which to send IPv6 there (yet). mark 0:
 * none. */
int sock_connect(const struct addr *a, uint32_t mark, int *fd);
/* The same for a forwarded connection or request; hops: how often we have forwarded it, this time
 * included (base/core/hops.h). speaks: the caller has something to send as soon as it is
 * established. That then acknowledges the handshake as well, which saves a segment; where it comes
 * late, the kernel does that after 200 ms. */
int sock_connect_hops(const struct addr *a, uint32_t mark, unsigned hops, bool speaks, int *fd);
/* A connection that may use several paths (MPTCP, RFC 8684), or TCP where this kernel, the peer or
 * a machine in between does not know that. */
int sock_connect_multipath(const struct addr *a, uint32_t mark, int *fd);
/* TCP from a local address and port that other sockets of this process may use as well
 * (SO_REUSEPORT); port 0: the kernel chooses one. */
int sock_connect_from(const struct addr *from, const struct addr *to, uint32_t mark, int *fd);
/* The local address; .len 0: none. */
struct addr sock_local(int fd);
/* Round trip of a TCP connection, as the kernel knows it; 0: unknown. */
unsigned sock_rtt_ms(int fd);
/* A connected UDP socket: sends to this address and receives from it alone. */
int sock_connect_udp(const struct addr *a, uint32_t mark, unsigned hops, int *fd);
/* Two connected TCP sockets on this machine, non-blocking: unlike Unix sockets, they pass on a
 * reset as a reset. Their buffers are bounded to some hundred kB each. 0 or -errno. */
int sock_pair(int fds[2]);
/* Sets *fd to -1; reset: the peer sees a reset. -1: nothing happens. */
void sock_close(int *fd, bool reset);
/* Pending error of a socket, 0 or positive errno. */
int sock_error(int fd);
/* Does written data of this TCP connection still wait for the peer's acknowledgement, while the
 * peer's kernel has acknowledged some of it within so many ms? */
bool sock_drains(int fd, unsigned within_ms);
/* Has the peer's kernel acknowledged all that was written, the last time within so many ms? False
 * for a connection within this machine, such as sock_pair's. */
bool sock_acknowledged(int fd, unsigned within_ms);
struct sock_received {
	uint32_t segments; /* so many have come, those without payload as well; wraps */
	unsigned ago_ms; /* since data or an acknowledgement of something came */
};
/* What the kernel has received on this TCP connection, over all its paths. False: no TCP, or a
 * connection within this machine, such as sock_pair's. */
bool sock_received(int fd, struct sock_received *r);
/* Starts keep-alive probes, the first now and one each second, or ends them. False: the kernel
 * cannot (no TCP, or MPTCP before Linux 6.10). */
bool sock_probe(int fd, bool on);
/* Would a new connection to the same peer start from another local address now? False also where
 * there is no route at all. */
bool sock_rerouted(int fd);
/* Does this -errno of sock_connect mean a shortage on this machine (descriptors, ports, memory),
 * not a failure of the peer? */
bool sock_short_of(int rc);
int sock_nodelay(int fd);
/* Sets IP_TRANSPARENT or IPV6_TRANSPARENT, which needs CAP_NET_ADMIN or CAP_NET_RAW: by it our
 * nftables rules tell our socket from another process's on the same port (iptables/maps/rules.h).
 * Without the capability it does nothing; then there are no rules of ours either. */
void sock_transparent(int fd);
/* The local port; 0: none, or no socket. */
uint16_t sock_port(int fd);
/* Has each datagram tell the interface and the local address at which it arrived (IP_PKTINFO,
 * IPV6_PKTINFO). */
void sock_ask_interface(int fd, int family);
/* Index of the interface at which an accepted connection arrived; 0: not known. */
unsigned sock_interface(int fd);
/* Original destination of an accepted connection before the kernel redirected it here
 * (SO_ORIGINAL_DST); the socket's own address when it was not redirected. */
int sock_original(int fd, struct addr *to);

#endif
