/*
 * Shared by the files that decode routes: kube_route.c (parents, rules, backends),
 * kube_route_match.c, kube_route_filter.c and kube_route_status.c.
 *
 * What is wrong within a rule is the rule's fault alone: it is told, and the rule answers 500 or,
 * where its matches are wrong, matches nothing. The object stays valid, since a refused one would
 * leave its older version in force.
 */
#ifndef EDGEWAY_MODEL_KUBE_ROUTE_PRIVATE_H
#define EDGEWAY_MODEL_KUBE_ROUTE_PRIVATE_H

#include "model/http_route_parse_private.h"
#include "model/kube_private.h"

/* A route being read, with the current rule. */
struct route_reading {
	struct decoder *d;
	struct http_routes *parts;
	const char *ns;
	bool grpc;
	struct kube_route_rule *rule;
};

/* Records the rule's first fault; all are told. */
void route_fault(struct route_reading *g, const struct tree_node *at, enum kube_route_fault fault,
	const char *fmt, ...) printf_like(4, 5);
/* The list map.key of at most `max` members; NULL when absent, with a fault when it is another. */
const struct tree_node *route_list(
	struct route_reading *g, const struct tree_node *map, const char *key, size_t max);
/* The text map.key, `otherwise` when absent; a fault, and "", when `check` refuses it. */
const char *route_text(struct route_reading *g, const struct tree_node *map, const char *key,
	const char *otherwise, bool (*check)(const char *text, size_t len));
/* The number map.key, `otherwise` when absent, with a fault when it is beyond. */
uint32_t route_number(struct route_reading *g, const struct tree_node *map, const char *key,
	uint32_t max, uint32_t otherwise);
/* A duration of GEP-2257 ("1m30s") in ms; 0 or -EINVAL. */
int route_parse_duration(const char *text, uint64_t *ms);
/* The same of map.key, at most a day; `otherwise` when absent. */
uint32_t route_duration(
	struct route_reading *g, const struct tree_node *map, const char *key, uint32_t otherwise);
/* backendRef's Service: its name in *name and *ns, port, and what it is if it is none. */
struct route_ref {
	const char *ns, *name, *kind;
	uint16_t port;
};
struct route_ref route_read_ref(struct route_reading *g, const struct tree_node *ref);

/* --- kube_route_match.c --------------------------------------------------------------------- */
void route_read_matches(struct route_reading *g, const struct tree_node *rule);
/* --- kube_route_filter.c -------------------------------------------------------------------- */
void route_read_filters(struct route_reading *g, const struct tree_node *rule);
void route_read_backend_filters(
	struct route_reading *g, const struct tree_node *ref, struct http_route_backend *b);
void route_read_policies(struct route_reading *g, const struct tree_node *rule);
/* --- kube_route_status.c -------------------------------------------------------------------- */
void route_read_status(struct kube_route *r, const struct tree_node *list);

#endif
