/*
 * State shared by the files of the nodes: nodes.c (connections: accepting, letting in, ending),
 * nodes_tell.c (state for others) and nodes_known.c (which nodes there are, and which are away). No
 * other file includes it.
 */
#ifndef EDGEWAY_HUB_SYNC_NODES_PRIVATE_H
#define EDGEWAY_HUB_SYNC_NODES_PRIVATE_H

#include <sys/queue.h>

#include "hub/port/alpn_mux.h"
#include "hub/port/listen.h"
#include "hub/port/twins.h"
#include "hub/port/ws_accept.h"
#include "hub/sync/nodes.h"
#include "model/table.h"

/* One connection that was let in: a node session or a join. */
struct peer {
	struct peer *next, **at;
	struct table_node by_node;
	TAILQ_ENTRY(peer) cut; /* while it is crowded */
	struct ws_conn *conn;
	struct node_session *talk;
	struct join *join;
	const char *node; /* the session's or the join's */
	uint64_t presence; /* number of the session's connection in the presence table */
	bool proven; /* the certificate proves that it is this node */
	/* the node has newer connections: this one is closed in the loop's next turn */
	bool crowded;
};

struct nodes {
	struct nodes_config config;
	struct loop *loop;
	struct ws *ws;
	struct listen *listen;
	struct alpn_mux *peek;
	struct ws_accept *carried;
	struct timer *tick, *cut;
	uint64_t n_resumed; /* TLS sessions, of connections that were let in */
	uint64_t n_cut; /* closed connections that were crowded */
	uint64_t started_ms; /* since 1970 */
	struct join_config join;
	struct peer *peers;
	struct table by_node; /* of them */
	TAILQ_HEAD(peers_cut, peer) crowded;
	uint64_t node_changes; /* value of the cluster's counter that was last handled */
	/* some service is restricted: nodes get the lists of their clients */
	bool callers_matter;
	size_t n_peers, most;
	uint64_t full; /* nodes asked to come later, since `most` are here */
	uint64_t not_accepted; /* once it no longer listens */
	struct twins *twins;
	struct node_session_stats stats;
	struct sync_gate gate;
	struct join_stats join_stats;
};

enum {
	NODES_LOGGED = 120
}; /* log lines a minute of each kind: a node may reconnect as often as it likes */

/* Returns true if the connection has a session that has not ended. */
static inline bool
nodes_talks(const struct peer *p)
{
	return p->talk != NULL && !node_session_ended(p->talk);
}

/* The node's session that has not ended; NULL: none. */
struct node_session *nodes_find_talk(const struct nodes *n, const char *node);

#endif
