/*
 * What the files of the neighbours share: neighbours.c (what nodes declare, and what of it counts),
 * neighbours_index.c (that, by name and network), neighbours_find.c (who carries whom) and
 * neighbours_tell.c (state and metrics). Nothing outside of these includes it.
 */
#ifndef EDGEWAY_HUB_ROUTING_NEIGHBOURS_PRIVATE_H
#define EDGEWAY_HUB_ROUTING_NEIGHBOURS_PRIVATE_H

#include "hub/routing/neighbours.h"
#include "model/table.h"

#define neighbour_of(entry) container_of(entry, struct neighbour, node)
#define neighbour_in(entry) container_of(entry, struct neighbour, by_site)
#define carried_of(entry) container_of(entry, struct ws_accept, node)

/* An entry that a neighbour has declared. */
struct standing {
	struct table_node node; /* in `named` or `networks` of struct neighbours, where it counts */
	const struct neighbour *by;
	const struct reachable_nets_entry *entry;
	bool counts;
};

/* A node that has declared something. */
struct neighbour {
	struct table_node node, by_site;
	char *name, *site; /* "" where none is named */
	struct reachable_nets *here,
		*there; /* told to this hub, or to another replica; NULL: nothing */
	const void *from; /* that replica */
	/* Of these two the one that counts; NULL: the rest is kept for its count. */
	const struct reachable_nets *vicinity;
	const char **wrong; /* why an entry does not count; as of the last look */
	struct standing *standings; /* of all entries, as of the last look */
	size_t n_standings;
	uint64_t *failed_ms; /* the last dial by an entry; 0: it worked, or there was none */
	uint64_t told; /* hash of what it was answered */
	uint64_t streams;
};

/* A node that was reached through a neighbour once: it is at the edge, and stays there as long as
 * there is a Node. */
struct ws_accept {
	struct table_node node;
	char *name;
	char via[MESH_NODE_MAX + 1]; /* "": its own tunnel is back */
};

struct neighbours {
	struct neighbours_config config;
	struct table all, sites_of, carried; /* sites_of: neighbours by their site */
	struct table named, networks; /* struct standing */
	unsigned with_bits[129]; /* how many of the networks have so long a prefix */
	size_t n_declared;
	bool sites; /* some Node names a site */
	bool looked;
	uint64_t looked_at; /* changes of Nodes then */
	uint64_t compared_at; /* those when neighbours_outdated compared last */
	uint64_t changes, worked, failed;
};

uint64_t neighbours_hash(const char *text);
struct neighbour *neighbours_get(const struct neighbours *n, const char *node);
struct ws_accept *neighbours_carried(const struct neighbours *n, const char *node);
/* Sites and Nodes may be others than before: what counts is judged anew. */
void neighbours_look(struct neighbours *n);
/* What counts of b's declaration, for neighbours_index_find. Removed before anything of it
 * changes. */
void neighbours_index_add(struct neighbours *n, struct neighbour *b);
void neighbours_index_remove(struct neighbours *n, struct neighbour *b);
/* One that has declared the node, or another of the node's site that has declared this address of
 * its; NULL: nobody. */
const struct neighbour *neighbours_index_find(
	const struct neighbours *n, const char *node, const struct in6_addr *ip);
const char *neighbours_site_of(const struct neighbours *n, const char *node);
/* Why the node is not to be reached through this one; NULL: it may be. */
const char *neighbours_objection(
	const struct neighbours *n, const struct neighbour *b, const char *node);

#endif
