/*
 * Egress of nodes: streams that nodes open at the hub to endpoints of services that they cannot
 * dial themselves (another site, a pod without a port on its host, the cloud). Each stream is
 * checked (hub/port/acl.h; the service must have the endpoint), connected like a caller's request
 * (hub/routing/connector.h) and joined with the result. One node may have at most an eighth of all
 * connections, and counts as a caller with a caller's limits (hub/port/quota.h). On the hub's loop.
 *
 *	tunnels_new(&(struct tunnels_setup){.opened = egress_opened, .opened_arg = outward, ...});
 */
#ifndef EDGEWAY_HUB_INGRESS_EGRESS_H
#define EDGEWAY_HUB_INGRESS_EGRESS_H

#include "hub/port/grant.h"
#include "hub/routing/connector.h"

struct egress;

struct egress *egress_new(const struct grants *grants);
/* Resets what is open. */
void egress_free(struct egress **o);
/* All requests are refused before this call. It outlives the egress. */
void egress_use(struct egress *o, struct connector *reach);
/* Cuts streams that the present rules would not open; returns how many. */
unsigned egress_recheck(struct egress *o);
/* request: :authority is the endpoint, with the fields edgeway-service and edgeway-node. */
unsigned egress_opened(void *outward, const char *node, struct stream *st,
	const struct stream_request *request, const char **reason);
void egress_metrics(const struct egress *o, struct metrics *m);

#endif
