/*
 * Keeps the hub from dialling itself. A caller that makes the hub dial one of its own listeners
 * would be judged there by the hub's address instead of its own; the same holds at another replica.
 * Other programs on the hub's host may trust that host, too.
 *
 * Addresses of the hub are those of all interfaces of its machine, loopback, the addresses in
 * tls.names, and those of its own Service in Kubernetes (a load balancer or NAT in front of it).
 * The hub dials none of them, except for a caller to whom a rule opens cloud/ADDRESS:PORTS with
 * exactly this address and with ports (a kubelet on the hub's host), and never a port at which the
 * hub listens. Of other replicas, whose host may be an ordinary node, only these ports are closed:
 * replicas are configured alike.
 *
 * A NAT that the configuration does not mention may still lead a dial back here. So each dial is
 * recorded with its source address, and is recognized when it arrives (hub/port/caller.h). On the
 * hub's loop.
 *
 *	if ((why = self_guard_refuses(guard, &to, &caller)) != NULL)	// 403, why
 */
#ifndef EDGEWAY_HUB_PORT_SELF_GUARD_H
#define EDGEWAY_HUB_PORT_SELF_GUARD_H

#include <sys/queue.h>

#include "base/core/buf.h"
#include "base/core/metric.h"
#include "base/os/addresses.h"
#include "hub/port/acl.h"

enum { SELF_GUARD_PORTS = 65536 };

struct self_guard;

struct self_guard_config {
	struct addresses *addresses; /* these two outlive it */
	const struct acl *access;
	/* True if tls.names or the hub's own Service has this address. */
	bool (*named)(void *arg, const struct in6_addr *ip);
	/* True if another replica has this address. */
	bool (*replica)(void *arg, const struct in6_addr *ip);
	void *arg;
};

struct self_guard *self_guard_new(const struct self_guard_config *config);
void self_guard_free(struct self_guard **g);
/* Records that the hub listens there. */
void self_guard_listens(struct self_guard *g, const struct addr *listen);
bool self_guard_is_listener(const struct self_guard *g, uint16_t port);
/* True for an address of an interface of this machine. */
bool self_guard_on_host(struct self_guard *g, const struct in6_addr *ip);
/* The same, or an address by which the hub is known, or one of another replica. */
bool self_guard_is_hub(struct self_guard *g, const struct in6_addr *ip);
/* Why the hub does not dial this for the caller (static text); NULL: it does. caller NULL: would it
 * for any caller? Counted. */
const char *self_guard_refuses(
	struct self_guard *g, const struct addr *to, const struct caller *caller);

/* A connection or flow that the hub has dialled, until self_guard_ended; the owner's memory, zero
 * at first. */
struct self_dial {
	LIST_ENTRY(self_dial) link;
	struct addr from;
	bool noted;
};
void self_guard_begun(struct self_guard *g, struct self_dial *dial, const struct addr *from);
void self_guard_ended(struct self_dial *dial);
/* True if this address and port belong to one of those dials. Counted. */
bool self_guard_dialled(struct self_guard *g, const struct addr *from);

void self_guard_metrics(const struct self_guard *g, struct metrics *m);
/* {"refused","cameBack","last"} */
void self_guard_state(const struct self_guard *g, struct buf *out);

#endif
