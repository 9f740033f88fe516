/*
 * The node's end of a question that an operator has for its agent by way of the hub
 * (doc/protocol.md, "Neighbours" has the other kind): one stream, one answer, as the agent's admin
 * server gives it. What may be asked is the callback's to say; that anything may, tunnel.allow's.
 * Everything on the loop's thread.
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
	AGENT_QUERIES_BYTES = 16 << 20, /* of all answers that are on their way */
	AGENT_QUERY_EVERY_MS =
		250, /* one in that time, each made on the loop of the agent's other work */
	AGENT_QUERY_BURST = 16, /* as edgewayctl bundle asks in a row */
};

/* 200, and the answer in `out`, which has no limit; or a status of HTTP, and a line that says
 * why. */
typedef unsigned agent_answer_fn(void *arg, const char *target, struct buf *out);

struct agent_queries;

struct agent_queries *agent_queries_new(struct loop *loop, agent_answer_fn *answer, void *arg);
void agent_queries_free(struct agent_queries **q);
/* As `opened` of session_events. */
unsigned agent_query_opened(struct agent_queries *q, struct stream *st,
	const struct stream_request *request, const char **reason);

#endif
