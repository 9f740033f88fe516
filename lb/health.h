/*
 * Active health checks, for services that ask for them (edgeway.io/health-path): GET path with
 * Host: the service's name, and Connection: close; 2xx and 3xx within HEALTH_TIMEOUT_MS are good.
 * HEALTH_FALL bad ones in a row take an endpoint out on all workers, HEALTH_RISE good ones bring it
 * back. Done by the first worker alone, for endpoints of services that some worker uses (within the
 * last minute); the verdict is in struct shared, and counts for this service alone. A check ends
 * with its service or annotation (targets_follow). When all endpoints of a service are ill, all are
 * used (balance.h).
 */
#ifndef EDGEWAY_LB_HEALTH_H
#define EDGEWAY_LB_HEALTH_H

#include "lb/private.h"

enum {
	HEALTH_TIMEOUT_MS = 1000,
	HEALTH_FALL = 3,
	HEALTH_RISE = 2,
};

/* At every tick of the first worker. */
void health_tick(struct worker *w);
/* Before it ends. */
void health_stop(struct worker *w);

#endif
