/*
 * The names of all nodes, from the cluster's Node objects and from the nodes that have joined, at
 * the time of node_book_new: sorted, together with the names that are only a parent domain of
 * others (a node called edge-1.site-a adds site-a). A leaf: built again when nodes come and go.
 *
 *	book = node_book_new(cluster, joined, n);
 *	if (node_book_find(book, "edge-1") == NULL && node_book_above(book, "site-a")) ...
 */
#ifndef EDGEWAY_HUB_SYNC_NODE_BOOK_H
#define EDGEWAY_HUB_SYNC_NODE_BOOK_H

#include "model/cluster/cluster.h"

struct node_book;

struct node_entry {
	char *name;
	bool joined; /* it connects by itself, so others reach it through the hub */
};

/* joined: sorted, without duplicates; copied. */
struct node_book *node_book_new(const struct cluster *c, char *const *joined, size_t n);
void node_book_free(struct node_book **b);
/* NULL: not a node's name. Valid as long as the book. */
const struct node_entry *node_book_find(const struct node_book *b, const char *name);
/* Returns true if there is a node NODE.name. */
bool node_book_above(const struct node_book *b, const char *name);
size_t node_book_count(const struct node_book *b);
/* In the order of names. */
const struct node_entry *node_book_at(const struct node_book *b, size_t i);

#endif
