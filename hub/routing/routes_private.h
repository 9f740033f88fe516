/*
 * Shared by routes.c (names and addresses), routes_callers.c (who may call a service),
 * routes_beside.c (neighbours of a node without a tunnel) and routes_judge.c (which routes the
 * caller may use).
 */
#ifndef EDGEWAY_HUB_ROUTING_ROUTES_PRIVATE_H
#define EDGEWAY_HUB_ROUTING_ROUTES_PRIVATE_H

#include "base/core/rate.h"
#include "hub/routing/routes.h"

enum {
	ROUTES_VIEWS_KEPT = 64,
	/* pods by their address that may be wanted for one node; nodes have counters by hash */
	ROUTES_PODS_PER_S = 50,
	ROUTES_PODS_BURST = 200,
	ROUTES_PODS_COUNTERS = 256,
};

/* A recently used view, parsed. */
struct routes_kept {
	char *key;
	uint64_t digest;
	struct view *view;
};

struct routes_finder {
	struct routes_config config;
	struct routes_kept kept[ROUTES_VIEWS_KEPT];
	unsigned next; /* slot to use next */
	struct rate_count pods_wanted[ROUTES_PODS_COUNTERS];
	uint64_t turn; /* spreads calls over a service's endpoints (round robin) */
	const struct routes_caller *caller; /* NULL: no particular caller */
};

unsigned routes_refuse(struct routes *w, unsigned status, const char *fmt, ...) printf_like(3, 4);
void routes_set_target(
	struct routes *w, enum target_kind kind, const char *first, const char *second);
struct way *routes_add(struct routes *w, const char *node, const char *host, uint16_t port);

/* In routes_callers.c. Whether the caller may use the view, as far as the hub can tell: 0, with a
 * bit of *closed for each gate that keeps it out, or 403. */
unsigned routes_permit(
	struct routes_finder *f, const struct view *v, uint64_t *closed, struct routes *w);

/* In routes_beside.c. True if the hub does not dial the node itself. */
bool routes_at_edge(const struct routes_finder *f, const char *node);
/* True if a neighbour with a tunnel reaches it. */
bool routes_has_neighbour(const struct routes_finder *f, const char *node);
/* Sets the address that a neighbour dials for this route. */
void routes_set_beside(struct way *way, const char *host, uint16_t port);
/* For an address that no object of the cluster has: 0 or 421; 404: no node announces it. */
unsigned routes_to_site(
	struct routes_finder *f, const char *host, const struct in6_addr *ip, struct routes *w);
/* True if this node announces the other one. */
bool routes_declares(struct routes_finder *f, const char *node, const char *other);
/* The same as routes_to_site, through this node only: false if it does not announce the address. */
bool routes_to_declared(
	struct routes_finder *f, const char *node, const struct in6_addr *ip, struct routes *w);

#endif
