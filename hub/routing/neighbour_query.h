/*
 * Queries nodes for the networks that they reach: opens a stream through the node's tunnel, on
 * which the node announces them and gets the hub's verdict on each (tunnel/node/reachability.h,
 * doc/protocol.md "Neighbours"). A node that has something to announce requests the query. A node
 * that does not answer in time is queried again. On the hub's loop.
 *
 *	neighbour_query_news(q, "edge-1", TUNNEL_ASKS);
 */
#ifndef EDGEWAY_HUB_ROUTING_NEIGHBOUR_QUERY_H
#define EDGEWAY_HUB_ROUTING_NEIGHBOUR_QUERY_H

#include "base/os/addresses.h"
#include "hub/port/acl.h"
#include "hub/replicas/tunnels.h"
#include "hub/routing/neighbours.h"

enum { NEIGHBOUR_QUERY_MS = 5000, NEIGHBOUR_QUERY_PAUSE_MS = 1000, NEIGHBOUR_QUERY_LOOK_MS = 2000 };

struct neighbour_queries;

/* all of these outlive it, except the tunnels: free them first, they report their end to it */
struct inquiries_config {
	struct loop *loop;
	/* of the hub's own machine: the hub itself dials addresses in their networks */
	struct addresses *addresses;
	const struct cluster *cluster;
	const struct acl *access;
	struct tunnels *tunnels;
	bool sites_only; /* as in neighbours_config */
	bool (*tunnelled)(void *arg, const char *node); /* here or at another replica */
	void (*changed)(void *arg, const char *node); /* as in neighbours_config; may be NULL */
	void *arg;
};

struct neighbour_queries *inquiries_new(const struct inquiries_config *config);
/* The announced neighbours; owned by the inquiries. */
struct neighbours *inquiries_neighbours(const struct neighbour_queries *q);
void inquiries_free(struct neighbour_queries **q);
/* As `news` of tunnels_setup. */
void neighbour_query_news(struct neighbour_queries *q, const char *node, enum tunnel_news news);

#endif
