/*
 * A byte stream inside a websocket: bytes written to one end of a socket pair leave as binary
 * frames over a transport whose websocket handshake is done, and bytes arrive in the same way. The
 * owner's end behaves like any socket: the owner may run TLS on it, close it, or hand it to a
 * library. The websocket needs no trust: what it carries authenticates itself.
 *
 * At most WS_TUNNEL_WAITING bytes are buffered per direction; then the slower side blocks the
 * faster. The client pings after WS_TUNNEL_PING_MS of silence, so that no middlebox takes the
 * connection for idle. When the owner's end is closed, what it has written is still sent, then a
 * close frame; the peer's close frame, or the transport's end, closes the owner's end. Everything
 * on the loop's thread.
 *
 *	rc = ws_tunnel_start(&(struct ws_tunnel_setup){.loop = loop, .wire = wire, .client = true,
 *		.ended = on_ended, .arg = me}, &carrier, &fd);
 */
#ifndef EDGEWAY_BASE_HTTP_WS_TUNNEL_H
#define EDGEWAY_BASE_HTTP_WS_TUNNEL_H

#include "base/tls/transport.h"

enum {
	WS_TUNNEL_WAITING = 128 * 1024,
	WS_TUNNEL_PING_MS = 20 * 1000, /* the usual proxy waits for 60 s */
	WS_TUNNEL_LINGER_MS = 5000, /* for the closing handshake */
};

struct ws_tunnel;

struct ws_tunnel_setup {
	struct loop *loop;
	struct transport *wire; /* taken, also on failure */
	bool client;
	const void *rest; /* bytes received after the handshake */
	size_t n_rest;
	/* Called once at the end, never from within ws_tunnel_start; free the tunnel. `fault`: a
	 * protocol violation, or the connection was lost. */
	void (*ended)(void *arg, bool fault, const char *why);
	void *arg;
};

struct ws_tunnel_stats {
	uint64_t bytes_in, bytes_out; /* carried */
};

/* 0 with the owner's end in *fd; -errno when no socket pair can be made. */
int ws_tunnel_start(const struct ws_tunnel_setup *setup, struct ws_tunnel **out, int *fd);
/* Ends it at once, without a close frame; the owner's socket sees the end. */
void ws_tunnel_free(struct ws_tunnel **c);
const struct ws_tunnel_stats *ws_tunnel_stats(const struct ws_tunnel *c);

#endif
