/*
 * Gives a site to nodes behind NAT: nodes without a site (label edgeway.io/site, else
 * topology.kubernetes.io/zone) that connect from another address than their own. That source
 * address becomes their site, since the private addresses behind it mean nothing elsewhere. It is
 * written to the Node, as annotation edgeway.io/source-address, so that all replicas, a hub that
 * restarts and kubectl see the same; model/kube reads it back. A node that connects from its own
 * address, or that was given a site, loses the annotation. If this is off, the hub only reports
 * which nodes these are. On the hub's loop.
 *
 *	// for each connected node, again and again
 *	node_sites_saw(s, "edge-1", "203.0.113.9:40222");
 */
#ifndef EDGEWAY_HUB_SYNC_NODE_SITES_H
#define EDGEWAY_HUB_SYNC_NODE_SITES_H

#include "base/core/metric.h"
#include "hub/kube/kube_api.h"
#include "model/cluster/cluster.h"

enum { NODE_SITES_WAITING_MAX = 4096 };

struct node_sites;

struct node_sites_config {
	struct loop *loop;
	struct kube_api *api;
	const struct cluster *cluster;
	bool note; /* may Nodes be written? */
};

struct node_sites *node_sites_start(const struct node_sites_config *config);
void node_sites_stop(struct node_sites **s);
/* address: with its port. */
void node_sites_saw(struct node_sites *s, const char *node, const char *address);
/* {"noted","waiting","problem"} */
void node_sites_state(const struct node_sites *s, struct buf *out);

#endif
