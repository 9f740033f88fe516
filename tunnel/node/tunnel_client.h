/*
 * The agent's client of the tunnel: dials the hub, keeps one connection open for new streams, and
 * passes them to `opened`.
 *
 *   WAITING ─timer, tunnel_client_kick─► CONNECTING ─► SHAKING HANDS ─► OPEN
 *      ▲                              │             │            │
 *      └── 100 ms doubling, full jitter: at most 1.5 s while nobody answers, 30 s when the hub does and cuts
 *
 * The metadata connection finds the hub and reports its address (tunnel_client_use). A new
 * certificate leads to a new connection: it takes the new streams, and the old one closes after its
 * last stream. The same happens when another hub is named while this one does not answer, and when
 * this machine's address on the path to the hub changes. A hub that is not heard for two heartbeats
 * plus 1 s is dead. Everything on the loop's thread.
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
	TUNNEL_CLIENT_CONNECT_MS = 3000, /* SYNs at 0 and 1 s; then a new attempt */
	TUNNEL_CLIENT_PROXY_MS = 10 * 1000, /* deadline for a proxy to reach the hub */
	TUNNEL_CLIENT_FIRST_MS = 100,
	TUNNEL_CLIENT_UNANSWERED_MS = 1500,
	TUNNEL_CLIENT_MOST_MS = 30 * 1000,
	TUNNEL_CLIENT_GOOD_MS =
		10 * 1000, /* a connection that lasted this long resets the back-off */
	/* for windows, at least (one of 32 MiB and what is held) and at most (one of the widest);
	 * session_budget_limit */
	TUNNEL_CLIENT_MEMORY = 40 << 20,
	TUNNEL_CLIENT_MEMORY_MOST = 120 << 20,
};

struct tunnel_client_config {
	struct loop *loop;
	uint64_t heartbeat_ms;
	/* What is known of hubs, by address, also by other connections; it outlives the client.
	 * NULL: only pings tell whether the hub lives. */
	struct liveness *liveness;
	uint32_t mark; /* SO_MARK */
	struct ws_tunnels *carriers; /* websockets that carry the tunnel; NULL: none */
	size_t memory_limit; /* for windows beyond their base; 0: by the machine */
	/* true: the node opens the streams, through tunnel_client_session, and the connection
	 * exists while tunnel_client_want says so. false: the hub opens them, and the connection is
	 * always kept. */
	bool forward;
	/* The tunnel is a second one, to another hub than the first: the hub uses it where it finds
	 * no other way (TUNNEL_ALPN_STANDBY). When tunnel_client_use names another address, a
	 * connection there replaces the one that is open. */
	bool standby;
	/* As `opened` of session_events. */
	unsigned (*opened)(void *arg, struct stream *st, const struct stream_request *request,
		const char **reason);
	void *arg;
	/* True if the node has something that the hub must query; each connection then starts by
	 * saying so. NULL: never. */
	bool (*to_be_asked)(void *arg);
	loop_fn *up; /* a tunnel has opened, or answers again: the hub is reachable; may be NULL */
	/* The hub does not answer (session_events' `silent`): no streams are opened until `up`. If
	 * tunnel_client_use has named another hub meanwhile, that one is dialled automatically. May
	 * be NULL. */
	loop_fn *doubted;
	/* This machine's path to the hub now starts at another address, which says nothing about
	 * the hub: no streams are opened until `up`, which comes when a new connection is open, or
	 * when none can be made while the old one is not silent. May be NULL. */
	loop_fn *rerouted;
	/* The hub says that this node's websocket has ended there; may be NULL. */
	loop_fn *asked;
	void *up_arg; /* for the four callbacks */
};

struct tunnel_client_hub {
	struct addr addr;
	const char *host; /* name or address in its certificate */
	struct ssl_ctx_st *tls; /* client context; a reference is taken */
	uint64_t certificate; /* a different number for each client certificate */
	/* addr is the proxy's; NULL: none; borrowed until tunnel_client_drain or
	 * tunnel_client_free */
	const struct proxy *proxy;
	const char *target; /* host:port of the hub, as requested from the proxy or the websocket */
};

struct tunnel_client *tunnel_client_new(const struct tunnel_client_config *config);
/* Resets what is open. */
void tunnel_client_free(struct tunnel_client **l);
void tunnel_client_use(struct tunnel_client *l, const struct tunnel_client_hub *hub);
/* Only for forward clients: whether the connection is needed. When it no longer is, open streams
 * finish. */
void tunnel_client_want(struct tunnel_client *l, bool wanted);
/* The session to open streams in; NULL: not open now, or doubted. Valid for this call only. */
struct session *tunnel_client_session(const struct tunnel_client *l);
/* The network may work again: retry without waiting. */
void tunnel_client_kick(struct tunnel_client *l);
/* The network has changed: the same, and if the path to the hub now starts at another address, a
 * new connection takes the new streams. */
void tunnel_client_network(struct tunnel_client *l);
/* This machine has several uplinks: a connection that uses them all takes the new streams. */
void tunnel_client_multipath(struct tunnel_client *l, bool several);
/* As sock_paths, sock_paths_use (the connection that takes new streams) and sock_paths_lost (those
 * that finish as well). */
unsigned tunnel_client_paths(const struct tunnel_client *l);
bool tunnel_client_paths_use(const struct tunnel_client *l, const struct in6_addr *local);
bool tunnel_client_paths_lost(struct tunnel_client *l, struct in6_addr *local);
/* Checks that the hub is there; if not, `doubted` comes within seconds. */
void tunnel_client_probe(struct tunnel_client *l);
/* Tells the hub to query again. */
void tunnel_client_ask_anew(struct tunnel_client *l);
/* While held, open streams go on and nothing is dialled: another process has this node's tunnel, or
 * is about to take it. */
void tunnel_client_hold(struct tunnel_client *l, bool held);
/* No new streams or connections; `done` comes once the last has ended, not from within this
 * call. */
void tunnel_client_drain(struct tunnel_client *l, loop_fn *done, void *arg);

bool tunnel_client_open(const struct tunnel_client *l);
/* Returns true if it is open to this address, and the hub answers there. */
bool tunnel_client_open_to(const struct tunnel_client *l, const struct addr *hub);
/* Returns true if new streams come from this address, or will when a connection is open again. */
bool tunnel_client_is_for(const struct tunnel_client *l, const struct addr *hub);
/* How many connections were opened so far. */
uint64_t tunnel_client_opened(const struct tunnel_client *l);
unsigned tunnel_client_streams(const struct tunnel_client *l);
/* standby: the client of the second tunnel, whose streams count as well; NULL: none. */
void tunnel_client_metrics(
	const struct tunnel_client *l, const struct tunnel_client *standby, struct metrics *m);
/* As session_streams, for all connections. */
void tunnel_client_streams_state(
	const struct tunnel_client *l, const char *node, const char **comma, struct buf *out);
/* Members of an object, without its braces. */
void tunnel_client_state(const struct tunnel_client *l, struct buf *out);

#endif
