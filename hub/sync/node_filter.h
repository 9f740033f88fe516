/*
 * Selects the services for one node: those without a node selector, and those whose selector
 * matches the node's labels; restricted services (not every client may connect) only if the agent
 * enforces that. Pods by their address go to the nodes that have asked for them, and to the pod's
 * own node, whose agent judges what other nodes' agents ask it for by its snapshot. Part of
 * hub/sync/node_session; pure.
 */
#ifndef EDGEWAY_HUB_SYNC_NODE_FILTER_H
#define EDGEWAY_HUB_SYNC_NODE_FILTER_H

#include "hub/sync/fanout.h"

struct node_filter {
	struct kube_labels labels; /* of the node */
	/* its agent enforces the restrictions: else it does not get restricted services */
	bool enforces;
	const char *node; /* its name, borrowed; these three are not node_filter_init's */
	struct fanout_item **pods; /* by pointer; each is held */
	uint32_t n_pods;
};

void node_filter_init(struct node_filter *s, const struct kube_labels *labels, bool enforces);
void node_filter_fini(struct node_filter *s);
/* _has: whether the node should hold the item as it is now; _had: whether it should have before the
 * change that is being reported. */
bool node_filter_has(const struct node_filter *s, const struct fanout_item *item);
bool node_filter_had(const struct node_filter *s, const struct fanout_item *item);
/* The node asks for this pod. False: it has asked for too many. */
bool node_filter_want(struct node_filter *s, struct fanout *f, struct fanout_item *item);
/* The pod is gone, or the node gives it back. False: it had not asked for it. */
bool node_filter_unwant(struct node_filter *s, struct fanout *f, struct fanout_item *item);
void node_filter_unwant_all(struct node_filter *s, struct fanout *f);
/* The digests of the items that it should hold. */
void node_filter_digests(const struct node_filter *s, const struct fanout *f, struct digests *d);

#endif
