/*
 * May the client of a connection call its service (edgeway.io/allow-from, NetworkPolicies)? Who it
 * is its address tells, by the pods of this node in the snapshot. Asked before anything goes
 * towards an endpoint: at the begin of each request, of each relay, and for relays that are open
 * whenever the snapshot is another. Its worker's loop. A service that everybody may call costs one
 * branch.
 */
#ifndef EDGEWAY_LB_PERMIT_H
#define EDGEWAY_LB_PERMIT_H

#include "lb/private.h"

enum { PERMIT_REASON_MAX = 512 };

/* Brings the front's group up to the snapshot; where some endpoints are closed to this client, the
 * front gets the group of the others. False: it may call none. */
bool permit_check(struct front *f);
/* It may not: counts it, tells the log, and says why in one line. */
void permit_refused(struct front *f, char reason[PERMIT_REASON_MAX]);
/* The snapshot is another one: ends relays whose client may not call their endpoint any more. */
void permit_recheck(struct worker *w);

#endif
