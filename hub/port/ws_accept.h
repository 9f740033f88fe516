/*
 * Connections of nodes that come inside of websockets (base/http/ws_tunnel), for sites that let
 * nothing else through: takes such a connection, answers its upgrade, and hands over a socket that
 * is like one that was accepted, with the first byte still to be read. So what is inside is looked
 * at by hub/port/alpn_mux and proven by TLS like everything else; what is outside proves nothing,
 * and nothing of it counts but the path, which must be a node's. Strangers are bounded as by
 * hub/port/alpn_mux. On the hub's loop.
 *
 *   TLS (CLIENT_HELLO_CARRIER, CLIENT_HELLO_CARRIER_NAMED) ─► head of the request ─► 101, a carrier ─► fn
 *   plain (CLIENT_HELLO_PLAIN) ───────────────────────┘
 *
 *	carried = ws_accept_new(&(struct ws_accept_config){.loop = loop, .tls = ctx, .fn = on_carried, .arg = nodes});
 *	ws_accept_take(carried, fd, CLIENT_HELLO_PLAIN);
 */
#ifndef EDGEWAY_HUB_PORT_WS_ACCEPT_H
#define EDGEWAY_HUB_PORT_WS_ACCEPT_H

#include "base/core/loop.h"
#include "base/core/metric.h"
#include "hub/port/client_hello.h"

/* In front of the address of one that a proxy speaks for: who is behind it is not known. */
#define WS_ACCEPT_VIA "via:"

enum { WS_ACCEPT_MS = 10000, WS_ACCEPT_MOST = 20000 };

struct ws_accept;
struct preauth;
struct ssl_ctx_st;

struct ws_accept_config {
	struct loop *loop;
	/* the hub's own server context; borrowed until ws_accept_renew or ws_accept_free */
	struct ssl_ctx_st *tls;
	size_t most; /* open; 0: WS_ACCEPT_MOST */
	struct preauth
		*preauth; /* places of those on their way to that; outlives it; NULL: any number */
	/* Takes the descriptor over. `from`: address of the other end, with WS_ACCEPT_VIA where it
	 * is a proxy's; for the call. */
	void (*fn)(void *arg, int fd, const char *from);
	void *arg;
};

struct ws_accept *ws_accept_new(const struct ws_accept_config *config);
/* All end at once. */
void ws_accept_free(struct ws_accept **c);
/* fd: accepted, not a byte read, taken. */
void ws_accept_take(struct ws_accept *c, int fd, enum client_hello kind);
void ws_accept_renew(struct ws_accept *c, struct ssl_ctx_st *tls);
/* Does the address say nothing of where the node is? */
bool ws_accept_hides(const char *from);
/* {"open","strangers","bytes_in","bytes_out"} */
void ws_accept_state(const struct ws_accept *c, struct buf *out);
void ws_accept_metrics(const struct ws_accept *c, struct metrics *m);

#endif
