/*
 * A growing hash table of nodes embedded in other structures; several may have the same hash, so
 * that it also serves as an index from a hash to many things. The owner compares keys and frees the
 * nodes.
 *
 *	for (struct table_node *n = table_first(&t, hash); n != NULL; n = table_next(n))
 */
#ifndef EDGEWAY_MODEL_TABLE_H
#define EDGEWAY_MODEL_TABLE_H

#include "base/core/util.h"

struct table_node {
	struct table_node *next,
		**at; /* at: the pointer to this node, so that removal is O(1) in a long chain */
	/* the lower bits of what table_add was given: tables of millions have few false matches,
	 * which the owner's comparison finds anyway */
	uint64_t hash : 48;
	uint64_t tag : 16; /* the owner's */
};

struct table {
	struct table_node **slots;
	size_t n_slots, n;
};

/* Was it added with this hash? */
static inline bool
table_is(const struct table_node *node, uint64_t hash)
{
	return node->hash == (hash & (UINT64_MAX >> 16));
}

void table_fini(struct table *t); /* of an empty or abandoned table; nodes are not touched */
void table_add(struct table *t, struct table_node *node, uint64_t hash);
void table_remove(struct table *t, struct table_node *node);
struct table_node *table_first(const struct table *t, uint64_t hash);
struct table_node *table_next(const struct table_node *node); /* with the same hash */
/* Iterates in any order: start with *slot 0 and node NULL; NULL after the last. The table must not
 * change meanwhile. */
struct table_node *table_walk(const struct table *t, size_t *slot, const struct table_node *node);

#endif
