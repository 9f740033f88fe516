/*
 * Intrusive doubly linked rings. A node that is in no ring points to itself, so list_del may be
 * called twice.
 */
#ifndef EDGEWAY_LB_CONN_LIST_H
#define EDGEWAY_LB_CONN_LIST_H

#include "base/core/util.h"

struct node {
	struct node *prev, *next;
};

static inline void
list_init(struct node *n)
{
	n->prev = n->next = n;
}

static inline bool
list_empty(const struct node *n)
{
	return n->next == n;
}

static inline void
list_del(struct node *n)
{
	n->prev->next = n->next;
	n->next->prev = n->prev;
	list_init(n);
}

/* Inserts n before `at`; if `at` is the head of a ring, at its end. */
static inline void
list_add_before(struct node *at, struct node *n)
{
	n->next = at;
	n->prev = at->prev;
	at->prev->next = n;
	at->prev = n;
}

static inline void
list_add_after(struct node *at, struct node *n)
{
	list_add_before(at->next, n);
}

#endif
