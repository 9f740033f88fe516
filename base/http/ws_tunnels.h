/*
 * The carriers of a client: dials a server through whatever is in front of it that lets nothing but
 * websockets through, and gives a socket on which the next byte is the server's. The way there:
 *
 *   TCP, or CONNECT of an HTTP proxy ─► TLS with whoever answers for the name ─► upgrade ─► base/http/ws_tunnel
 *
 * The outer TLS is verified like any other (CAs of `ca`, else the system's, and whom `tls` trusts),
 * but it proves nothing: it may end in a proxy of the site. Who is who says the TLS that the caller
 * speaks through it. Everything on the loop's thread.
 *
 *	all = ws_tunnels_new(&(struct ws_tunnels_config){.loop = loop, .path = "/p"});
 *	rc = ws_tunnels_dial(all, &(struct ws_tunnels_dial){.addr = addr, .host = "hub", .target = "hub:10000", .tls = ctx,
 *		.done = on_done, .arg = me}, &dial, &err);
 *	ws_tunnels_cancel(&dial);			// before `done` only
 */
#ifndef EDGEWAY_BASE_HTTP_WS_TUNNELS_H
#define EDGEWAY_BASE_HTTP_WS_TUNNELS_H

#include "base/core/metric.h"
#include "base/http/proxy.h"

/* ALPN by which our own server tells a carrier that comes straight to it; what is in front selects
 * http/1.1. */
#define CARRIER_ALPN "edgeway-carrier/1"
/* The server's name (SNI) by which it tells one of TLS that a proxy speaks with it. */
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
	const char *host; /* name that the outer certificate bears as well */
	const char *target; /* host:port, [IPv6]:port */
	struct ssl_ctx_st *tls; /* client context of what is carried */
	proxy_done_fn *done; /* as that of base/http/proxy */
	void *arg;
};

struct ws_tunnels *ws_tunnels_new(const struct ws_tunnels_config *config);
/* Those that are open end at once, without farewell. No dial may be under way. */
void ws_tunnels_free(struct ws_tunnels **c);
/* -errno when it cannot even start. */
int ws_tunnels_dial(struct ws_tunnels *c, const struct ws_tunnels_setup *setup,
	struct ws_tunnels_dial **out, struct err *err);
void ws_tunnels_cancel(struct ws_tunnels_dial **d);

void ws_tunnels_metrics(const struct ws_tunnels *c, struct metrics *m);
/* Members of an object, without its braces. */
void ws_tunnels_state(const struct ws_tunnels *c, struct buf *out);

#endif
