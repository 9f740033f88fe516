/*
 * Which nodes are reachable through a neighbour: the networks that nodes announce (tunnel.reach),
 * which announcements count, and which neighbour carries a node that has no tunnel. An announcement
 * is an unproven claim of one node: it counts only within the node's own site (where no Node names
 * a site, all are one site), never for a control plane's node, and it opens nothing: the access
 * rules for a node are the same through a neighbour. While a node has a tunnel of its own, no
 * neighbour carries it (hub/routing/connector.c asks here only after that). Addresses that the hub
 * itself dials (`ours`) are not reached through neighbours, unless named sites tell them apart. On
 * the hub's loop.
 *
 *	neighbours_declare(n, "edge-1", text, len, &answer);	// a line for each entry: ok, or why it does not count
 *	count = neighbours_find(n, &(struct neighbours_ask){.node = "edge-2", .port = 10250}, ways, 3, &why);
 *	neighbours_result(n, "edge-2", &ways[0], true);
 */
#ifndef EDGEWAY_HUB_ROUTING_NEIGHBOURS_H
#define EDGEWAY_HUB_ROUTING_NEIGHBOURS_H

#include "base/core/metric.h"
#include "model/cluster/cluster.h"
#include "model/mesh.h"
#include "tunnel/tunnel.h"

enum { NEIGHBOURS_MAX = 65536 };

struct neighbours;

struct neighbours_config {
	struct loop *loop;
	const struct cluster *cluster;
	/* true if the node has a tunnel of its own, here or at another replica */
	bool (*tunnelled)(void *arg, const char *node);
	/* streams in that tunnel; UINT_MAX: it is at another replica */
	unsigned (*streams)(void *arg, const char *node);
	void (*changed)(void *arg,
		const char *node); /* its announcement at this hub has changed; NULL: no callback */
	/* true if the hub dials this address; NULL: none */
	bool (*ours)(void *arg, const struct in6_addr *ip);
	/* While no Node names a site, no announcement counts: the cluster has Nodes in the cloud
	 * too, and the hub, which may be a pod, cannot tell them apart by their addresses. */
	bool sites_only;
	void *arg;
};

struct neighbours *neighbours_new(const struct neighbours_config *config);
void neighbours_free(struct neighbours **n);

/* Replaces the node's announcement. Appends a line for each entry to `answer`, or one line if the
 * whole text is invalid. */
void neighbours_declare(
	struct neighbours *n, const char *node, const char *text, size_t len, struct buf *answer);
void neighbours_forget(struct neighbours *n, const char *node);
bool neighbours_declared(const struct neighbours *n, const char *node);
/* Calls `tell` for nodes whose answer would be different now, because their Nodes or others have
 * changed. */
void neighbours_outdated(
	struct neighbours *n, void (*tell)(void *arg, const char *node), void *arg);

/* Another replica, `from`, reports: entry NULL: the node starts a new announcement; else one more
 * entry of it. */
void neighbours_heard(struct neighbours *n, const void *from, const char *node, const char *entry);
/* Drops what that replica has reported of the node; NULL: of all nodes. */
void neighbours_unheard(struct neighbours *n, const void *from, const char *node);
/* Reports of `from` now count as those of `to`, another connection of the same replica. */
void neighbours_hand_over(struct neighbours *n, const void *from, const void *to);
typedef void neighbours_fn(void *arg, const char *node, const char *entry);
/* Reports what the node (NULL: each node) announces here, in the form of neighbours_heard. */
void neighbours_each(const struct neighbours *n, const char *node, neighbours_fn *fn, void *arg);

struct neighbours_way {
	char via[MESH_NODE_MAX + 1];
	unsigned entry; /* index in its announcement */
};

struct neighbours_ask {
	const char *node; /* or REACHABLE_NETS_ANY: then `site` and `ip` name the target */
	const char *site;
	struct in6_addr ip;
	uint16_t port; /* 0: any */
};

/* Increases whenever the result of neighbours_stand_for may have changed, except by changes of
 * Nodes. */
uint64_t neighbours_changes(const struct neighbours *n);
/* True if a neighbour covers the node, whether or not the neighbour has a tunnel now. The hub then
 * does not dial the node itself. */
bool neighbours_stand_for(struct neighbours *n, const char *node);
/* Neighbours with a tunnel, the best first. Returns how many; 0: *why (static text, NULL: nobody
 * has announced it). */
size_t neighbours_find(struct neighbours *n, const struct neighbours_ask *ask,
	struct neighbours_way *ways, size_t room, const char **why);
/* The sites in which a node announces the address, each once, with one of those nodes. Returns how
 * many there are. */
struct neighbours_site {
	const char *site, *via; /* borrowed: until the next announcement or change of the cluster */
};
size_t neighbours_sites(struct neighbours *n, const struct in6_addr *ip,
	struct neighbours_site *sites, size_t room);
/* True if this node announces the target, at any port. Then *site is the node's site, borrowed as
 * above; ask->site is ignored. */
bool neighbours_declares(
	struct neighbours *n, const char *via, const struct neighbours_ask *ask, const char **site);

void neighbours_result(
	struct neighbours *n, const char *node, const struct neighbours_way *way, bool worked);
/* The node has a tunnel of its own now. */
void neighbours_own(struct neighbours *n, const char *node);

/* [{"node": the announced entry,"via","state","streams","problem"}] */
void neighbours_state(struct neighbours *n, struct buf *out);
void neighbours_metrics(struct neighbours *n, struct metrics *m);

#endif
