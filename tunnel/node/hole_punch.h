/*
 * One attempt to connect to another node across the NATs of both by a TCP simultaneous open (RFC
 * 9293 section 3.5; RFC 5128 section 3.4). It comes to the hub from a local port (hub/replicas/
 * rendezvous), learns by which address and port the hub sees the other node, and when to begin;
 * then it connects to that, and accepts, at the same local port. NATs that keep the port for all
 * destinations (RFC 4787 section 4.1) let that through; others do not, and the attempt fails. The
 * bytes that follow are the caller's affair: whoever answered has proven nothing yet.
 *
 *   ASKING ─go─► WAITING ─its delay─► CONNECTING ◄─► PAUSING
 *
 * On the loop's thread. `done` comes once, never from within hole_punch_start; the callback may
 * free the attempt.
 *
 *	hole_punch_start(&p, &(struct hole_punch_setup){.loop = loop, .hub = &hub, .node = "edge-2", .done = on_punched, .arg = me});
 */
#ifndef EDGEWAY_TUNNEL_NODE_HOLE_PUNCH_H
#define EDGEWAY_TUNNEL_NODE_HOLE_PUNCH_H

#include "tunnel/node/tunnel_client.h"

struct hole_punch;

enum {
	HOLE_PUNCH_HUB_MS = 9000, /* for the hub's word; more than the hub's own deadline */
	HOLE_PUNCH_OPEN_MS = 3000, /* for the connection, from its begin */
	HOLE_PUNCH_MOST = 16, /* connects in that time */
};

/* fd: connected, taken; -1: it has failed, and `why` says why. `to` is the other's address, without
 * one where none is known. */
typedef void hole_punch_fn(void *arg, int fd, const struct addr *to, const char *why);

struct hole_punch_setup {
	struct loop *loop;
	/* no proxy, no websocket; copied, but for `host` */
	const struct tunnel_client_hub *hub;
	uint32_t mark; /* SO_MARK */
	const char *node; /* to be met; NULL: the node was invited by `id` */
	const char *id; /* RENDEZVOUS_ID */
	hole_punch_fn *done;
	void *arg;
};

void hole_punch_start(struct hole_punch **p, const struct hole_punch_setup *setup);
/* Ends an unfinished attempt without calling `done`. */
void hole_punch_free(struct hole_punch **p);

#endif
