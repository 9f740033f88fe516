/*
 * What ways.c (names and addresses), routes_beside.c (neighbours of a node without a tunnel) and
 * routes_judge.c (who may go which) share.
 */
#ifndef EDGEWAY_HUB_ROUTING_ROUTES_PRIVATE_H
#define EDGEWAY_HUB_ROUTING_ROUTES_PRIVATE_H

#include "hub/routing/routes.h"

enum { ROUTES_VIEWS_KEPT = 64 };

/* A view that was asked for lately, parsed. */
struct routes_kept {
	char *key;
	uint64_t digest;
	struct view *view;
};

struct routes_finder {
	struct routes_config config;
	struct routes_kept kept[ROUTES_VIEWS_KEPT];
	unsigned next; /* slot to use next */
	uint64_t turn; /* spreads calls over a service's endpoints */
	const struct routes_caller *caller; /* NULL: nobody in particular */
};

unsigned routes_refuse(struct routes *w, unsigned status, const char *fmt, ...) printf_like(3, 4);
void routes_set_target(
	struct routes *w, enum target_kind kind, const char *first, const char *second);
struct way *routes_add(struct routes *w, const char *node, const char *host, uint16_t port);

/* In ways_callers.c. May the caller use the view, as the hub can tell? 0, with a bit of *closed for
 * each gate that keeps it out, or 403. */
unsigned routes_permit(
	struct routes_finder *f, const struct view *v, uint64_t *closed, struct routes *w);

/* In routes_beside.c. Is the node one that the hub does not dial itself? */
bool routes_at_edge(const struct routes_finder *f, const char *node);
/* Is there a neighbour with a tunnel that reaches it? */
bool routes_has_neighbour(const struct routes_finder *f, const char *node);
/* Where a neighbour finds what the way leads to. */
void routes_set_beside(struct way *way, const char *host, uint16_t port);
/* An address that no object of the cluster has: 0 or 421; 404: no node declares it. */
unsigned routes_to_site(
	struct routes_finder *f, const char *host, const struct in6_addr *ip, struct routes *w);
/* Does this very node stand for the other one? */
bool routes_declares(struct routes_finder *f, const char *node, const char *other);
/* The same as routes_to_site, through this very node: false when it declares no such thing. */
bool routes_to_declared(
	struct routes_finder *f, const char *node, const struct in6_addr *ip, struct routes *w);

#endif
