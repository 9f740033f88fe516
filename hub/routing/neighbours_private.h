/*
 * Shared by the files of neighbours: neighbours.c (announcements, and which of them count),
 * neighbours_index.c (index by name and network), neighbours_find.c (which neighbour carries which
 * node) and neighbours_tell.c (state and metrics). No other file includes it.
 */
#ifndef EDGEWAY_HUB_ROUTING_NEIGHBOURS_PRIVATE_H
#define EDGEWAY_HUB_ROUTING_NEIGHBOURS_PRIVATE_H

#include "hub/routing/neighbours.h"
#include "model/table.h"

#define neighbour_of(entry) container_of(entry, struct neighbour, node)
#define neighbour_in(entry) container_of(entry, struct neighbour, by_site)
#define carried_of(entry) container_of(entry, struct carried_node, node)

/* One announced entry of a neighbour. */
struct accepted_entry {
	struct table_node node; /* in `named` or `networks` of struct neighbours, if it counts */
	const struct neighbour *by;
	const struct reachable_nets_entry *entry;
	bool counts;
};

/* A node that has announced something. */
struct neighbour {
	struct table_node node, by_site;
	char *name, *site; /* "" if its Node names none */
	struct reachable_nets *here,
		*there; /* announced to this hub, and to another replica; NULL: nothing */
	const void *from; /* that replica */
	/* The one of these two that counts; NULL: nothing, and only the counters are kept. */
	const struct reachable_nets *vicinity;
	const char **wrong; /* why an entry does not count; as of the last neighbours_look */
	struct accepted_entry *standings; /* for all entries, as of the last neighbours_look */
	size_t n_standings;
	/* time of the last failed dial per entry; 0: it worked, or there was none */
	uint64_t *failed_ms;
	uint64_t told; /* hash of the answer that the node got */
	uint64_t streams;
};

/* A node that was reached through a neighbour once: it counts as an edge node as long as its Node
 * exists. */
struct carried_node {
	struct table_node node;
	char *name;
	char via[MESH_NODE_MAX + 1]; /* "": its own tunnel is back */
};

struct neighbours {
	struct neighbours_config config;
	struct table all, sites_of, carried; /* sites_of: neighbours by site */
	struct table named, networks; /* struct standing */
	unsigned with_bits[129]; /* number of networks with this prefix length */
	size_t n_declared;
	bool sites; /* some Node names a site */
	bool looked;
	uint64_t looked_at; /* cluster_node_changes at that time */
	uint64_t compared_at; /* the same at the last neighbours_outdated */
	uint64_t changes;
};

uint64_t neighbours_hash(const char *text);
struct neighbour *neighbours_get(const struct neighbours *n, const char *node);
struct carried_node *neighbours_carried(const struct neighbours *n, const char *node);
/* Judges all entries again if sites or Nodes have changed. */
void neighbours_look(struct neighbours *n);
/* Adds the entries of b that count to the index for neighbours_index_find. Call
 * neighbours_index_remove before any of them changes. */
void neighbours_index_add(struct neighbours *n, struct neighbour *b);
void neighbours_index_remove(struct neighbours *n, struct neighbour *b);
/* A neighbour that has announced the node by name, or another node of its site that has announced a
 * network with this address; NULL: none. */
const struct neighbour *neighbours_index_find(
	const struct neighbours *n, const char *node, const struct in6_addr *ip);
const char *neighbours_site_of(const struct neighbours *n, const char *node);
/* Why the node must not be reached through this neighbour; NULL: it may. */
const char *neighbours_objection(
	const struct neighbours *n, const struct neighbour *b, const char *node);

#endif
