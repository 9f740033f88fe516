/*
 * Findings from a hub's state about its Services and nodes, for status and doctor: ordered by
 * class. Similar ones are combined into one finding that names a few and counts the rest, so that
 * thousands of one kind do not hide another.
 */
#ifndef EDGEWAY_SRC_CTL_CTL_HUB_FINDINGS_H
#define EDGEWAY_SRC_CTL_CTL_HUB_FINDINGS_H

#include "src/ctl/ctl_findings.h"

/* hub: that member of its state. Faults and warnings come first; if there are none, one finding
 * says that all is well. */
void hub_findings_services(struct findings *f, const struct tree_node *hub);
void hub_findings_nodes(struct findings *f, const struct tree_node *hub);
/* Number of Services with pods that are reached only through the hub. */
unsigned hub_findings_through_hub(const struct tree_node *services);
/* "3 connected: 1 here, 2 at hub-b; 1 away" */
void hub_findings_add_nodes(struct buf *out, const struct tree_node *nodes);

#endif
