/*
 * May the client of a connection call its service (edgeway.io/allow-from, NetworkPolicies)? The
 * client is identified by its address, using the pods of this node in the snapshot. Checked before
 * anything is sent towards an endpoint: at the start of each request and of each relay, and for
 * open relays whenever the snapshot changes. On its worker's loop. A service that everybody may
 * call costs one branch.
 */
#ifndef EDGEWAY_LB_PROXY_PERMIT_H
#define EDGEWAY_LB_PROXY_PERMIT_H

#include "lb/proxy/worker.h"

enum { PERMIT_REASON_MAX = 512 };

/* Brings the client's group up to the snapshot; if some endpoints are closed to this client, the
 * client gets the group of the others. Returns false if the client may call none. */
bool permit_check(struct downstream *f);
/* May it call this Service, to which a route leads? *closed: as for service_permits(). */
bool permit_backend(const struct downstream *f, const struct service *s, uint64_t *closed);
/* The client may not call it: counts and logs that, and gives the reason in one line. */
void permit_refused(const struct downstream *f, const struct service *s, uint16_t port,
	char reason[PERMIT_REASON_MAX]);
/* The snapshot has changed: ends relays and requests whose client may not call their endpoint any
 * more; what waits for an endpoint, and what is tried again, goes to those that it may call. */
void permit_recheck(struct worker *w);

#endif
