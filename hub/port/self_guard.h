/*
 * Keeps the hub from dialling itself. Whoever makes the hub dial one of its own listeners would be
 * judged there by the hub's address instead of his own, and so would he at another replica; what
 * listens on the hub's host beside the hub may trust that host, too.
 *
 * Addresses of the hub are those of all interfaces of its machine, loopback, the addresses in
 * tls.names and those of its own Service in Kubernetes (a load balancer or NAT in front of it). No
 * dial of the hub goes there, but for a caller to whom a rule opens cloud/ADDRESS:PORTS with this
 * one address and with ports (a kubelet on the hub's host), and never at a port at which the hub
 * listens. Of other replicas, whose host may be a node like others, only these ports are closed:
 * replicas are configured alike.
 *
 * A NAT that nobody has told of may lead a dial back here all the same: each dial is noted with the
 * address that it leaves from, so that it is known when it comes in (hub/port/caller.h). On the
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
	/* Is the hub known by this address, in tls.names or by its own Service? */
	bool (*named)(void *arg, const struct in6_addr *ip);
	/* Is another replica there? */
	bool (*replica)(void *arg, const struct in6_addr *ip);
	void *arg;
};

struct self_guard *self_guard_new(const struct self_guard_config *config);
void self_guard_free(struct self_guard **g);
/* The hub listens there. */
void self_guard_listens(struct self_guard *g, const struct addr *listen);
bool self_guard_is_listener(const struct self_guard *g, uint16_t port);
/* An address of an interface of this machine. */
bool self_guard_on_host(struct self_guard *g, const struct in6_addr *ip);
/* The same, or one that the hub is known by, or that of another replica. */
bool self_guard_is_hub(struct self_guard *g, const struct in6_addr *ip);
/* Why the hub does not dial this for the caller (static text); NULL: it does. caller NULL: would it
 * for anybody? Counts. */
const char *self_guard_refuses(
	struct self_guard *g, const struct addr *to, const struct caller *caller);

/* A connection or flow that the hub has begun, until self_guard_ended; the owner's memory, zero at
 * first. */
struct self_dial {
	LIST_ENTRY(self_dial) link;
	struct addr from;
	bool noted;
};
void self_guard_begun(struct self_guard *g, struct self_dial *dial, const struct addr *from);
void self_guard_ended(struct self_dial *dial);
/* Does this address and port belong to one of them? Counts. */
bool self_guard_dialled(struct self_guard *g, const struct addr *from);

void self_guard_metrics(const struct self_guard *g, struct metrics *m);
/* {"refused","cameBack","last"} */
void self_guard_state(const struct self_guard *g, struct buf *out);

#endif
