/*
 * A connection inside a websocket: what is written to one end of a pair of sockets goes out as
 * binary frames over a wire whose handshake is done, and comes in the same way. Who holds the other
 * end sees a connection like any other, which it may shake hands on (TLS), close, or hand to a
 * library. Nothing is trusted to the websocket: what it carries proves itself.
 *
 * Bytes wait in here within WS_TUNNEL_WAITING each way; whoever is slower holds the other up. The
 * client pings after WS_TUNNEL_PING_MS of silence, so that nothing on the way takes the connection
 * for idle. When the owner's end is closed, what it has written still goes out, then a close frame;
 * the other end's close frame, or the wire's end, closes the owner's. Everything on the loop's
 * thread.
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
	const void *rest; /* what came behind the handshake */
	size_t n_rest;
	/* The end, once, never from within ws_tunnel_start; free the carrier. `fault`: against the
	 * rules, or lost. */
	void (*ended)(void *arg, bool fault, const char *why);
	void *arg;
};

struct ws_tunnel_stats {
	uint64_t bytes_in, bytes_out; /* carried */
};

/* 0 with the owner's end in *fd; -errno when there can be no pair. */
int ws_tunnel_start(const struct ws_tunnel_setup *setup, struct ws_tunnel **out, int *fd);
/* At once, without farewell; the owner's end is told by its socket. */
void ws_tunnel_free(struct ws_tunnel **c);
const struct ws_tunnel_stats *ws_tunnel_stats(const struct ws_tunnel *c);

#endif
