/*
 * What one node is to know of: services without a selector of nodes, and those whose selector takes
 * the node's labels; those that not everybody may call only where the agent enforces that. Part of
 * hub/sync/talk; pure.
 */
#ifndef EDGEWAY_HUB_SYNC_SIGHT_H
#define EDGEWAY_HUB_SYNC_SIGHT_H

#include "hub/sync/fanout.h"

struct sight {
	struct kube_labels labels; /* of the node */
	/* its agent keeps out who may not call: else it is not told of restricted services */
	bool enforces;
};

void sight_init(struct sight *s, const struct kube_labels *labels, bool enforces);
void sight_fini(struct sight *s);
/* Is the node to hold the item as it is now? Was it, before the change that is being told? */
bool sight_has(const struct sight *s, const struct fanout_item *item);
bool sight_had(const struct sight *s, const struct fanout_item *item);
/* Of what it is to hold. */
void sight_digests(const struct sight *s, const struct fanout *f, struct digests *d);

#endif
