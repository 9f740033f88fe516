/*
 * One attempt to reach the hub: by TCP, through a proxy or inside of a websocket, and then the TLS
 * handshake. Part of tunnel/node/link; on the loop's thread. `done` comes once, perhaps from within
 * link_dial_start; the attempt may be freed in it.
 *
 *	link_dial_start(&d, &(struct link_dial_setup){.loop = loop, .hub = hub, .alpn = alpn, .done = on_dialled, .arg = me});
 */
#ifndef EDGEWAY_TUNNEL_NODE_LINK_DIAL_H
#define EDGEWAY_TUNNEL_NODE_LINK_DIAL_H

#include "tunnel/node/link.h"

struct link_dial;

/* tls: open, taken; NULL: it failed, and why; unanswered: because nobody was there, not because of
 * what he said. */
typedef void link_dial_fn(void *arg, struct tls_stream *tls, bool unanswered, const char *why);

struct link_dial_setup {
	struct loop *loop;
	/* good until the attempt is freed; its host and TLS count when hands are shaken */
	const struct link_hub *hub;
	struct carriers *carriers; /* NULL: no websocket */
	uint32_t mark; /* SO_MARK */
	const char *alpn; /* static */
	link_dial_fn *done;
	void *arg;
};

/* *d is there before anything is told. */
void link_dial_start(struct link_dial **d, const struct link_dial_setup *setup);
/* Without a word, when it is not done. */
void link_dial_free(struct link_dial **d);
/* Is the hub reached, so that it is at the handshake? */
bool link_dial_shakes(const struct link_dial *d);

#endif
