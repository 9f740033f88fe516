/*
 * What the files of the nodes share: nodes.c (connections that come, are let in and end),
 * nodes_tell.c (what others ask about them) and nodes_known.c (which nodes there are, and who is
 * away). Nothing outside of these includes it.
 */
#ifndef EDGEWAY_HUB_SYNC_NODES_PRIVATE_H
#define EDGEWAY_HUB_SYNC_NODES_PRIVATE_H

#include "hub/port/alpn_mux.h"
#include "hub/port/listen.h"
#include "hub/port/ws_accept.h"
#include "hub/sync/nodes.h"

/* One connection that was let in: a talk or a join. */
struct peer {
	struct peer *next, **at;
	struct ws_conn *conn;
	struct node_session *talk;
	struct join *join;
	const char *node; /* the talk's or the join's */
	uint64_t presence; /* the number of a talk's connection there */
	bool proven; /* the certificate says that it is this node */
	bool crowded; /* the node has newer connections: this one is cut once the loop turns */
};

struct nodes {
	struct nodes_config config;
	struct loop *loop;
	struct ws *ws;
	struct listen *listen;
	struct alpn_mux *peek;
	struct ws_accept *carried;
	struct timer *tick, *cut;
	uint64_t n_cut; /* connections that were crowded */
	uint64_t started_ms; /* since 1970 */
	struct join_config join;
	struct peer *peers;
	uint64_t node_changes; /* of the cluster, looked at */
	/* some service is not for every caller: nodes are told of their callers */
	bool callers_matter;
	size_t n_peers, most;
	uint64_t accepted, not_accepted; /* once it does not listen any more */
	struct node_session_stats stats;
	struct join_stats join_stats;
};

enum {
	NODES_LOGGED = 120
}; /* lines a minute of each kind: a node comes and goes as often as it likes */

/* Has the connection a talk that goes on? */
static inline bool
nodes_talks(const struct peer *p)
{
	return p->talk != NULL && !node_session_ended(p->talk);
}

/* The talk with the node that goes on; NULL: none. */
struct node_session *nodes_find_talk(const struct nodes *n, const char *node);

#endif
