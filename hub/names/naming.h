/*
 * The addresses under which clients reach nodes by name: a DNS zone that the hub serves
 * (dns/front/zone_server.h), and the hosts ConfigMap (hub/names/hosts_map.h). The name of an edge
 * node resolves to the ingress, by `addresses`; that of any other node to its own address. Until
 * the hub knows which nodes are at the edge it answers SERVFAIL and writes nothing. On the hub's
 * loop.
 *
 *	rc = naming_start(&n, &config, &err);	// NULL in *n where neither is configured
 *	naming_state(n, &out);
 *
 * A change of nodes is in the zone at once; the ConfigMap is compared every NAMING_TICK_MS.
 */
#ifndef EDGEWAY_HUB_NAMES_NAMING_H
#define EDGEWAY_HUB_NAMES_NAMING_H

#include "base/core/metric.h"
#include "hub/hub.h"
#include "hub/kube/kube_api.h"
#include "model/cluster/cluster.h"

enum { NAMING_TICK_MS = 500, NAMING_BOOK_MS = 100 };

struct naming;

struct naming_config {
	struct loop *loop;
	const struct cluster *cluster;
	struct kube_api *api; /* NULL: no ConfigMap */
	const struct hub_ways_in *ways_in;
	/* Returns true once it is known which nodes there are, and which are at the edge. */
	bool (*known)(void *arg);
	/* Returns true if the node is at the edge, or the hub reaches it through others. Called
	 * once `known`. */
	bool (*at_edge)(void *arg, const char *node);
	/* Returns true if a node of this name has a tunnel, here or at another replica. */
	bool (*is_heard_of)(void *arg, const char *node);
	/* The nodes that have joined, as certs_nodes returns them, and a counter of their
	 * changes. */
	size_t (*joined)(void *arg, char ***names);
	uint64_t (*joined_changes)(void *arg);
	void *arg;
};

int naming_start(struct naming **n, const struct naming_config *config, struct err *err);
void naming_stop(struct naming **n);
void naming_metrics(const struct naming *n, struct metrics *m);
/* {"zone":{...},"hosts":{...},"addresses":[],"problem"} */
void naming_state(const struct naming *n, struct buf *out);

#endif
