/*
 * Identifies the caller of a connection, a datagram or a stream that comes to the hub. Every
 * listener fills struct caller by the functions below and by nothing else; the rules
 * (hub/port/acl.h) are checked for the result.
 *
 * `local` means a program of the hub's host: it comes by loopback, by a Unix socket, or by
 * ingress.redirect, to which the kernel redirects what programs of this host send. A source address
 * of the hub's own is no proof: the hub itself, or a NAT in front of it, sends from such an address
 * on behalf of others. `own_dial` marks a connection that the hub itself has dialled; no rule opens
 * anything to it. On the hub's loop.
 *
 *	if (caller_accept(&caller, fd, CALLER_LISTENER, guard) < 0)	// the connection has gone
 */
#ifndef EDGEWAY_HUB_PORT_CALLER_H
#define EDGEWAY_HUB_PORT_CALLER_H

#include "base/core/sock.h"

/* Maximum of a requested name or address; size of a reason text, including its NUL. */
enum { CALLER_HOST_MAX = 253, CALLER_REASON_MAX = 512 };

enum {
	ACCESS_NAME_MAX = 253,
	CALLER_TOKEN_HASH = 33, /* the first 16 bytes of the sha256 of a secret, in hex, and NUL */
};

struct self_guard;

struct caller {
	struct addr addr; /* the peer address of the connection */
	char cert[ACCESS_NAME_MAX + 1]; /* "": none */
	/* acl_use_token sets these two, "": none. The hash, since another secret may have the same
	 * name later: then the name alone is no right any more. */
	char token[ACCESS_NAME_MAX + 1];
	char token_hash[CALLER_TOKEN_HASH];
	char node[ACCESS_NAME_MAX + 1]; /* a node, by its certificate from our own CA; "": none */
	/* how often Edgeway has forwarded the connection before (base/core/hops.h) */
	unsigned hops;
	bool local; /* a program of this host */
	bool own_dial; /* the hub has dialled itself */
	bool admitted; /* the listener's clientCA has signed the certificate */
};

enum caller_way { CALLER_LISTENER, CALLER_REDIRECT };

/* For an accepted connection. guard NULL: the hub dials nothing. -errno: the connection has already
 * ended. */
int caller_accept(struct caller *c, int fd, enum caller_way way, struct self_guard *guard);
/* For a datagram: the address is the packet's source address; for loopback the kernel guarantees
 * it. */
void caller_datagram(
	struct caller *c, const struct addr *peer, unsigned hops, struct self_guard *guard);
/* For a stream that a node opens. */
void caller_node(struct caller *c, const char *node);

/* A caller as a connection keeps it, in as many bytes as its names need; from malloc. */
struct caller_kept;
struct caller_kept *caller_keep(const struct caller *c);
/* Returns `to`. */
const struct caller *caller_load(const struct caller_kept *k, struct caller *to);

/* The same without the port: one text for all connections of a caller; for IPv6 a whole /64 is one
 * caller. */
const char *caller_name(const struct caller *c, char to[ACCESS_NAME_MAX + 8]);
/* "node:NAME", "cert:NAME", "token:NAME" or the address, for the audit; returns `to`. */
const char *caller_text(const struct caller *c, char to[ACCESS_NAME_MAX + 8]);

#endif
