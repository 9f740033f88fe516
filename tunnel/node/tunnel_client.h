/*
 * The agent's end of the tunnel: dials the hub, keeps one connection open for new streams, and
 * hands those to `opened`.
 *
 *   WAITING ─timer, tunnel_client_kick─► CONNECTING ─► SHAKING HANDS ─► OPEN
 *      ▲                              │             │            │
 *      └── 100 ms doubling, full jitter: at most 1.5 s while nobody answers, 30 s when the hub does and cuts
 *
 * Where the hub is says the metadata connection, which looks for it (tunnel_client_use). A new
 * certificate means a new connection: it takes the new streams, the old one ends with its last; so
 * does another hub while this one does not answer, and another address of this machine. A hub that
 * is not heard for two heartbeats and 1 s is dead. Everything on the loop's thread.
 *
 *	link = tunnel_client_new(&(struct tunnel_client_config){.loop = loop, .heartbeat_ms = 4000, .opened = stream_server_opened, .arg = serve});
 *	tunnel_client_use(link, &(struct tunnel_client_hub){addr, "hub.example", tls, 1});
 */
#ifndef EDGEWAY_TUNNEL_NODE_TUNNEL_CLIENT_H
#define EDGEWAY_TUNNEL_NODE_TUNNEL_CLIENT_H

#include "base/core/metric.h"
#include "base/core/sock.h"
#include "base/http/proxy.h"
#include "base/http/ws_tunnels.h"
#include "tunnel/h2/session.h"

struct tunnel_client;
struct ssl_ctx_st;

enum {
	TUNNEL_CLIENT_CONNECT_MS = 3000, /* SYNs at 0 and 1 s; then it is tried anew */
	TUNNEL_CLIENT_PROXY_MS = 10 * 1000, /* until a proxy has reached the hub */
	TUNNEL_CLIENT_FIRST_MS = 100,
	TUNNEL_CLIENT_UNANSWERED_MS = 1500,
	TUNNEL_CLIENT_MOST_MS = 30 * 1000,
	TUNNEL_CLIENT_GOOD_MS =
		10 * 1000, /* a connection that lasted so long starts the back-off anew */
	TUNNEL_CLIENT_MEMORY = 16 << 20,
};

struct tunnel_client_config {
	struct loop *loop;
	uint64_t heartbeat_ms;
	uint32_t mark; /* SO_MARK */
	struct ws_tunnels *carriers; /* inside of whose websockets it goes; NULL: none */
	size_t memory_limit; /* of the windows beyond their base; 0: TUNNEL_CLIENT_MEMORY */
	/* The node opens the streams, by tunnel_client_session; the connection is there while
	 * tunnel_client_want says so. Else the hub opens them, and it is always there. */
	bool forward;
	/* As `opened` of session_events. */
	unsigned (*opened)(void *arg, struct stream *st, const struct stream_request *request,
		const char **reason);
	void *arg;
	/* Has the node something to say that the hub must ask for? Then each connection begins so.
	 * NULL: never. */
	bool (*to_be_asked)(void *arg);
	loop_fn *up; /* a tunnel has opened, or answers again: the hub is there; may be NULL */
	/* The hub does not answer (session_events' `silent`): no streams are opened until `up`. A
	 * hub that tunnel_client_use has named meanwhile is dialled by itself. May be NULL. */
	loop_fn *doubted;
	/* The machine's way to the hub begins elsewhere now, which says nothing of the hub: no
	 * streams are opened until `up`, when a new connection is there, or cannot be made while
	 * this one is not silent. May be NULL. */
	loop_fn *rerouted;
	void *up_arg; /* of the three */
};

struct tunnel_client_hub {
	struct addr addr;
	const char *host; /* name or address that its certificate bears */
	struct ssl_ctx_st *tls; /* client context; a reference is taken */
	uint64_t certificate; /* another number for each certificate of ours */
	/* addr is its own; NULL: none; borrowed until tunnel_client_drain or tunnel_client_free */
	const struct proxy *proxy;
	const char *target; /* host:port that it, or what carries the connection, is asked for */
};

struct tunnel_client *tunnel_client_new(const struct tunnel_client_config *config);
/* Resets what is open. */
void tunnel_client_free(struct tunnel_client **l);
void tunnel_client_use(struct tunnel_client *l, const struct tunnel_client_hub *hub);
/* Of a forward link: whether it is needed. When it is not any more, what is open finishes. */
void tunnel_client_want(struct tunnel_client *l, bool wanted);
/* To open streams in; NULL: not open now, or in doubt. For the call only. */
struct session *tunnel_client_session(const struct tunnel_client *l);
/* The network may work again: do not wait. */
void tunnel_client_kick(struct tunnel_client *l);
/* The network has changed: the same, and where the way to the hub begins at another address now,
 * another connection takes the new streams. */
void tunnel_client_network(struct tunnel_client *l);
/* Is the hub there? Else `doubted` comes, within seconds. */
void tunnel_client_probe(struct tunnel_client *l);
/* The hub is to ask anew. */
void tunnel_client_ask_anew(struct tunnel_client *l);
/* Held, what is open goes on, and nothing is dialled: another process has this node's tunnel, or is
 * about to. */
void tunnel_client_hold(struct tunnel_client *l, bool held);
/* No new streams, no new connections; `done` once the last has ended, not from within this call. */
void tunnel_client_drain(struct tunnel_client *l, loop_fn *done, void *arg);

bool tunnel_client_open(const struct tunnel_client *l);
/* How many connections there have been. */
uint64_t tunnel_client_opened(const struct tunnel_client *l);
unsigned tunnel_client_streams(const struct tunnel_client *l);
void tunnel_client_metrics(const struct tunnel_client *l, struct metrics *m);
/* As session_streams, of all connections. */
void tunnel_client_streams_state(
	const struct tunnel_client *l, const char *node, const char **comma, struct buf *out);
/* Members of an object, without its braces. */
void tunnel_client_state(const struct tunnel_client *l, struct buf *out);

#endif
