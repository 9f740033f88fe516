/*
 * Streams to HTTP/1.1 servers between two requests, as lb/proxy/pool.h has connections: the next
 * request of the same caller to the same target needs no dial, neither here nor at the node. Rules
 * and limits are not kept: whoever takes a stream has been granted its target anew
 * (hub/routing/connector.h). A stream is kept for STREAM_POOL_MS, less than servers keep an idle
 * connection; a byte, an end or a reset from the target, or a node that stops, ends it before. All
 * callers together keep STREAM_POOL_MOST; then the caller that keeps most loses the one that has
 * been idle the longest (base/core/fair_share), so that nobody can take all places. One caller
 * keeps STREAM_POOL_OF_ONE to one target: requests that use no kept stream leave one behind each,
 * and a server may have few connections to give. On the hub's loop.
 *
 *	use = stream_use_new(pool, &key, target, at);	// beside a new stream
 *	stream_pool_give(pool, &stream, &use);	// idle from here on
 *	use = stream_pool_take(pool, &key, &stream);	// NULL: there is none
 */
#ifndef EDGEWAY_HUB_ROUTING_STREAM_POOL_H
#define EDGEWAY_HUB_ROUTING_STREAM_POOL_H

#include "base/core/loop.h"
#include "base/core/metric.h"
#include "tunnel/tunnel.h"

enum { STREAM_POOL_MS = 3500, STREAM_POOL_MOST = 1024, STREAM_POOL_OF_ONE = 64 };

struct stream_pool;

/* What a stream was opened for: a request takes only one that is the same in all of it. */
struct stream_key {
	const char *caller, *hops, *service, *node, *authority;
	uint64_t epoch; /* of the node's tunnel */
};

/* Belongs to a stream that may be kept; its owner holds both. */
struct stream_use {
	const char *target, *at; /* of connector_answer */
	bool used; /* the stream has served a request */
};

struct stream_pool *stream_pool_new(struct loop *loop);
void stream_pool_free(struct stream_pool **p);
struct stream_use *stream_use_new(
	struct stream_pool *p, const struct stream_key *key, const char *target, const char *at);
void stream_use_free(struct stream_use **use);
bool stream_pool_any(const struct stream_pool *p);
/* The caller calls stream_use next. */
struct stream_use *stream_pool_take(
	struct stream_pool *p, const struct stream_key *key, struct stream **out);
/* Takes a stream whose request and response are complete. use NULL: it is not kept, but
 * half-closed, so that the target can close cleanly; if that does not, it is reset. */
void stream_pool_give(struct stream_pool *p, struct stream **stream, struct stream_use **use);
/* Ends all idle streams. */
void stream_pool_clear(struct stream_pool *p);
void stream_pool_metrics(const struct stream_pool *p, struct metrics *m);

#endif
