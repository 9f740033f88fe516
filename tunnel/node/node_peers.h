/*
 * The agents of other nodes that this node dials itself: one TLS session for each, opened when it
 * is first needed, closed after NODE_PEERS_IDLE_MS without a stream, and shared by all callers.
 * HTTP/2's client opens the streams, so this side asks and the other node's door
 * (tunnel/node/node_door.h) serves; calls the other way have a session of their own. Both sides
 * prove by certificates of the one CA which nodes they are.
 *
 *   IDLE ─a caller─► DIALLING ─► OPEN ─► IDLE          SILENT: it answers neither stream nor ping
 *                       ▲  └─► RESTING  ─┘
 *
 * A node of another site, which has no address that could be dialled, is met across the NATs of
 * both (tunnel/node/hole_punch, with the hub's help) and dialled over that connection. No caller
 * waits for it. HTTP/2 has one client, so such a connection, too, carries calls of one direction.
 *
 * A node that cannot be reached is remembered: callers go through the hub at once, and it is
 * dialled beside after the back-off (500 ms doubling to a minute; across NAT 4 s to 10 minutes),
 * for as long as it was called within NODE_PEERS_FORGET_MS. Everything on the loop's thread.
 *
 *	session = node_peers_session(p, &(struct node_peers_ask){.node = "edge-2", .at = addr, .wait = &me->wait});
 *	if (session == NULL && !node_peers_waits(&me->wait))
 *		by the hub;	// else me->wait.done comes: ask again
 */
#ifndef EDGEWAY_TUNNEL_NODE_NODE_PEERS_H
#define EDGEWAY_TUNNEL_NODE_NODE_PEERS_H

#include <sys/queue.h>

#include "base/core/metric.h"
#include "tunnel/h2/session.h"

struct node_peers;
struct node_peer;
struct ssl_ctx_st;

#define NODE_PEERS_ALPN "edgeway-peer/1"

enum {
	NODE_PEERS_IDLE_MS = 60 * 1000,
	NODE_PEERS_DIAL_MS = 1500, /* for TCP, and then for TLS */
	NODE_PEERS_FIRST_MS = 500, /* back-off */
	NODE_PEERS_MOST_MS = 60 * 1000,
	NODE_PEERS_NAT_FIRST_MS = 4000, /* back-off across NAT */
	NODE_PEERS_NAT_MOST_MS = 10 * 60 * 1000,
	/* After this time without an answer there is a ping, and after as long again the hub is
	 * asked: a NAT that forgets a connection tells nobody. */
	NODE_PEERS_NAT_PROBE_MS = 600,
	NODE_PEERS_FORGET_MS = 10 * 60 * 1000,
	NODE_PEERS_MOST = 1024, /* remembered at a time */
	NODE_PEERS_MEMORY = 16 << 20, /* for windows beyond their base */
};

struct node_peers_config { /* copied */
	struct loop *loop;
	uint64_t heartbeat_ms;
	uint32_t mark; /* SO_MARK */
	/* Why no session is had with the node that has this certificate; NULL: it may be. */
	const char *(*refuses)(void *arg, const char *node, const char *serial);
	/* a node is reached that was not, so what goes through the hub may go to it; may be NULL */
	void (*found)(void *arg, const char *node);
	/* The hub that introduces nodes; NULL: none now, *why says why. NULL: none ever. */
	const struct tunnel_client_hub *(*hub)(void *arg, const char **why);
	loop_fn *silent; /* a peer does not answer: streams of it may be asked for elsewhere */
	void *arg;
};

/* Embedded in the owner, which sets `done` and `arg`. */
struct node_peers_wait {
	LIST_ENTRY(node_peers_wait) link;
	struct node_peer *of; /* NULL: it does not wait */
	loop_fn *done;
	void *arg;
};

struct node_peers_ask {
	const char *node;
	struct addr at; /* its address and port; .len 0: it is to be met across NAT */
	/* there is no other way: also a node that was not reached a moment ago is dialled, and
	 * waited for */
	bool urgent;
	struct node_peers_wait *wait; /* NULL: the caller does not wait */
};

struct node_peers *node_peers_new(const struct node_peers_config *config);
/* Resets what is open. */
void node_peers_free(struct node_peers **p);
/* tls: of pki_node_ctx; a reference is taken. Sessions that are open finish their streams. */
void node_peers_use(struct node_peers *p, struct ssl_ctx_st *tls);
/* The session to open streams in, valid for this call only. NULL: none now; node_peers_waits tells
 * whether `done` will come, from a turn of the loop. */
struct session *node_peers_session(struct node_peers *p, const struct node_peers_ask *ask);
static inline bool
node_peers_waits(const struct node_peers_wait *w)
{
	return w->of != NULL;
}
/* Is there a session with it that takes streams? */
bool node_peers_reached(const struct node_peers *p, const char *node);
void node_peers_leave(struct node_peers_wait *w);
/* What `refuses` says has changed: cuts the sessions that it refuses. */
void node_peers_check(struct node_peers *p);
/* The network has changed: no back-off counts any more. */
void node_peers_network(struct node_peers *p);
/* Why the node was not reached; "": it was, or was not tried. */
const char *node_peers_why(const struct node_peers *p, const char *node);
struct node_peers_sum { /* of one direction */
	uint64_t sessions; /* now */
	struct session_stats of;
};
struct node_peers_sum node_peers_sum(const struct node_peers *p);
void node_peers_metrics(const struct node_peers *p, struct metrics *m);
/* As session_streams, for all sessions. */
void node_peers_streams(
	const struct node_peers *p, const char *node, const char **comma, struct buf *out);
/* JSON objects of a list; *comma is "" before the first one. */
void node_peers_state(const struct node_peers *p, const char **comma, struct buf *out);

#endif
