/*
 * Metadata of a node: the store (SQLite on a thread of its own), the fake-IP allocator, and the
 * feed from the hub (websocket). The folder's door; loop 0 only.
 *
 *	meta_open(&meta, &config, use, arg, err);	// opens the database; use(snapshot) comes before it returns
 *	meta_start(meta, upstreams, n, err);		// joins if it must, connects, stays connected
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
	/* read at each attempt to join, as join_token_read; "" or NULL: none */
	const char *token_file;
	const char *node_id; /* header; "" = node */
	bool cloudhub; /* the hub is a KubeEdge CloudHub: node_id, ca, cert and key must be given */
	const char *cluster_domain; /* a hub name inside it is an error */
	const char *proxy; /* hub.proxy, "" none; may hold a password */
	struct ws_tunnels
		*carriers; /* every connection to the hub goes inside of theirs; NULL: none */
	uint64_t heartbeat_ms;
	uint32_t mark;
	bool forward; /* the hub reaches for this node what it cannot dial itself */
	const struct dial_guard *guard; /* of endpoints; referenced. NULL: static rules alone */
	/* meta_hub says something new; called with the arg of `use`; may be NULL */
	loop_fn *hub_changed;
	meta_asked_fn *asked; /* the hub has a question; the same arg; may be NULL */
};

typedef void meta_use_fn(
	void *arg, const struct snapshot *snapshot); /* take a reference to keep it */

int meta_open(struct meta **meta, const struct meta_config *config, meta_use_fn *use, void *arg,
	struct err *err);
int meta_start(struct meta *meta, const struct addr *upstreams, size_t n, struct err *err);
/* The hub's name is asked of these from now on; one that could not be resolved is tried again at
 * once. */
void meta_use_upstreams(struct meta *meta, const struct addr *upstreams, size_t n);
/* The hub that has greeted last, for a second connection to it; texts and context are borrowed for
 * the call. */
struct meta_hub {
	struct addr addr;
	const char *host; /* name in its certificate */
	struct ssl_ctx_st *tls; /* client context with this node's certificate */
	uint64_t certificate; /* another number for each certificate */
	const struct proxy
		*proxy; /* the way there, addr is its own; NULL: none; good until meta_free */
	char target[MESH_NODE_MAX + 16]; /* host:port that the proxy is asked for */
};
/* False: none has greeted yet. */
bool meta_hub(const struct meta *meta, struct meta_hub *to);
/* json: model/health.h. A question of another connection, or of another time of this one:
 * nothing. */
void meta_answer(struct meta *meta, const struct meta_question *question, const char *json);
/* Another guard from now on: services that it concerns are built anew. */
void meta_guard(struct meta *meta, const struct dial_guard *guard);
/* The hub may be there again: do not wait for the next attempt. */
void meta_kick(struct meta *meta);
/* The network has changed: the same, and a connection whose way begins at another address of this
 * machine now is made anew. */
void meta_network(struct meta *meta);
/* The hub does not answer: another one is looked for, where there is one. */
void meta_move(struct meta *meta);
bool meta_connected(const struct meta *meta);
/* Small values that must outlive the agent, written through (synchronous): resolv.conf's
 * original. */
int meta_keep_get(void *meta, const char *key, char **data, size_t *len);
int meta_keep_put(void *meta, const char *key, const void *data, size_t len);
int meta_keep_del(void *meta, const char *key);
/* A line that says why the database cannot be written; nothing when it can. */
void meta_trouble(struct meta *meta, struct buf *out);
void meta_metrics(struct meta *meta, struct metrics *m);
void meta_state(struct meta *meta, struct buf *out); /* JSON object */
/* Closes the websocket, commits what is pending, closes the database. Synchronous, bounded to 2
 * s. */
void meta_stop(struct meta **meta);

#endif
