/*
 * The status of an HTTPRoute, GRPCRoute or BackendTLSPolicy as the API server is to have it: an
 * entry for each Service among its parents or targets, with the conditions Accepted, ResolvedRefs
 * and, where it is true, PartiallyInvalid. Pure.
 *
 *	if (route_conditions_build(&out, &route, now_s))
 *		...	// out: status.parents, with the other controllers' entries
 */
#ifndef EDGEWAY_HUB_KUBE_ROUTE_CONDITIONS_H
#define EDGEWAY_HUB_KUBE_ROUTE_CONDITIONS_H

#include "base/core/buf.h"
#include "model/cluster/cluster.h"

/* Of the API. */
enum { ROUTE_CONDITION_MESSAGE_MAX = 32768, POLICY_ANCESTORS_MAX = 16 };

/* Appends the list status.parents, of a BackendTLSPolicy status.ancestors. Returns false when the
 * route has exactly this status already. A condition whose status stays keeps its
 * lastTransitionTime; now_s: the others'. */
bool route_conditions_build(struct buf *out, const struct cluster_route *r, int64_t now_s);

#endif
