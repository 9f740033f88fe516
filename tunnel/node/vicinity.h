/*
 * What a node declares that it can reach beside itself (`tunnel.reach`): machines of its own site
 * which it dials for the hub when they have no tunnel of their own. Pure. The node writes it on the
 * tunnel and judges by it what it dials; the hub reads it as a stranger's word, entry by entry, and
 * decides which of them count (hub/routing/neighbours.h).
 *
 *	edge-2               a node, ports 10250 and 10255; its address is what the hub says
 *	edge-2:22            this port; edge-2:9100-9105 these; edge-2:* all
 *	192.168.1.0/24       the private network and the nodes in it, ports as for a node; 192.168.1.50:9100 one machine
 *	[fd00:1::/64]:22     IPv6 with ports
 *
 * Whatever it names, some addresses are never dialled (allow_never, loopback), nor what
 * tunnel.allow denies by network.
 *
 *	rc = vicinity_new(texts, &v, &err);
 *	if ((why = vicinity_check(v, &(struct vicinity_ask){.meant = "edge-2", .ip = ip, .port = 10250})) != NULL)	// 403, why
 */
#ifndef EDGEWAY_TUNNEL_NODE_VICINITY_H
#define EDGEWAY_TUNNEL_NODE_VICINITY_H

#include <netinet/in.h>

#include "base/core/buf.h"
#include "base/core/err.h"

enum {
	VICINITY_MAX = 64, /* entries */
	VICINITY_ENTRY_MAX = 300, /* bytes of one */
	VICINITY_TEXT_MAX = VICINITY_MAX * (VICINITY_ENTRY_MAX + 1),
	VICINITY_LEAST_BITS = 12, /* of an IPv4 network; four times as many of an IPv6 one */
};

#define VICINITY_ANY                                                                               \
	"*" /* in place of a node's name: a machine that is known by its address alone */

struct vicinity_entry {
	char *text; /* as it was written */
	const char *wrong; /* why it cannot count (static text); NULL: it can, and the rest holds */
	char *node; /* NULL: a network */
	struct in6_addr prefix; /* IPv4 as ::ffff:a.b.c.d */
	unsigned bits; /* of 128 */
	struct vicinity_ports {
		uint16_t first, last;
	} ports[2];
};

struct vicinity {
	size_t n;
	struct vicinity_entry *list;
};

/* entries: of the configuration, ended by NULL; or NULL. -EINVAL names the one that is wrong. */
int vicinity_new(const char *const *entries, struct vicinity **out, struct err *err);
/* A line for each entry, as vicinity_write has them; one that is wrong says so. -EINVAL: too many,
 * too long, or not text. */
int vicinity_parse(const char *text, size_t len, struct vicinity **out, struct err *err);
/* One more line. -EINVAL: too long, no text, or one too many. */
int vicinity_add(struct vicinity *v, const char *text, size_t len);
void vicinity_write(const struct vicinity *v, struct buf *out);
void vicinity_free(struct vicinity **v);
bool vicinity_same(const struct vicinity *a, const struct vicinity *b);

/* Does the entry stand for the node (which may be VICINITY_ANY), or for its address? */
bool vicinity_covers(const struct vicinity_entry *e, const char *node, const struct in6_addr *ip);
bool vicinity_opens(const struct vicinity_entry *e, uint16_t port);

struct vicinity_ask {
	const char *meant; /* the node, or VICINITY_ANY */
	struct in6_addr ip;
	uint16_t port; /* 0: whichever, since something else opens it */
};

/* NULL: an entry names and opens it; else why not, static text. */
const char *vicinity_check(const struct vicinity *v, const struct vicinity_ask *ask);

#endif
