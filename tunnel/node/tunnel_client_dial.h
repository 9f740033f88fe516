/*
 * One attempt to reach the hub, or another node's agent: over TCP, through a proxy or inside a
 * websocket, followed by the TLS handshake. For tunnel/node/tunnel_client and
 * tunnel/node/node_peers; on the loop's thread. `done` comes once,
 * perhaps from within tunnel_client_dial_start; the callback may free the attempt.
 *
 *	tunnel_client_dial_start(&d, &(struct tunnel_client_dial_setup){.loop = loop, .hub = hub, .alpn = alpn, .done = on_dialled, .arg = me});
 */
#ifndef EDGEWAY_TUNNEL_NODE_TUNNEL_CLIENT_DIAL_H
#define EDGEWAY_TUNNEL_NODE_TUNNEL_CLIENT_DIAL_H

#include "tunnel/node/tunnel_client.h"

struct tunnel_client_dial;

/* tls: open, taken by the receiver; NULL: the attempt failed, `why` says why. unanswered: it failed
 * because nobody answered, not because of the answer. */
typedef void tunnel_client_dial_fn(
	void *arg, struct tls_stream *tls, bool unanswered, const char *why);

struct tunnel_client_dial_setup {
	struct loop *loop;
	/* valid until the attempt is freed; its host and TLS context are read at the handshake */
	const struct tunnel_client_hub *hub;
	struct ws_tunnels *carriers; /* NULL: no websocket */
	bool multipath; /* as sock_connect_multipath */
	uint32_t mark; /* SO_MARK */
	const char *alpn; /* static */
	enum tls_proof proof;
	unsigned timeout_ms; /* for TCP, and then for TLS; 0: those of a hub */
	tunnel_client_dial_fn *done;
	void *arg;
};

/* *d is set before `done` is called. */
void tunnel_client_dial_start(
	struct tunnel_client_dial **d, const struct tunnel_client_dial_setup *setup);
/* The same over a connection that is open already; fd: taken. */
void tunnel_client_dial_over(
	struct tunnel_client_dial **d, const struct tunnel_client_dial_setup *setup, int fd);
/* Ends an unfinished attempt without calling `done`. */
void tunnel_client_dial_free(struct tunnel_client_dial **d);
/* In `done`: did the hub ask to come later? */
bool tunnel_client_dial_busy(const struct tunnel_client_dial *d);
/* True once the hub is reached and the TLS handshake is running. */
bool tunnel_client_dial_shakes(const struct tunnel_client_dial *d);

#endif
