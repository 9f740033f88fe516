/*
 * The status of an HTTPRoute or GRPCRoute as the API server is to have it: an entry for each
 * Service among its parents, with the conditions Accepted, ResolvedRefs and, where it is true,
 * PartiallyInvalid. Pure.
 *
 *	if (route_conditions_build(&out, &route, now_s))
 *		...	// out: status.parents, with the other controllers' entries
 */
#ifndef EDGEWAY_HUB_KUBE_ROUTE_CONDITIONS_H
#define EDGEWAY_HUB_KUBE_ROUTE_CONDITIONS_H

#include "base/core/buf.h"
#include "model/cluster/cluster.h"

enum { ROUTE_CONDITION_MESSAGE_MAX = 32768 }; /* of the API */

/* Appends the list status.parents. Returns false when the route has exactly this status already. A
 * condition whose status stays keeps its lastTransitionTime; now_s: the others'. */
bool route_conditions_build(struct buf *out, const struct cluster_route *r, int64_t now_s);

#endif
