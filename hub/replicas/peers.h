/*
 * The other replicas of this hub (doc/protocol.md, "Between replicas"). Each replica connects to
 * every other one, at the addresses of `peers` and at those that other replicas connect from, and
 * asks which nodes it holds; changes are reported at once (hub/replicas/tunnel_directory.h). A
 * stream for a node of another replica is forwarded to it, once: a stream from a replica is opened
 * in a tunnel of this hub or refused with 421, so that two replicas with stale claims cannot
 * forward it in a loop. If a replica cannot be reached from here, the others are asked, one after
 * the other, to forward a stream for this hub, once more. On the hub's loop.
 *
 *	peers = peers_new(&(struct peers_config){.loop = loop, .port = 10000,
 *		.tunnels = tunnels, .changed = on_changed, .arg = hub});
 *	rc = peers_configure(peers, names, &err);	// at the start and at SIGHUP
 *	// once there are certificates, and with each new one
 *	peers_use(peers, server_tls, client_tls);
 *	peers_adopt(peers, fd);	// a socket whose ClientHello asks for PEER_ALPN
 *	rc = peers_open(peers, &(struct peers_ask){.node = "edge-1", .request = &r,
 *		.events = &e, .to = me});
 *
 * A replica that does not answer (tunnel/h2/session.h, `silent`: two seconds) gets no new streams.
 * After PEERS_DEAD_MS of silence its connection is closed, and streams without a response by then
 * end with STREAM_LOST.
 */
#ifndef EDGEWAY_HUB_REPLICAS_PEERS_H
#define EDGEWAY_HUB_REPLICAS_PEERS_H

#include "base/core/metric.h"
#include "base/tls/pki.h"
#include "hub/port/grant.h"
#include "hub/port/peer_proto.h"
#include "hub/port/questions.h"
#include "hub/replicas/tunnel_directory.h"
#include "hub/replicas/tunnels.h"

struct peers;

enum {
	PEERS_MOST = 256, /* addresses to connect to */
	PEERS_GUESTS_MOST = 256, /* connections from other replicas */
	PEERS_PING_MS = 1000,
	PEERS_DEAD_MS = 5000,
	PEERS_MEMORY = 64 << 20, /* for what waits in streams; shared among nodes */
	PEERS_ASKED_MOST = 256, /* questions of others to nodes that are connected here */
	PEERS_ASKED_MS = 4000, /* timeout for a node's answer to one */
	PEERS_SETTLE_MS = 10000, /* after that it does not matter whether all have answered */
};

struct peers_config {
	struct loop *loop;
	uint16_t port; /* of other replicas without a port, and our own */
	struct tunnels *tunnels; /* outlives it */
	const struct grants *grants;
	struct preauth *preauth; /* limits handshakes; outlives it; NULL: no limit */
	struct tls_workers *workers; /* do the TLS handshakes; outlive it; NULL: `loop` does */
	/* Other replicas reach the node differently than before, or no more; NULL: this is so for
	 * many nodes. */
	void (*changed)(void *arg, const char *node);
	/* Returns true if there is a Node object of this name: then the name is never forgotten. */
	bool (*wanted)(void *arg, const char *node);
	/* Calls fn for each node that holds a certificate. */
	void (*joined)(void *arg, void (*fn)(void *to, const char *node), void *to);
	/* Calls fn for the reachable networks that the node declares here, or, with node NULL,
	 * every node: for each node first with entry NULL, then once per entry. */
	void (*declared)(void *arg, const char *node,
		void (*fn)(void *to, const char *node, const char *entry), void *to);
	/* The replica `from` has reported a node's declaration. REACH has an entry; FORGETS without
	 * a node: everything that it reported before. */
	void (*heard)(void *arg, const void *from, const struct peer_said *said);
	/* A connection has ended, and another one to the same replica works: reports of `from` now
	 * count as reports of `to`. */
	void (*handed_over)(void *arg, const void *from, const void *to);
	/* Which nodes are connected to hubs, or were; outlives it. */
	struct presence *presence;
	/* Why the node's tunnel must not be used for host:port, whatever the node declares (static
	 * text); NULL: it may. */
	const char *(*refuses)(void *arg, const char *node, const char *authority);
	/* A stream of another replica goes on to this node, for this caller and an endpoint of the
	 * service, "" if it is none; to be called before the node is asked. */
	void (*passes)(void *arg, const char *caller, const char *node, const char *service,
		const char *authority);
	/* Returns true if the hub certificate with this serial number is revoked. */
	bool (*revoked)(void *arg, const char *serial);
	/* A node has come to another replica to meet one that has come here: as `opened` of
	 * session_events (hub/replicas/rendezvous.h). */
	unsigned (*came)(void *arg, struct stream *st, const struct stream_request *request,
		const char **reason);
	/* As rendezvous_ration. */
	const char *(*ration)(void *arg, const char *node, const char *other);
	/* As nodes_ask. */
	int (*ask)(void *arg, const char *node, const char *service, struct question *q);
	void *arg;
};

struct peers *peers_new(const struct peers_config *config);
/* Streams end with STREAM_LOST. */
void peers_free(struct peers **p);
/* names: HOST[:PORT], ended by NULL; empty: there are no other replicas. Adopts everything or, with
 * an error, nothing. */
int peers_configure(struct peers *p, const char *const *names, struct err *err);
/* Returns true if the configuration names other replicas. */
bool peers_any(const struct peers *p);
/* Server and client context, borrowed until the next call. Existing connections go on; connections
 * that replace them use these. */
void peers_use(struct peers *p, struct ssl_ctx_st *server, struct ssl_ctx_st *client);
/* fd: accepted, nothing read yet; peers_adopt takes it over. */
void peers_adopt(struct peers *p, int fd);
/* Tells the others that this hub's tunnel to the node has changed. */
void peers_tell(struct peers *p, const char *node);
/* The same for the node's declaration. */
void peers_tell_declared(struct peers *p, const char *node);
/* The node has connected with its certificate: tells the others that it is an edge node. */
void peers_tell_joined(struct peers *p, const char *node);

/* The node has connected here, or has gone (hub/port/presence.h): tells the others. */
void peers_tell_presence(struct peers *p, const char *node);

/* Tells the others the problem of this hub itself, "": none, if the text has changed. */
void peers_tell_trouble(struct peers *p, const char *text);

struct peers_ask {
	const char *node;
	const struct stream_request *request;
	const struct stream_events *events;
	void *to;
	/* Which intermediate replica to ask, if the replica that may have the node cannot be
	 * reached: counts from 0, increased after each 421. */
	unsigned between;
	/* Results: */
	struct stream *stream;
	const char *at; /* the replica's name; for the call only */
	uint64_t epoch; /* of its claim; 0: an intermediate replica */
};

/* As session_open; -ENOTCONN: no other replica has the node's tunnel. */
int peers_open(struct peers *p, struct peers_ask *ask);
/* Asks the replicas, one after the other, how the endpoints of a service do on a node, starting
 * with the replica that has the node's tunnel. `turn` counts from 0; `request` is ignored. The
 * answer comes from the node (model/health.h); 421: the node is not connected there. -ENOENT: no
 * more replicas; other errors: this replica cannot be asked. */
int peers_ask_health(struct peers *p, struct peers_ask *ask, const char *service, size_t turn);
/* This hub's id among its replicas. */
const char *peers_id(const struct peers *p);
/* Opens the stream at the replica that has this id; `node` is ignored. -ENOENT: it is not
 * connected. */
int peers_ask_hub(struct peers *p, struct peers_ask *ask, const char *id);
/* A stream got 421: the replica is not asked again on the strength of this claim. */
void peers_doubt(struct peers *p, const char *node, uint64_t epoch);
/* Returns true if another replica has this address, by its name or by a connection. */
bool peers_at_address(const struct peers *p, const struct in6_addr *ip);
/* Returns the epoch of the node's tunnel at another replica that answers; 0: there is none. */
uint64_t peers_epoch(const struct peers *p, const char *node);
/* Returns the highest epoch that any replica claims, even one that does not answer now. */
uint64_t peers_claimed(const struct peers *p, const char *node);
/* Returns true if any replica has ever reported it as a node. */
bool peers_know(const struct peers *p, const char *node);
/* Calls fn for each node that other replicas currently report. */
void peers_named(const struct peers *p, void (*fn)(void *arg, const char *node), void *arg);
/* Returns true if the node may be back in a moment, here or at another replica. */
bool peers_await(const struct peers *p, const char *node);
/* Returns true once every known replica has reported its nodes, or has not answered. True without
 * replicas. */
bool peers_settled(const struct peers *p);
/* Tells the others first; calls `done` once no forwarded stream is left, never from within this
 * call. */
void peers_drain(struct peers *p, void (*done)(void *arg), void *arg);

/* Certificates of hubs may have been revoked: closes connections that were made with them. */
void peers_check(struct peers *p);
/* The name by which other replicas know this hub. */
const char *peers_own_name(const struct peers *p);
/* The serial number of the certificate of the replica with this name; false: it is not
 * connected. */
bool peers_serial(const struct peers *p, const char *name, char serial[PKI_SERIAL_TEXT]);
/* Rows of hub_hubs, each with a comma in front. */
void peers_serials(const struct peers *p, struct buf *out);
/* [{"peer","address","state","nodes","streams","rtt_ms","since_s","error",...}] */
void peers_state(const struct peers *p, struct buf *out);
void peers_metrics(const struct peers *p, struct metrics *m);

#endif
