/*
 * Metadata of a node: the store (SQLite on its own thread), the fake-IP allocator, and the hub
 * client (websocket). The public header of meta/; loop 0 only.
 *
 *	meta_open(&meta, &config, use, arg, err);	// opens the database, calls use(snapshot)
 *	meta_start(meta, upstreams, n, err);		// joins if it must, stays connected
 *
 * A message is acknowledged after its commit, and a fake IP is published after its commit. A
 * damaged database is moved aside and rebuilt from the hub.
 */
#ifndef EDGEWAY_META_META_H
#define EDGEWAY_META_META_H

#include "base/core/loop.h"
#include "base/core/metric.h"
#include "base/core/sock.h"
#include "meta/client/question.h"
#include "model/dial_guard.h"
#include "model/mesh.h"
#include "model/pod_ask.h"
#include "model/pod_ranges.h"
#include "model/snapshot.h"

struct ws_tunnels;
struct meta;
struct proxy;
struct ssl_ctx_st;

struct meta_config {
	struct loop *loop;
	const char *data_dir;
	const char *node;
	uint32_t subnet, mask; /* host byte order */
	uint16_t listen_port;
	const char *const *hub_urls; /* wss://host:port, NULL-terminated */
	const char *ca, *cert, *key; /* files, "" for those under data_dir */
	const char *token; /* "" or <sha256 of the CA>.<secret> */
	/* read at each attempt to join, see join_token_read; "" or NULL: none */
	const char *token_file;
	const char *node_id; /* sent as header; "" = node */
	bool cloudhub; /* the hub is a KubeEdge CloudHub: node_id, ca, cert and key must be given */
	const char *cluster_domain; /* a hub name inside it is refused */
	const char *proxy; /* hub.proxy, "" none; may hold a password */
	struct ws_tunnels *carriers; /* every connection to the hub goes through them; NULL: none */
	uint64_t heartbeat_ms;
	/* what is known of hubs, by address; outlives it; NULL: heartbeats alone tell */
	struct liveness *liveness;
	uint32_t mark;
	bool find_hubs; /* meta_known_hub is wanted */
	bool apiserver; /* tunnel.apiserver: see struct self */
	bool forward; /* the hub connects for this node to endpoints that it cannot dial itself */
	bool direct; /* other nodes' agents do */
	uint8_t encrypt; /* enum encrypt: of services that do not say */
	/* checks endpoints; referenced. NULL: only the static rules */
	const struct dial_guard *guard;
	/* meta_hub, meta_node_certificate, meta_revoked_nodes or what meta_has_node_rules says has
	 * changed; called with the arg of `use`; may be NULL */
	loop_fn *hub_changed;
	loop_fn *ranges_changed; /* of meta_pod_ranges; called with the same arg; may be NULL */
	meta_asked_fn *asked; /* the hub asks a question; called with the same arg; may be NULL */
};

typedef void meta_use_fn(
	void *arg, const struct snapshot *snapshot); /* take a reference to keep it */

int meta_open(struct meta **meta, const struct meta_config *config, meta_use_fn *use, void *arg,
	struct err *err);
int meta_start(struct meta *meta, const struct addr *upstreams, size_t n, struct err *err);
/* Resolves the hub's name with these servers from now on; a name that could not be resolved is
 * tried again at once. */
void meta_use_upstreams(struct meta *meta, const struct addr *upstreams, size_t n);
/* The hub that sent a hello last, for a second connection to it; texts and context are borrowed for
 * the call. */
struct meta_hub {
	struct addr addr;
	const char *host; /* name in its certificate */
	struct ssl_ctx_st *tls; /* client context with this node's certificate */
	uint64_t certificate; /* changes with each new certificate */
	bool rendezvous; /* it introduces nodes to each other */
	/* the proxy to it, addr is then the proxy's; NULL: none; valid until meta_stop */
	const struct proxy *proxy;
	char target[MESH_NODE_MAX + 16]; /* host:port to request from the proxy */
};
/* False: no hub has sent a hello yet, or meta is NULL. */
bool meta_hub(const struct meta *meta, struct meta_hub *to);
/* As hub_client_node_ctx, hub_client_certificate, hub_client_revoked_nodes and
 * hub_client_has_node_rules; meta NULL: as without a hub client. */
int meta_node_ctx(const struct meta *meta, bool server, struct ssl_ctx_st **ctx, struct err *err);
uint64_t meta_node_certificate(const struct meta *meta);
const char *meta_revoked_nodes(const struct meta *meta);
bool meta_has_node_rules(const struct meta *meta);
/* As hub_client_refuses_node; revoked_nodes NULL: true. */
bool meta_refuses_node(const char *revoked_nodes, const char *node, const char *serial);
/* As hub_client_known_hub, and hub_client_find_hubs. */
bool meta_known_hub(const struct meta *meta, size_t i, struct meta_hub *to);
void meta_find_hubs(struct meta *meta);
/* Answers a question about a pod by its address, now or after asking the hub; m NULL: with
 * POD_UNKNOWN. */
void meta_ask_pod(struct meta *meta, struct pod_ask *ask);
/* The ranges of pods' addresses that no two nodes share; also those of an earlier run. */
const struct pod_ranges *meta_pod_ranges(const struct meta *meta);
/* From now on such questions are answered with POD_UNKNOWN, those under way at once. */
void meta_pods_end(struct meta *meta);
/* json: model/health.h. Ignored if the question came by an earlier connection. */
void meta_answer(struct meta *meta, const struct meta_question *question, const char *json);
/* Uses another guard from now on: rebuilds the services that it affects. */
void meta_guard(struct meta *meta, const struct dial_guard *guard);
/* Services whose ports for callers from outside this node cannot serve: "ns/name","ns/name". The
 * hub is told when they change. */
void meta_note_ports(struct meta *meta, const char *ports);
/* The hub may be reachable again: do not wait for the next attempt. */
void meta_kick(struct meta *meta);
/* The network has changed: kicks as above, and reconnects if the route of the connection now has
 * another source address. */
void meta_network(struct meta *meta);
/* The hub may not answer: asks it, and connects anew if nothing comes. */
void meta_doubt(struct meta *meta);
/* The hub does not answer: connects to another one, if there is one. */
void meta_move(struct meta *meta);
bool meta_connected(const struct meta *meta);
/* Small values that must outlive the agent, written through (synchronous): the original
 * resolv.conf. */
int meta_keep_get(void *meta, const char *key, char **data, size_t *len);
int meta_keep_put(void *meta, const char *key, const void *data, size_t len);
int meta_keep_del(void *meta, const char *key);
/* Appends a line that says why the database cannot be written, if it cannot. */
void meta_trouble(struct meta *meta, struct buf *out);
void meta_metrics(struct meta *meta, struct metrics *m);
void meta_state(struct meta *meta, struct buf *out); /* JSON object */
/* Closes the websocket, commits what is pending, closes the database. Synchronous, bounded to 2
 * s. */
void meta_stop(struct meta **meta);

#endif
