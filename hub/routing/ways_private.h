/*
 * What ways.c (names and addresses), ways_beside.c (neighbours of a node without a tunnel) and
 * ways_judge.c (who may go which) share.
 */
#ifndef EDGEWAY_HUB_ROUTING_WAYS_PRIVATE_H
#define EDGEWAY_HUB_ROUTING_WAYS_PRIVATE_H

#include "hub/routing/ways.h"

enum { WAYS_VIEWS_KEPT = 64 };

/* A view that was asked for lately, parsed. */
struct ways_kept {
	char *key;
	uint64_t digest;
	struct view *view;
};

struct ways_finder {
	struct ways_config config;
	struct ways_kept kept[WAYS_VIEWS_KEPT];
	unsigned next; /* slot to use next */
	uint64_t turn; /* spreads calls over a service's endpoints */
	const struct ways_caller *caller; /* NULL: nobody in particular */
};

unsigned ways_refuse(struct ways *w, unsigned status, const char *fmt, ...) printf_like(3, 4);
void ways_set_target(struct ways *w, enum target_kind kind, const char *first, const char *second);
struct way *ways_add(struct ways *w, const char *node, const char *host, uint16_t port);

/* In ways_callers.c. May the caller use the view, as the hub can tell? 0, with a bit of *closed for
 * each gate that keeps it out, or 403. */
unsigned ways_permit(struct ways_finder *f, const struct view *v, uint64_t *closed, struct ways *w);

/* In ways_beside.c. Is the node one that the hub does not dial itself? */
bool ways_at_edge(const struct ways_finder *f, const char *node);
/* Is there a neighbour with a tunnel that reaches it? */
bool ways_has_neighbour(const struct ways_finder *f, const char *node);
/* Where a neighbour finds what the way leads to. */
void ways_set_beside(struct way *way, const char *host, uint16_t port);
/* An address that no object of the cluster has: 0 or 421; 404: no node declares it. */
unsigned ways_to_site(
	struct ways_finder *f, const char *host, const struct in6_addr *ip, struct ways *w);
/* Does this very node stand for the other one? */
bool ways_declares(struct ways_finder *f, const char *node, const char *other);
/* The same as ways_to_site, through this very node: false when it declares no such thing. */
bool ways_to_declared(
	struct ways_finder *f, const char *node, const struct in6_addr *ip, struct ways *w);

#endif
