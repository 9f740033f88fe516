/*
 * A client's websocket tunnels: reaches a server behind middleboxes that let only websockets
 * through, and gives a socket whose next byte comes from the server. The layers:
 *
 *   TCP, or CONNECT of an HTTP proxy ─► TLS with the name's server ─► upgrade ─► ws_tunnel
 *
 * The outer TLS is verified as usual (against `ca_pem`, else the system's CAs, and those that `tls`
 * trusts), but it does not authenticate the server: it may end in a proxy of the site. The TLS that
 * the caller runs inside does that. Everything on the loop's thread.
 *
 *	all = ws_tunnels_new(&(struct ws_tunnels_config){.loop = loop, .path = "/p"});
 *	rc = ws_tunnels_dial(all, &(struct ws_tunnels_setup){.addr = addr, .host = "hub",
 *		.tls = ctx, .target = "hub:10000", .done = on_done, .arg = me}, &dial, &err);
 *	ws_tunnels_cancel(&dial);			// before `done` only
 */
#ifndef EDGEWAY_BASE_HTTP_WS_TUNNELS_H
#define EDGEWAY_BASE_HTTP_WS_TUNNELS_H

#include "base/core/metric.h"
#include "base/http/proxy.h"

/* ALPN by which our own server recognises a tunnel that comes directly; a middlebox selects
 * http/1.1. */
#define CARRIER_ALPN "edgeway-carrier/1"
/* SNI by which it recognises a tunnel whose outer TLS a proxy opened to it. */
#define CARRIER_SNI "carrier.edgeway.io"

enum { WS_TUNNELS_DIAL_MS = 10 * 1000 };

struct ws_tunnels;
struct ws_tunnels_dial;
struct ssl_ctx_st;

struct ws_tunnels_config {
	struct loop *loop;
	const char *path; /* of the request */
	const char *ca_pem; /* NULL: the system's CAs */
	uint32_t mark; /* SO_MARK */
};

struct ws_tunnels_setup {
	struct addr addr; /* of the server, or of the proxy */
	const struct proxy *proxy; /* NULL: none; borrowed for the call */
	const char *host; /* name that the outer certificate must bear too */
	const char *target; /* host:port, [IPv6]:port */
	struct ssl_ctx_st *tls; /* client context of the inner TLS */
	proxy_done_fn *done; /* as that of base/http/proxy */
	void *arg;
};

struct ws_tunnels *ws_tunnels_new(const struct ws_tunnels_config *config);
/* Ends open tunnels at once, without close frames. No dial may be in progress. */
void ws_tunnels_free(struct ws_tunnels **c);
/* -errno when it cannot even start. */
int ws_tunnels_dial(struct ws_tunnels *c, const struct ws_tunnels_setup *setup,
	struct ws_tunnels_dial **out, struct err *err);
void ws_tunnels_cancel(struct ws_tunnels_dial **d);

void ws_tunnels_metrics(const struct ws_tunnels *c, struct metrics *m);
/* Members of an object, without its braces. */
void ws_tunnels_state(const struct ws_tunnels *c, struct buf *out);

#endif
