/*
 * What the files of the neighbours share: neighbours.c (what nodes declare, and what of it counts), neighbours_find.c (who carries
 * whom) and neighbours_tell.c (state and metrics). Nothing outside of these includes it.
 */
#ifndef EDGEWAY_HUB_NEIGHBOURS_PRIVATE_H
#define EDGEWAY_HUB_NEIGHBOURS_PRIVATE_H

#include "hub/neighbours.h"
#include "model/table.h"

#define neighbour_of(entry) container_of(entry, struct neighbour, node)
#define neighbour_in(entry) container_of(entry, struct neighbour, by_site)
#define carried_of(entry) container_of(entry, struct carried, node)

/* A node that has declared something. */
struct neighbour {
	struct table_node node, by_site;
	char *name, *site; /* "" where none is named */
	struct vicinity *here, *there; /* told to this hub, or to another replica; NULL: nothing */
	const void *from; /* that replica */
	/* Of these two the one that counts; NULL: the rest is kept for its count. */
	const struct vicinity *vicinity;
	const char **wrong; /* why an entry does not count; as of the last look */
	uint64_t *failed_ms; /* the last dial by an entry; 0: it worked, or there was none */
	uint64_t told; /* hash of what it was answered */
	uint64_t streams;
};

/* A node that was reached through a neighbour once: it is at the edge, and stays there. */
struct carried {
	struct table_node node;
	char *name;
	char via[MESH_NODE_MAX + 1]; /* "": its own tunnel is back */
};

struct neighbours {
	struct neighbours_config config;
	struct table all, sites_of, carried; /* sites_of: neighbours by their site */
	size_t n_declared;
	bool sites; /* some Node names a site */
	bool looked;
	uint64_t looked_at; /* changes of Nodes then */
	uint64_t changes, worked, failed;
};

uint64_t neighbours_hash(const char *text);
struct neighbour *neighbours_get(const struct neighbours *n, const char *node);
struct carried *neighbours_carried(const struct neighbours *n, const char *node);
/* Sites and Nodes may be others than before: what counts is judged anew. */
void neighbours_look(struct neighbours *n);
const char *neighbours_site_of(const struct neighbours *n, const char *node);
/* Why the node is not to be reached through this one; NULL: it may be. */
const char *neighbours_objection(
	const struct neighbours *n, const struct neighbour *b, const char *node);

#endif
