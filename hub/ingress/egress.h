/*
 * What nodes ask the hub for: endpoints of services that they cannot dial themselves (another site,
 * a pod without a port on its host, the cloud). Each stream is judged (hub/port/acl.h, the service
 * must have the endpoint), reached like a caller's (hub/routing/connector.h) and joined with what
 * is reached. A node has an eighth of all connections at most, and counts as a caller with the
 * limits of one (hub/port/quota.h). On the hub's loop.
 *
 *	tunnels_new(&(struct tunnels_setup){.opened = egress_opened, .opened_arg = outward, ...});
 */
#ifndef EDGEWAY_HUB_INGRESS_EGRESS_H
#define EDGEWAY_HUB_INGRESS_EGRESS_H

#include "hub/port/quota.h"
#include "hub/routing/connector.h"

struct egress;

struct egress *egress_new(struct loop *loop);
/* Resets what is open. */
void egress_free(struct egress **o);
/* Nothing can be asked for before. All three outlive the outward. */
void egress_use(
	struct egress *o, struct connector *reach, const struct acl *access, struct quota *quota);
/* Cuts what the rules, as they are now, would not open; how many. */
unsigned egress_recheck(struct egress *o);
/* request: :authority the endpoint, fields edgeway-service and edgeway-node. */
unsigned egress_opened(void *outward, const char *node, struct stream *st,
	const struct stream_request *request, const char **reason);
void egress_metrics(const struct egress *o, struct metrics *m);

#endif
