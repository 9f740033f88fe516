/*
 * What nodes ask the hub for: endpoints of services that they cannot dial themselves (another site,
 * a pod without a port on its host, the cloud). Each stream is judged (hub/port/access.h, the
 * service must have the endpoint), reached like a caller's (hub/routing/reach.h) and joined with
 * what is reached. A node has an eighth of all connections at most, and counts as a caller with the
 * limits of one (hub/port/quota.h). On the hub's loop.
 *
 *	tunnels_new(&(struct tunnels_setup){.opened = outward_opened, .opened_arg = outward, ...});
 */
#ifndef EDGEWAY_HUB_INGRESS_OUTWARD_H
#define EDGEWAY_HUB_INGRESS_OUTWARD_H

#include "hub/port/quota.h"
#include "hub/routing/reach.h"

struct outward;

struct outward *outward_new(struct loop *loop);
/* Resets what is open. */
void outward_free(struct outward **o);
/* Nothing can be asked for before. All three outlive the outward. */
void outward_use(
	struct outward *o, struct reach *reach, const struct access *access, struct quota *quota);
/* Cuts what the rules, as they are now, would not open; how many. */
unsigned outward_recheck(struct outward *o);
/* request: :authority the endpoint, fields edgeway-service and edgeway-node. */
unsigned outward_opened(void *outward, const char *node, struct stream *st,
	const struct stream_request *request, const char **reason);
void outward_metrics(const struct outward *o, struct metrics *m);

#endif
