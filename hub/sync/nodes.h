/*
 * The nodes at the hub's port: accepts connections, lets them in or refuses them (doc/protocol.md),
 * and keeps a session for each node and a join for each stranger with a token. One session per
 * node: a newer connection replaces the older one. Owns the listener and the websocket context. On
 * the hub's loop.
 *
 *	nodes_start(&n, loop, &config, &err);
 *	nodes_ready(n);		// the source has been read
 *	nodes_refresh(n);	// sites and zones may have changed
 */
#ifndef EDGEWAY_HUB_SYNC_NODES_H
#define EDGEWAY_HUB_SYNC_NODES_H

#include "base/core/metric.h"
#include "base/http/ws.h"
#include "hub/identity/join.h"
#include "hub/port/grant.h"
#include "hub/replicas/peers.h"
#include "hub/replicas/rendezvous.h"
#include "hub/replicas/tunnels.h"
#include "hub/sync/node_session.h"
#include "model/cluster/cluster.h"

/* NODES_EIGHTHS: of the descriptors, for nodes; as many for their tunnels. */
enum { NODES_CONNECTIONS_MAX = 20000, NODES_EIGHTHS = 3, NODES_TICK_MS = 5000 };

struct nodes;

struct nodes_config {
	struct addr listen;
	struct ssl_ctx_st *tls; /* used until nodes_stop */
	uint64_t heartbeat_ms;
	struct liveness *liveness; /* of nodes, by name; outlives it; NULL: pings alone tell */
	const char *cluster_domain;
	struct fanout *fanout;
	struct cluster *cluster;
	loop_fn *settle; /* see node_session_config */
	void *settle_arg;
	struct certs *certs;
	const struct grants *grants; /* for its access; NULL: no rules; outlives it */
	struct tunnels *tunnels, *outward; /* get the connections that ask for a tunnel by ALPN */
	struct rendezvous *rendezvous; /* gets those of nodes that are to meet */
	struct peers *others; /* gets the connections from other replicas */
	struct presence *presence; /* presence of nodes, updated here; outlives it */
	struct share *share; /* NULL: no replicas */
	struct approvals *approvals; /* NULL: no node can join without a token */
	join_bars_fn *bars; /* of join_config */
	void *bars_arg;
	/* limits connections that have not authenticated yet; outlives it */
	struct preauth *preauth;
	struct tls_workers *workers; /* as of ws_accept_config */
	bool ready;
};

int nodes_start(
	struct nodes **n, struct loop *loop, const struct nodes_config *config, struct err *err);
/* Closes all connections; runs the loop meanwhile. */
void nodes_stop(struct nodes **n);

/* Another certificate of the hub, for new connections; then the former context may be freed. */
int nodes_renew(struct nodes *n, struct ssl_ctx_st *tls);
void nodes_ready(struct nodes *n);
void nodes_refresh(struct nodes *n);
/* The node's tunnel is silent: does its agent answer here? */
void nodes_doubt(struct nodes *n, const char *node);
/* Sends nodes the list of their clients (doc/protocol.md), before the services that these may not
 * use. */
void nodes_tell_callers(struct nodes *n);
struct addr nodes_addr(const struct nodes *n); /* where it listens */
/* The node's certificates are revoked: ends the connections made with them. Returns how many. */
unsigned nodes_revoked(struct nodes *n, const char *node);
/* What nodes are told of each other: the list of certs_revoked_write, and as a further member that
 * the hub's access has rules for nodes. */
void nodes_revoked_write(const struct nodes_config *c, struct buf *out);
/* Sends the nodes the current list of revoked hub certificates (certs_crl), and the former. */
void nodes_tell_crl(struct nodes *n);
/* Ends all connections: nodes connect again, each after a random delay. */
void nodes_again(struct nodes *n, const char *why);
/* No node can join, and no certificate is renewed, since only another hub may record it. */
void nodes_hold(struct nodes *n, bool held);
/* This hub stops: sends the nodes to another one, and accepts no new ones. */
void nodes_leave(struct nodes *n, const char *why);
/* Ends the connections whose certificates have expired or are revoked. Also runs from time to time
 * by itself. */
void nodes_check(struct nodes *n);
/* Calls fn for each service that a connected node reports as not served, or not completely
 * (hub/sync/node_session.h). */
typedef void nodes_unserved_fn(void *arg, enum unserved_why why, const char *key, const char *node);
void nodes_unserved(const struct nodes *n, nodes_unserved_fn *fn, void *arg);
/* Calls fn for each service that a connected node does not accept as it is, with its reason
 * (hub/port/refusals.h). */
typedef void nodes_held_fn(void *arg, const char *key, const char *node, const char *reason);
void nodes_held(const struct nodes *n, nodes_held_fn *fn, void *arg);
/* Calls fn for each connected node with its source address. */
void nodes_sources(const struct nodes *n,
	void (*fn)(void *arg, const char *node, const char *address), void *arg);
/* As node_session_ask, for the node's connection here; -ENOTCONN: there is none. */
int nodes_ask(const struct nodes *n, const char *node, const char *service, struct question *q);
bool nodes_have(const struct nodes *n, const char *node); /* is it connected here? */
size_t nodes_connected(const struct nodes *n);
/* Calls fn for each connected node's session. */
void nodes_each(
	const struct nodes *n, void (*fn)(void *arg, const struct node_session *talk), void *arg);
/* Calls fn once for each node that is connected or has joined; `revoked`: its certificates are
 * revoked. */
void nodes_joined(
	const struct nodes *n, void (*fn)(void *arg, const char *node, bool revoked), void *arg);
/* [{"node":..,"connected":..,"address":..,"pending":..}, ...]: first the connected nodes, then the
 * other known ones; with certificates: also serial, expires and revoked, which reads a file for
 * each. */
void nodes_state(const struct nodes *n, bool certificates, struct buf *out);
/* {"issued","refused","last":{"node","address","reason","at"}} */
void nodes_joins(const struct nodes *n, struct buf *out);
/* As twins_state. */
void nodes_twins(const struct nodes *n, struct buf *out);
/* Nodes asked to come later since there was no room for more. */
uint64_t nodes_full(const struct nodes *n);
void nodes_metrics(const struct nodes *n, struct metrics *to);
/* Metrics: how many nodes there are and are away, and when each was last seen, for METRIC_NODES_MAX
 * of them, those that are away first. */
void nodes_known_metrics(const struct nodes *n, struct metrics *to);
/* As presence_find. */
bool nodes_presence(const struct nodes *n, const char *node, struct presence_row *to);
/* Tunnels that are carried in websockets (hub/port/ws_accept). */
void nodes_carried(const struct nodes *n, struct buf *out);

#endif
