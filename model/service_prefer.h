/*
 * Which endpoints of a port this node prefers: by the hints of their slices (topology-aware
 * routing) where kube-proxy would follow them, else by the Service's trafficDistribution. Pure;
 * part of service_build.
 *
 *	prefer = service_prefer_of(view, port, self);
 *	tier = service_prefer_tier(&prefer, &port->endpoints[i], self);
 */
#ifndef EDGEWAY_MODEL_SERVICE_PREFER_H
#define EDGEWAY_MODEL_SERVICE_PREFER_H

#include "model/view.h"

struct service_prefer {
	bool node_hints, zone_hints; /* kube-proxy would follow them */
	bool own_node, own_zone; /* the service requests it */
};

struct service_prefer service_prefer_of(
	const struct view *v, const struct view_port *p, const struct self *self);
/* Hints decide where they apply, else the service's settings. The other endpoints are kept in a
 * higher tier: the preferred ones may all be dead, or unreachable from here. */
enum endpoint_tier service_prefer_tier(
	const struct service_prefer *p, const struct view_endpoint *from, const struct self *self);

#endif
