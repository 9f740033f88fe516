/*
 * Where the agents of other nodes dial this one: a TCP port with mutual TLS 1.3 and the ALPN name
 * edgeway-peer/1. Whoever does not prove to be a node of the same CA, or is refused by the
 * owner, is closed before a byte of HTTP/2; connections that have not authenticated yet are limited
 * and served fairly (base/core/preauth.h). Streams go to stream_server_peer_opened: known Services'
 * endpoints of this node, by tunnel.allow. While they hold too much memory, nodes with more than an
 * eighth of it are refused new ones. Nodes that flood are read later, or cut and kept out for a
 * while (floods.h). Everything on the loop's thread.
 *
 *	door = node_door_new(&(struct node_door_config){.loop = loop, .node = "edge-1", .port = 10001, .serve = serve, ...});
 *	node_door_use(door, tls);	// it listens once there is a certificate
 */
#ifndef EDGEWAY_TUNNEL_NODE_NODE_DOOR_H
#define EDGEWAY_TUNNEL_NODE_NODE_DOOR_H

#include "tunnel/node/node_peers.h"
#include "tunnel/node/stream_server.h"

struct node_door;

enum {
	NODE_DOOR_GUESTS = 1024, /* sessions at a time */
	NODE_DOOR_OF_A_NODE = 2, /* of those; the oldest one gives way */
	NODE_DOOR_WAITING = 256, /* connections that have not authenticated */
	NODE_DOOR_SHAKE_MS = 5000,
};

struct node_door_config { /* copied */
	struct loop *loop;
	const char *node; /* this one; outlives the door */
	uint16_t port;
	uint64_t heartbeat_ms;
	struct stream_server *serve; /* outlives the door */
	/* Why no session is had with the node that has this certificate; NULL: it may be. */
	const char *(*refuses)(void *arg, const char *node, const char *serial);
	void *arg;
};

struct node_door *node_door_new(const struct node_door_config *config);
/* Cuts what is open. */
void node_door_free(struct node_door **d);
/* tls: of pki_node_ctx; a reference is taken. */
void node_door_use(struct node_door *d, struct ssl_ctx_st *tls);
/* A connection with this very node that was made across NAT (tunnel/node/hole_punch), as if it had
 * been accepted; fd: taken. */
void node_door_adopt(struct node_door *d, int fd, const char *node);
/* What `refuses` says has changed: cuts the sessions that it refuses. */
void node_door_check(struct node_door *d);
/* No new connections and streams; `done` comes once the last stream has ended, not from within this
 * call. */
void node_door_drain(struct node_door *d, loop_fn *done, void *arg);
/* Why nobody can dial this node; "": they can, or there is no certificate yet. */
const char *node_door_error(const struct node_door *d);
struct node_peers_sum node_door_sum(const struct node_door *d);
void node_door_metrics(const struct node_door *d, struct metrics *m);
/* floods_state of the nodes that have dialled this one. */
void node_door_floods(const struct node_door *d, struct buf *out);
/* As node_peers_streams and node_peers_state. */
void node_door_list_streams(
	const struct node_door *d, const char *node, const char **comma, struct buf *out);
void node_door_state(const struct node_door *d, const char **comma, struct buf *out);

#endif
