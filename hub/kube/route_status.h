/*
 * Writes the status of HTTPRoutes, GRPCRoutes and BackendTLSPolicies, and the addresses in that of
 * Services with our loadBalancerClass, to the API server: that of this controller alone, only when
 * it has changed, and only by the replica that holds the Lease edgeway-hub-gateway. The entries of
 * other controllers stay as they were read; somebody else's change meanwhile ends a write with 409,
 * and the watch then tells what to compare with.
 *
 * On the hub's loop. The owner tells every route whose status may have changed:
 *
 *	s = route_status_new(&config);
 *	while (cluster_next_route(cluster, &route)) {
 *		route_status_tell(s, &route);
 *		cluster_route_fini(&route);
 *	}
 */
#ifndef EDGEWAY_HUB_KUBE_ROUTE_STATUS_H
#define EDGEWAY_HUB_KUBE_ROUTE_STATUS_H

#include "base/core/metric.h"
#include "hub/kube/kube_api.h"
#include "model/cluster/cluster.h"

#define ROUTE_STATUS_LEASE "edgeway-hub-gateway"
#define ROUTE_STATUS_RIGHTS "deploy/kubernetes/rbac-gateway.yaml"

struct route_status;

struct route_status_config {
	struct loop *loop;
	struct kube_api *api;
	const char *ns; /* of the Lease */
};

struct route_status *route_status_new(const struct route_status_config *config);
void route_status_free(struct route_status **s);
void route_status_tell(struct route_status *s, const struct cluster_route *route);
/* Is this replica the one that writes? It asks for the Lease. */
bool route_status_leads(struct route_status *s);
/* The Service's status is to have these addresses ("192.0.2.1,192.0.2.2", "" none); or it has what
 * it is to have. */
void route_status_tell_gateway(
	struct route_status *s, const char *ns, const char *name, const char *addresses);
void route_status_drop_gateway(struct route_status *s, const char *ns, const char *name);
/* Why statuses cannot be written, with the remedy; "": they can. */
const char *route_status_problem(const struct route_status *s);
/* {"waiting","writes","conflicts","lease":{..},"problem"} */
void route_status_state(const struct route_status *s, struct buf *out);

#endif
