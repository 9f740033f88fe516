/*
 * Active health checks, for services that request them (edgeway.io/health-path): GET path with
 * Host: the service's name, and Connection: close; 2xx and 3xx within HEALTH_TIMEOUT_MS are good.
 * HEALTH_FALL bad checks in a row take an endpoint out on all workers, HEALTH_RISE good ones bring
 * it back. Only the first worker checks, and only endpoints of services that some worker used
 * within the last minute. The result is in struct shared and applies to this service alone. Checks
 * end with the service or its annotation (targets_follow). When all endpoints of a service fail,
 * all are used (balance.h).
 */
#ifndef EDGEWAY_LB_PROXY_HEALTH_H
#define EDGEWAY_LB_PROXY_HEALTH_H

#include "lb/proxy/worker.h"

enum {
	HEALTH_TIMEOUT_MS = 1000,
	HEALTH_FALL = 3,
	HEALTH_RISE = 2,
};

/* At every tick. Returns when to call it again: the first worker makes the checks, the others wake
 * it when there is a new one. */
uint64_t health_tick(struct worker *w);
/* Before the worker ends. */
void health_stop(struct worker *w);

#endif
