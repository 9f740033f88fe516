/*
 * What nodes declare that they reach beside themselves, what of it counts, and which of them
 * carries a node without a tunnel. A declaration is one node's word about others: it counts within
 * the node's own site alone (where no Node names a site, all are one), never for a control plane's
 * node, and opens nothing: who may reach a node through a neighbour is who may reach the node.
 * While a node has a tunnel of its own nobody else carries it (hub/routing/connector.c asks here
 * only after that). Addresses that the hub itself is to dial (`ours`) are no neighbour's affair,
 * unless sites with names tell them apart. On the hub's loop.
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
	bool (*tunnelled)(void *arg,
		const char *node); /* is there a tunnel of its own, here or at another replica? */
	unsigned (*streams)(
		void *arg, const char *node); /* in that; UINT_MAX: it is at another replica */
	void (*changed)(void *arg,
		const char *node); /* what it declares here is another; NULL: nobody is told */
	bool (*ours)(void *arg, const struct in6_addr *ip); /* the hub's to dial; NULL: none is */
	/* While no Node names a site nobody is believed: there are Nodes of the cloud among them,
	 * and the hub, which may be a pod, cannot tell them by their addresses. */
	bool sites_only;
	void *arg;
};

struct neighbours *neighbours_new(const struct neighbours_config *config);
void neighbours_free(struct neighbours **n);

/* What the node says now, instead of before. Adds a line for each entry to `answer`, or one that
 * tells what is wrong at all. */
void neighbours_declare(
	struct neighbours *n, const char *node, const char *text, size_t len, struct buf *answer);
void neighbours_forget(struct neighbours *n, const char *node);
bool neighbours_declared(const struct neighbours *n, const char *node);
/* Nodes that were told something else than they would be now: their Nodes, or others', have
 * changed. */
void neighbours_outdated(
	struct neighbours *n, void (*tell)(void *arg, const char *node), void *arg);

/* What another replica, `from`, has heard: entry NULL: the node begins to declare; else one line
 * more of that. */
void neighbours_heard(struct neighbours *n, const void *from, const char *node, const char *entry);
/* It does not count any more what that replica has said of the node; NULL: of all. */
void neighbours_unheard(struct neighbours *n, const void *from, const char *node);
/* What `from` has said is as if `to`, of the same replica, had. */
void neighbours_hand_over(struct neighbours *n, const void *from, const void *to);
typedef void neighbours_fn(void *arg, const char *node, const char *entry);
/* What the node, NULL: each, declares here, in the words of neighbours_heard. */
void neighbours_each(const struct neighbours *n, const char *node, neighbours_fn *fn, void *arg);

struct neighbours_way {
	char via[MESH_NODE_MAX + 1];
	unsigned entry; /* of what it has declared */
};

struct neighbours_ask {
	const char *node; /* or REACHABLE_NETS_ANY: `site` and `ip` say who is meant */
	const char *site;
	struct in6_addr ip;
	uint16_t port; /* 0: whichever */
};

/* Grows whenever neighbours_stand_for may answer otherwise, but for changes of Nodes. */
uint64_t neighbours_changes(const struct neighbours *n);
/* Does a neighbour stand for the node, with a tunnel or without one now? Then the hub does not dial
 * it by itself. */
bool neighbours_stand_for(struct neighbours *n, const char *node);
/* Those with a tunnel, the best first. How many; 0: *why (static text, NULL: nobody has declared
 * it). */
size_t neighbours_find(struct neighbours *n, const struct neighbours_ask *ask,
	struct neighbours_way *ways, size_t room, const char **why);
/* Sites in which somebody declares the address, each once, and one of those who do. How many there
 * are. */
struct neighbours_site {
	const char *site, *via; /* borrowed: until the next declaration or change of the cluster */
};
size_t neighbours_sites(struct neighbours *n, const struct in6_addr *ip,
	struct neighbours_site *sites, size_t room);
/* Does this node stand for what is asked for, at whichever port? Then *site is the one that it is
 * in, borrowed as above; ask->site does not count. */
bool neighbours_declares(
	struct neighbours *n, const char *via, const struct neighbours_ask *ask, const char **site);

void neighbours_result(
	struct neighbours *n, const char *meant, const struct neighbours_way *way, bool worked);
/* A tunnel of the node's own has come. */
void neighbours_own(struct neighbours *n, const char *node);

/* [{"node": what was declared,"via","state","streams","problem"}] */
void neighbours_state(struct neighbours *n, struct buf *out);
void neighbours_metrics(struct neighbours *n, struct metrics *m);

#endif
