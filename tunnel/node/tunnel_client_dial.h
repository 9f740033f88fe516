/*
 * One attempt to reach the hub: by TCP, through a proxy or inside of a websocket, and then the TLS
 * handshake. Part of tunnel/node/tunnel_client; on the loop's thread. `done` comes once, perhaps
 * from within tunnel_client_dial_start; the attempt may be freed in it.
 *
 *	tunnel_client_dial_start(&d, &(struct tunnel_client_dial_setup){.loop = loop, .hub = hub, .alpn = alpn, .done = on_dialled, .arg = me});
 */
#ifndef EDGEWAY_TUNNEL_NODE_TUNNEL_CLIENT_DIAL_H
#define EDGEWAY_TUNNEL_NODE_TUNNEL_CLIENT_DIAL_H

#include "tunnel/node/tunnel_client.h"

struct tunnel_client_dial;

/* tls: open, taken; NULL: it failed, and why; unanswered: because nobody was there, not because of
 * what he said. */
typedef void tunnel_client_dial_fn(
	void *arg, struct tls_stream *tls, bool unanswered, const char *why);

struct tunnel_client_dial_setup {
	struct loop *loop;
	/* good until the attempt is freed; its host and TLS count when hands are shaken */
	const struct tunnel_client_hub *hub;
	struct ws_tunnels *carriers; /* NULL: no websocket */
	uint32_t mark; /* SO_MARK */
	const char *alpn; /* static */
	tunnel_client_dial_fn *done;
	void *arg;
};

/* *d is there before anything is told. */
void tunnel_client_dial_start(
	struct tunnel_client_dial **d, const struct tunnel_client_dial_setup *setup);
/* Without a word, when it is not done. */
void tunnel_client_dial_free(struct tunnel_client_dial **d);
/* Is the hub reached, so that it is at the handshake? */
bool tunnel_client_dial_shakes(const struct tunnel_client_dial *d);

#endif
