/*
 * The networks and machines that a node announces as reachable from it (`tunnel.reach`): machines
 * of its own site that it dials for the hub when they have no tunnel of their own. Pure. The node
 * sends the list over the tunnel and checks against it what it dials; the hub treats it as
 * untrusted input, entry by entry, and decides which entries count (hub/routing/neighbours.h).
 *
 *	edge-2               a node, ports 10250 and 10255; the hub gives its address
 *	edge-2:22            this port; edge-2:9100-9105 these; edge-2:* all
 *	192.168.1.0/24       the private network and the nodes in it, ports as for a node; 192.168.1.50:9100 one machine
 *	[fd00:1::/64]:22     IPv6 with ports
 *
 * Whatever it names, some addresses are never dialled (tunnel_acl_never, loopback), nor those that
 * tunnel.allow denies by network.
 *
 *	rc = reachable_nets_new(texts, &v, &err);
 *	if ((why = reachable_nets_check(v, &(struct reachable_nets_ask){.meant = "edge-2", .ip = ip, .port = 10250})) != NULL)	// 403, why
 */
#ifndef EDGEWAY_TUNNEL_NODE_REACHABLE_NETS_H
#define EDGEWAY_TUNNEL_NODE_REACHABLE_NETS_H

#include <netinet/in.h>

#include "base/core/buf.h"
#include "base/core/err.h"

enum {
	REACHABLE_NETS_MAX = 64, /* entries */
	REACHABLE_NETS_ENTRY_MAX = 300, /* bytes of one */
	REACHABLE_NETS_TEXT_MAX = REACHABLE_NETS_MAX * (REACHABLE_NETS_ENTRY_MAX + 1),
	/* of an IPv4 network; of an IPv6 network four times as many */
	REACHABLE_NETS_LEAST_BITS = 12,
};

#define REACHABLE_NETS_ANY                                                                         \
	"*" /* in place of a node's name: a machine that is known by its address alone */

struct reachable_nets_entry {
	char *text; /* as it was written */
	/* why it cannot count (static text); NULL: it can, and the fields below are valid */
	const char *wrong;
	char *node; /* NULL: a network */
	struct in6_addr prefix; /* IPv4 as ::ffff:a.b.c.d */
	unsigned bits; /* of 128 */
	struct reachable_nets_ports {
		uint16_t first, last;
	} ports[2];
};

struct reachable_nets {
	size_t n;
	struct reachable_nets_entry *list;
};

/* entries: from the configuration, NULL-terminated; or NULL. -EINVAL names the invalid entry. */
int reachable_nets_new(const char *const *entries, struct reachable_nets **out, struct err *err);
/* Parses one line per entry, as reachable_nets_write writes them; an invalid entry has `wrong` set.
 * -EINVAL: too many, too long, or not text. */
int reachable_nets_parse(
	const char *text, size_t len, struct reachable_nets **out, struct err *err);
/* Adds one line. -EINVAL: too long, not text, or one too many. */
int reachable_nets_add(struct reachable_nets *v, const char *text, size_t len);
void reachable_nets_write(const struct reachable_nets *v, struct buf *out);
void reachable_nets_free(struct reachable_nets **v);
bool reachable_nets_same(const struct reachable_nets *a, const struct reachable_nets *b);

/* True if the entry covers the node (which may be REACHABLE_NETS_ANY) or its address. */
bool reachable_nets_covers(
	const struct reachable_nets_entry *e, const char *node, const struct in6_addr *ip);
bool reachable_nets_opens(const struct reachable_nets_entry *e, uint16_t port);

struct reachable_nets_ask {
	const char *meant; /* the node, or REACHABLE_NETS_ANY */
	struct in6_addr ip;
	uint16_t port; /* 0: any port, because something else opens it */
};

/* NULL: an entry names and opens it; else the reason, static text. */
const char *reachable_nets_check(
	const struct reachable_nets *v, const struct reachable_nets_ask *ask);

#endif
