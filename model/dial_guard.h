/*
 * Which addresses a node may be led to by an endpoint. Whoever may write a Pod, an EndpointSlice or
 * a Node, and the hub itself, says addresses; the agent dials them with its own rights, from its
 * own place in the network. So an endpoint is refused where its address is special
 * (base/core/special_addr: loopback, link-local, a cloud's metadata, unspecified, multicast,
 * reserved) or one of this machine's own, unless `lb.allow` names it. At an own address a
 * hostNetwork pod of this very node is what it says it is.
 *
 * It is asked where an endpoint's address comes to this node, and again where it is dialled:
 *   service_build()   when a view is adopted. What it refuses is in no snapshot, and so not in what is made of one: clusters of the
 *                     workers, health checks, the kernel's maps, UDP relays, targets of the tunnel's end here (tunnel/node/dial_target).
 *   worker_dial()     at each dial of a worker, against the list of the moment: an address may have become one of our own since. Spans
 *                     that go to a collector in the cluster ask as well (src/agent/agent_tracing).
 * When this machine's addresses change, the services that this concerns are built anew
 * (meta/state/apply).
 *
 * Immutable and reference-counted, for any thread. No system call, no lock, no allocation in a
 * check.
 *
 *	rc = dial_guard_new(o->lb_allow, &guard, &err);
 *	next = dial_guard_with(guard, addresses_list(a));
 *	if (dial_guard_check(guard, &ip, false) != SPECIAL_NONE)	// refused
 */
#ifndef EDGEWAY_MODEL_DIAL_GUARD_H
#define EDGEWAY_MODEL_DIAL_GUARD_H

#include "base/core/address_list.h"
#include "base/core/err.h"
#include "base/core/special_addr.h"

enum { DIAL_GUARD_ALLOWED_MAX = 256 };

struct dial_guard;

/* allowed: of `lb.allow`, ADDRESS or ADDRESS/BITS, ended by NULL. -EINVAL names the one that cannot
 * be read. */
int dial_guard_new(const char *const *allowed, struct dial_guard **out, struct err *err);
/* The same exceptions with another list of own addresses, which it references. */
struct dial_guard *dial_guard_with(const struct dial_guard *g, const struct address_list *own);
struct dial_guard *dial_guard_ref(const struct dial_guard *g);
void dial_guard_unref(struct dial_guard **g);
/* NULL: none yet. */
const struct address_list *dial_guard_own(const struct dial_guard *g);
/* SPECIAL_NONE: it may be dialled; else what it is. host_network: a hostNetwork pod of this node
 * stands behind it. g NULL: there are no exceptions, and no address is known to be our own. */
enum special_addr dial_guard_check(
	const struct dial_guard *g, const struct in6_addr *ip, bool host_network);

#endif
