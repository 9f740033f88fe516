/*
 * Accepts websockets that carry connections of nodes (base/http/ws_tunnel), for sites whose
 * networks let nothing else through: answers the upgrade and passes on a socket that is like an
 * accepted one, with the first byte still unread. The connection inside goes through
 * hub/port/alpn_mux and authenticates by TLS like any other. The websocket itself authenticates
 * nobody, and nothing of its request counts except the path, which must be a node's.
 * Unauthenticated connections are limited as in hub/port/alpn_mux. On the hub's loop.
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

/* Prefix of the address when a proxy is the peer: the address behind it is unknown. */
#define WS_ACCEPT_VIA "via:"

enum { WS_ACCEPT_MS = 10000, WS_ACCEPT_MOST = 20000 };

struct ws_accept;
struct preauth;
struct tls_workers;
struct ssl_ctx_st;

struct ws_accept_config {
	struct loop *loop;
	/* the hub's own server context; borrowed until ws_accept_renew or ws_accept_free */
	struct ssl_ctx_st *tls;
	size_t most; /* limit of open ones; 0: WS_ACCEPT_MOST */
	struct preauth
		*preauth; /* limit of connections not open yet; outlives it; NULL: no limit */
	struct tls_workers *workers; /* do the TLS handshakes; outlive it; NULL: `loop` does */
	/* Takes the descriptor over. `from`: the peer's address, with WS_ACCEPT_VIA if it is a
	 * proxy's; valid for this call. */
	void (*fn)(void *arg, int fd, const char *from);
	void *arg;
};

struct ws_accept *ws_accept_new(const struct ws_accept_config *config);
/* Ends all connections at once. */
void ws_accept_free(struct ws_accept **c);
/* fd: accepted, no byte read, taken. */
void ws_accept_take(struct ws_accept *c, int fd, enum client_hello kind);
void ws_accept_renew(struct ws_accept *c, struct ssl_ctx_st *tls);
/* True if the address does not tell where the node is. */
bool ws_accept_hides(const char *from);
/* {"open","strangers","bytes_in","bytes_out"} */
void ws_accept_state(const struct ws_accept *c, struct buf *out);

#endif
