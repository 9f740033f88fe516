/*
 * By which addresses callers reach nodes by their names: a DNS zone that the hub serves
 * (dns/front/zone_server.h), and the hosts ConfigMap (hub/names/hosts_map.h). The name of a node at
 * the edge means the ingress, by `addresses`; that of any other node means its own address. Until
 * the hub knows which are which it says nothing: SERVFAIL, and no write. On the hub's loop.
 *
 *	rc = naming_start(&n, &config, &err);	// NULL in *n where neither is configured
 *	naming_state(n, &out);
 *
 * A change of nodes is in the zone at once; the ConfigMap is looked at every NAMING_TICK_MS.
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
	/* Is it known which nodes there are, and which are at the edge? */
	bool (*known)(void *arg);
	/* Is this one, or does the hub reach it through others? Asked once `known`. */
	bool (*at_edge)(void *arg, const char *node);
	/* Has a node of this name a tunnel, here or at another replica? */
	bool (*is_heard_of)(void *arg, const char *node);
	/* The nodes that have joined, as certs_nodes has them, and how often these may have
	 * changed. */
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
