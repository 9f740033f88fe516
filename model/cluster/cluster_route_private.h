/*
 * Shared by cluster_route.c (which routes count at which ports of a Service) and
 * cluster_route_table.c (their rules and tables, within the limits of a view).
 */
#ifndef EDGEWAY_MODEL_CLUSTER_CLUSTER_ROUTE_PRIVATE_H
#define EDGEWAY_MODEL_CLUSTER_CLUSTER_ROUTE_PRIVATE_H

#include "model/cluster/cluster_private.h"

/* A route at the Service. */
struct attached {
	const struct record *record;
	struct route_ports ports; /* where it counts */
	size_t scope; /* index of its first one's entry: the same for one namespace */
	enum route_verdict verdict;
	bool partly;
	uint32_t n_rules, first_rule;
};

/* Ports at which the same routes count make one table. */
struct group {
	size_t scope, port; /* port: the first one */
	bool grpc;
	uint16_t n_ports;
	uint16_t ports[MESH_PORTS_MAX];
};

/* What routes need in a view. */
struct need {
	size_t bytes, values;
	uint32_t matches, regexes;
};

struct attaching {
	const struct cluster *c;
	const char *ns;
	const struct kube_service *service;
	struct attached *routes; /* producer's first, then by namespace; the older first */
	size_t n_routes;
	struct group *groups;
	size_t n_groups;
	struct http_routes *to;
	struct need left; /* what may still be used */
};

/* Builds a->to for the view; routes beyond a limit get their verdict. */
void cluster_route_build(struct attaching *a, const struct view *v);

#endif
