/*
 * Connections of nodes that come inside of websockets (base/http/carrier), for sites that let
 * nothing else through: takes such a connection, answers its upgrade, and hands over a socket that
 * is like one that was accepted, with the first byte still to be read. So what is inside is looked
 * at by hub/port/peek and proven by TLS like everything else; what is outside proves nothing, and
 * nothing of it counts but the path, which must be a node's. Strangers are bounded as by hub/peek.
 * On the hub's loop.
 *
 *   TLS (HELLO_CARRIER, HELLO_CARRIER_NAMED) ─► head of the request ─► 101, a carrier ─► fn
 *   plain (HELLO_PLAIN) ───────────────────────┘
 *
 *	carried = carried_new(&(struct carried_config){.loop = loop, .tls = ctx, .fn = on_carried, .arg = nodes});
 *	carried_take(carried, fd, HELLO_PLAIN);
 */
#ifndef EDGEWAY_HUB_PORT_CARRIED_H
#define EDGEWAY_HUB_PORT_CARRIED_H

#include "base/core/loop.h"
#include "base/core/metric.h"
#include "hub/port/hello.h"

/* In front of the address of one that a proxy speaks for: who is behind it is not known. */
#define CARRIED_VIA "via:"

enum { CARRIED_MS = 10000, CARRIED_MOST = 20000 };

struct carried;
struct preauth;
struct ssl_ctx_st;

struct carried_config {
	struct loop *loop;
	/* the hub's own server context; borrowed until carried_renew or carried_free */
	struct ssl_ctx_st *tls;
	size_t most; /* open; 0: CARRIED_MOST */
	struct preauth
		*preauth; /* places of those on their way to that; outlives it; NULL: any number */
	/* Takes the descriptor over. `from`: address of the other end, with CARRIED_VIA where it is
	 * a proxy's; for the call. */
	void (*fn)(void *arg, int fd, const char *from);
	void *arg;
};

struct carried *carried_new(const struct carried_config *config);
/* All end at once. */
void carried_free(struct carried **c);
/* fd: accepted, not a byte read, taken. */
void carried_take(struct carried *c, int fd, enum hello kind);
void carried_renew(struct carried *c, struct ssl_ctx_st *tls);
/* Does the address say nothing of where the node is? */
bool carried_hides(const char *from);
/* {"open","strangers","bytes_in","bytes_out"} */
void carried_state(const struct carried *c, struct buf *out);
void carried_metrics(const struct carried *c, struct metrics *m);

#endif
