/*
 * A TLS bridge (hub/ingress/tls_bridge.h) on a worker loop: handshake and records of a caller, or
 * of a target, take no time of the loop that carries the tunnels, which has the plain descriptor at
 * the other end of a socket pair. What breaks is told as such, whatever the pair shows. Everything
 * here is called on the owner's loop, and so are the callbacks; a bridge that is on its way to its
 * end after bridge_worker_free calls none.
 *
 * Without workers the bridge is on the owner's loop.
 *
 *	setup = (struct bridge_worker_setup){.loop = loop, .workers = workers, .other = pair[1], .from = &peer,
 *		.bridge = {.fd = fd, .plain = pair[0], .ctx = ctx, .opened = on_opened, .ended = on_ended, .arg = me}};
 *	rc = bridge_worker_new(&setup, &bridge, &err);
 */
#ifndef EDGEWAY_HUB_INGRESS_BRIDGE_WORKER_H
#define EDGEWAY_HUB_INGRESS_BRIDGE_WORKER_H

#include "base/tls/tls_workers.h"
#include "hub/ingress/tls_bridge.h"

struct bridge_worker;

struct bridge_worker_setup {
	struct loop *loop; /* the owner's */
	struct tls_workers *workers; /* NULL: there are none */
	const struct bridge_worker *beside; /* on the same worker as this one; NULL: any */
	/* the owner's end of the socket pair, borrowed: its end is a shutdown; closing it says
	 * nothing before bridge_worker_leave or bridge_worker_unhold */
	int other;
	/* the client whose handshake steps are rationed; NULL: this end is the client */
	const struct addr *from;
	/* `loop` is set here; `place` is the owner's slot on its loop, until the handshake is over,
	 * or NULL. The owner may free the context once bridge_worker_new returns. */
	struct tls_bridge_setup bridge;
};

/* Both descriptors are taken, also on failure. */
int bridge_worker_new(
	const struct bridge_worker_setup *setup, struct bridge_worker **out, struct err *err);
/* The owner has closed `other`, or is about to, and that is no break. */
void bridge_worker_unhold(struct bridge_worker *b);
/* As tls_bridge_leave (with that), tls_bridge_cut and tls_bridge_free. */
void bridge_worker_leave(struct bridge_worker *b);
void bridge_worker_cut(struct bridge_worker *b);
void bridge_worker_free(struct bridge_worker **b);

#endif
