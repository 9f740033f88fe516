/*
 * Shared by connector.c and connector_reuse.c. No other file includes it.
 */
#ifndef EDGEWAY_HUB_ROUTING_CONNECTOR_PRIVATE_H
#define EDGEWAY_HUB_ROUTING_CONNECTOR_PRIVATE_H

#include <sys/queue.h>

#include "base/core/page_pool.h"
#include "hub/routing/connector.h"

enum { STATUSES = 10 };

extern const unsigned connector_statuses[STATUSES]; /* of answers */

struct connector {
	struct connector_config config;
	TAILQ_HEAD(, connect_op) all;
	LIST_HEAD(, connect_op) waiting;
	/* dials last a moment, and what they lead to is kept */
	struct page_pool ops, routes;
	struct timer *deadline; /* of the oldest dial */
	uint64_t answers[STATUSES], crowded, repeated;
	unsigned pending, n_waiting;
	struct stream_pool *pool;
	/* by connector_reuse, for this caller and host: finding them once more would pass over an
	 * endpoint; NULL: none */
	struct routes *found;
	const struct caller *found_caller;
	const char *found_host;
};

void connector_count(struct connector *r, unsigned status);
/* Finds the routes for this caller, or takes those that connector_reuse has found. Of `routes`.
 * *status: of routes_find. */
struct routes *connector_routes(
	struct connector *r, const struct connector_request *q, unsigned *status);
/* Of the newest tunnel of the node, which takes all new requests; 0: there is none. */
uint64_t connector_epoch(const struct connector *r, const char *node);

#endif
