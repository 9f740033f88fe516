/*
 * Decides which endpoint addresses a node may dial. Anyone who may write a Pod, an EndpointSlice or
 * a Node, and the hub itself, can name addresses; the agent dials them with its own privileges,
 * from its own position in the network. So an endpoint is refused if its address is special
 * (base/core/special_addr: loopback, link-local, a cloud's metadata, unspecified, multicast,
 * reserved) or one of this machine's own, unless `lb.allow` names it. An own address is accepted
 * for a hostNetwork pod of this node.
 *
 * The check runs when an endpoint's address comes to this node, and again when it is dialled:
 *   service_build()   when a view is adopted. What it refuses is in no snapshot, and so not in what
 *                     is made of one: clusters of the workers, health checks, the kernel's maps,
 *                     UDP relays, targets of served streams (tunnel/node/dial_target).
 *   worker_dial()     at each dial of a worker, against the current list: an address may have
 *                     become one of our own since. Spans sent to a collector in the cluster are
 *                     checked as well (src/agent/agent_tracing).
 * When this machine's addresses change, the affected services are rebuilt (meta/state/apply).
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

/* allowed: the entries of `lb.allow`, ADDRESS or ADDRESS/BITS, ended by NULL. -EINVAL: err names
 * the invalid entry. */
int dial_guard_new(const char *const *allowed, struct dial_guard **out, struct err *err);
/* The same exceptions with another list of own addresses, which it references. */
struct dial_guard *dial_guard_with(const struct dial_guard *g, const struct address_list *own);
struct dial_guard *dial_guard_ref(const struct dial_guard *g);
void dial_guard_unref(struct dial_guard **g);
/* NULL: none yet. */
const struct address_list *dial_guard_own(const struct dial_guard *g);
/* SPECIAL_NONE: it may be dialled; else the class that forbids it. host_network: the endpoint is a
 * hostNetwork pod of this node. g NULL: no exceptions, and no known own addresses. */
enum special_addr dial_guard_check(
	const struct dial_guard *g, const struct in6_addr *ip, bool host_network);

#endif
