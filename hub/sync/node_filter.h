/*
 * What one node is to know of: services without a selector of nodes, and those whose selector takes
 * the node's labels; those that not everybody may call only where the agent enforces that. Part of
 * hub/sync/node_session; pure.
 */
#ifndef EDGEWAY_HUB_SYNC_NODE_FILTER_H
#define EDGEWAY_HUB_SYNC_NODE_FILTER_H

#include "hub/sync/fanout.h"

struct node_filter {
	struct kube_labels labels; /* of the node */
	/* its agent keeps out who may not call: else it is not told of restricted services */
	bool enforces;
};

void node_filter_init(struct node_filter *s, const struct kube_labels *labels, bool enforces);
void node_filter_fini(struct node_filter *s);
/* Is the node to hold the item as it is now? Was it, before the change that is being told? */
bool node_filter_has(const struct node_filter *s, const struct fanout_item *item);
bool node_filter_had(const struct node_filter *s, const struct fanout_item *item);
/* Of what it is to hold. */
void node_filter_digests(const struct node_filter *s, const struct fanout *f, struct digests *d);

#endif
