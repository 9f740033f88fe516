/*
 * Who stands behind a connection, a datagram or a stream that comes to the hub. Every listener
 * fills struct caller by the functions below and by nothing else; the rules (hub/port/acl.h) are
 * asked with the result.
 *
 * `local` is a program of the hub's host: it comes by loopback or by a Unix socket, or by
 * ingress.redirect, to which the kernel leads what programs of this host send. That a connection
 * comes from an address of the hub's own is no proof: so does what the hub itself, or a NAT in
 * front of it, sends on behalf of others. `own_dial` is such a connection of the hub's own, and no
 * rule opens anything to it. On the hub's loop.
 *
 *	if (caller_accept(&caller, fd, CALLER_LISTENER, guard) < 0)	// the connection has gone
 */
#ifndef EDGEWAY_HUB_PORT_CALLER_H
#define EDGEWAY_HUB_PORT_CALLER_H

#include "base/core/sock.h"

/* Of the name or address that is asked for; of a reason that is told, with its end. */
enum { CALLER_HOST_MAX = 253, CALLER_REASON_MAX = 512 };

enum { ACCESS_NAME_MAX = 253 };

struct self_guard;

struct caller {
	struct addr addr; /* of the connection's other end */
	char cert[ACCESS_NAME_MAX + 1]; /* "" none */
	char token[ACCESS_NAME_MAX + 1]; /* "" none */
	char node[ACCESS_NAME_MAX + 1]; /* a node, by its certificate of our own CA; "" none */
	unsigned hops; /* how often we have passed the connection on before (base/core/hops.h) */
	bool local; /* a program of this host */
	bool own_dial; /* the hub has dialled itself */
	bool admitted; /* the listener's clientCA has signed the certificate */
};

enum caller_way { CALLER_LISTENER, CALLER_REDIRECT };

/* Of an accepted connection. guard NULL: the hub dials nothing. -errno: it has ended already. */
int caller_accept(struct caller *c, int fd, enum caller_way way, struct self_guard *guard);
/* Of a datagram: the address is what the packet says, which the kernel vouches for where it is
 * loopback. */
void caller_datagram(
	struct caller *c, const struct addr *peer, unsigned hops, struct self_guard *guard);
/* Of a stream that a node opens. */
void caller_node(struct caller *c, const char *node);

/* The same without the port: one text for all connections of a caller, who has a whole /64 of
 * IPv6. */
const char *caller_name(const struct caller *c, char to[ACCESS_NAME_MAX + 8]);
/* "node:NAME", "cert:NAME", "token:NAME" or the address, for the audit; returns `to`. */
const char *caller_text(const struct caller *c, char to[ACCESS_NAME_MAX + 8]);

#endif
