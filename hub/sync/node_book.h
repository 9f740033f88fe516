/*
 * The names of all nodes, those of the cluster's Node objects and those that have joined, as they
 * were when the book was made: sorted, and with the names that only other names stand below (a node
 * called edge-1.site-a makes site-a one). A leaf: made anew when nodes come and go.
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
	bool joined; /* it comes by itself, so others reach it through the hub */
};

/* joined: sorted, each once; copied. */
struct node_book *node_book_new(const struct cluster *c, char *const *joined, size_t n);
void node_book_free(struct node_book **b);
/* NULL: no node's. Good as long as the book. */
const struct node_entry *node_book_find(const struct node_book *b, const char *name);
/* Is there a node NODE.name? */
bool node_book_above(const struct node_book *b, const char *name);
size_t node_book_count(const struct node_book *b);
/* In the order of names. */
const struct node_entry *node_book_at(const struct node_book *b, size_t i);

#endif
