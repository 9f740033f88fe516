/*
 * The agent's side of a query that an operator sends to it through the hub (the related query of
 * the hub itself is in doc/protocol.md, "Neighbours"): one stream, one answer, as the agent's admin
 * server gives it. The callback decides what may be queried; tunnel.allow decides whether queries
 * are allowed at all. Everything on the loop's thread.
 *
 *	q = agent_queries_new(loop, answer, me);
 *	return agent_query_opened(q, st, request, reason);	// a stream with the field edgeway-ask: admin
 */
#ifndef EDGEWAY_TUNNEL_NODE_AGENT_QUERY_H
#define EDGEWAY_TUNNEL_NODE_AGENT_QUERY_H

#include "base/core/buf.h"
#include "base/core/loop.h"
#include "tunnel/h2/session.h"

#define AGENT_QUERY_ASK "admin" /* value of REACHABILITY_ASK */
#define AGENT_QUERY_TARGET "edgeway-target" /* field: path and query of a GET */

enum {
	AGENT_QUERIES_MOST = 4,
	AGENT_QUERY_MS = 60 * 1000,
	AGENT_QUERIES_BYTES = 16 << 20, /* for all pending answers together */
	/* one query per this interval: each runs on the loop that does the agent's other
	 * work */
	AGENT_QUERY_EVERY_MS = 250,
	AGENT_QUERY_BURST = 16, /* as many as edgewayctl bundle sends in a row */
};

/* 200 with the answer in `out`, which has no limit; else an HTTP status and a line with the
 * reason. */
typedef unsigned agent_answer_fn(void *arg, const char *target, struct buf *out);

struct agent_queries;

struct agent_queries *agent_queries_new(struct loop *loop, agent_answer_fn *answer, void *arg);
void agent_queries_free(struct agent_queries **q);
/* As `opened` of session_events. */
unsigned agent_query_opened(struct agent_queries *q, struct stream *st,
	const struct stream_request *request, const char **reason);

#endif
