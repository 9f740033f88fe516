/*
 * The other replicas of this hub (doc/protocol.md, "Between replicas"). Each replica dials each
 * other one, at the addresses of `peers` and at those that other replicas come from, and asks it
 * which nodes it holds: told at once when that changes (hub/replicas/tunnel_directory.h). A stream
 * for a node of another replica is passed on to it, once: what comes from a replica is opened in a
 * tunnel of this hub or refused with 421, so that two replicas that believe each other cannot send
 * it round. Where a replica cannot be reached from here, the others are asked, one after the other,
 * to pass a stream on for this hub, once more. On the hub's loop.
 *
 *	peers = peers_new(&(struct peers_config){.loop = loop, .port = 10000, .tunnels = tunnels, .changed = on_changed, .arg = hub});
 *	rc = peers_configure(peers, names, &err);	// at the start and at SIGHUP
 *	peers_use(peers, server_tls, client_tls);	// once there are certificates, and with each new one
 *	peers_adopt(peers, fd);	// a socket whose ClientHello asks for PEER_ALPN
 *	rc = peers_open(peers, &(struct peers_ask){.node = "edge-1", .request = &r, .events = &e, .to = me});
 *
 * A replica that does not answer (tunnel/h2/session.h, `silent`: two seconds) is asked for nothing;
 * one that is not heard for PEERS_DEAD_MS is away, and what was not answered by then is told
 * STREAM_LOST.
 */
#ifndef EDGEWAY_HUB_REPLICAS_PEERS_H
#define EDGEWAY_HUB_REPLICAS_PEERS_H

#include "base/core/metric.h"
#include "base/tls/pki.h"
#include "hub/port/peer_proto.h"
#include "hub/port/questions.h"
#include "hub/port/quota.h"
#include "hub/replicas/tunnel_directory.h"
#include "hub/replicas/tunnels.h"

struct peers;

enum {
	PEERS_MOST = 256, /* addresses that are dialled */
	PEERS_GUESTS_MOST = 256, /* connections of others */
	PEERS_PING_MS = 1000,
	PEERS_DEAD_MS = 5000,
	PEERS_MEMORY = 64 << 20,
	PEERS_ASKED_MOST = 256, /* questions of others to nodes that are connected here */
	PEERS_ASKED_MS = 4000, /* until a node has answered one */
	PEERS_SETTLE_MS = 10000, /* by then it does not matter whether all have answered */
};

struct peers_config {
	struct loop *loop;
	uint16_t port; /* of other replicas that say none, and our own */
	struct tunnels *tunnels; /* outlives it */
	struct preauth *preauth; /* places of handshakes; outlives it; NULL: any number */
	/* Other replicas reach the node in another way than before, or not any more; NULL: this is
	 * so for many nodes. */
	void (*changed)(void *arg, const char *node);
	/* Is there a Node object of this name? Then it is never forgotten. */
	bool (*wanted)(void *arg, const char *node);
	/* Calls fn for each node that holds a certificate. */
	void (*joined)(void *arg, void (*fn)(void *to, const char *node), void *to);
	/* Calls fn for what nodes declare here to reach beside themselves, NULL: each node: entry
	 * NULL when one begins. */
	void (*declared)(void *arg, const char *node,
		void (*fn)(void *to, const char *node, const char *entry), void *to);
	/* The replica `from` has been told so by a node. REACH has an entry; FORGETS without a
	 * node: all that it said before. */
	void (*heard)(void *arg, const void *from, const struct peer_said *said);
	/* A connection has ended, and another one to the same replica works: what `from` said is
	 * from now on as if `to` had. */
	void (*handed_over)(void *arg, const void *from, const void *to);
	/* What is known of nodes that are connected to hubs, or were; outlives it. */
	struct presence *presence;
	/* Why the node's tunnel leads nobody to host:port, whatever the node says (static text);
	 * NULL: it may. */
	const char *(*refuses)(void *arg, const char *node, const char *authority);
	/* Is a hub's certificate with this serial number revoked? */
	bool (*revoked)(void *arg, const char *serial);
	/* As nodes_ask. */
	int (*ask)(void *arg, const char *node, const char *service, struct question *q);
	void *arg;
};

struct peers *peers_new(const struct peers_config *config);
/* Streams are told STREAM_LOST. */
void peers_free(struct peers **p);
/* names: HOST[:PORT], ended by NULL; none: there are no others. All or, with an error, nothing. */
int peers_configure(struct peers *p, const char *const *names, struct err *err);
/* Are there others, by the configuration? */
bool peers_any(const struct peers *p);
/* Server and client context, borrowed until the next call. Connections that there are go on, and
 * their followers have these. */
void peers_use(struct peers *p, struct ssl_ctx_st *server, struct ssl_ctx_st *client);
/* Streams that others ask for count as the node's; outlives it. */
void peers_use_quota(struct peers *p, struct quota *quota);
/* fd: accepted, not a byte read, taken. */
void peers_adopt(struct peers *p, int fd);
/* What this hub can do for the node has changed: others are told. */
void peers_tell(struct peers *p, const char *node);
/* The same of what the node declares. */
void peers_tell_declared(struct peers *p, const char *node);
/* The node has come with its certificate: others are told that it is one at the edge. */
void peers_tell_joined(struct peers *p, const char *node);

/* The node has come here, or has gone (hub/port/presence.h): others are told. */
void peers_tell_presence(struct peers *p, const char *node);

/* What is wrong with this hub itself, "": nothing; others are told when it is another text. */
void peers_tell_trouble(struct peers *p, const char *text);

struct peers_ask {
	const char *node;
	const struct stream_request *request;
	const struct stream_events *events;
	void *to;
	/* Which of the replicas in between is asked, where one cannot be reached that may have the
	 * node: counts from 0, on with each 421. */
	unsigned between;
	/* Answers: */
	struct stream *stream;
	const char *at; /* the replica's name; for the call only */
	uint64_t epoch; /* of what it claims; 0: it is one in between */
};

/* As session_open; -ENOTCONN: no other replica has the node's tunnel. */
int peers_open(struct peers *p, struct peers_ask *ask);
/* A question how the endpoints of a service do on a node, to one replica after the other, that with
 * the node's tunnel first: `turn` counts from 0, `request` is not looked at. The answer is the
 * node's (model/health.h); 421: the node is not connected there. -ENOENT: that were all; others:
 * this one cannot be asked. */
int peers_ask_health(struct peers *p, struct peers_ask *ask, const char *service, size_t turn);
/* A stream was answered with 421: it is not asked again for what it has claimed. */
void peers_doubt(struct peers *p, const char *node, uint64_t epoch);
/* Is another replica at this address, by its name or by a connection? */
bool peers_at_address(const struct peers *p, const struct in6_addr *ip);
/* Does another replica that answers have a tunnel of its own of the node? Its epoch; 0: none. */
uint64_t peers_epoch(const struct peers *p, const char *node);
/* The highest epoch that any claims, also one that does not answer now. */
uint64_t peers_claimed(const struct peers *p, const char *node);
/* Has it been heard of as a node, by whomever? */
bool peers_know(const struct peers *p, const char *node);
/* Calls fn for each node that other replicas name now. */
void peers_named(const struct peers *p, void (*fn)(void *arg, const char *node), void *arg);
/* May the node be there again in a moment, here or at another replica? */
bool peers_await(const struct peers *p, const char *node);
/* Has every replica that is known said what it holds, or not answered? True without any. */
bool peers_settled(const struct peers *p);
/* Others are told first; `done` once nothing is passed on any more, not from within this call. */
void peers_drain(struct peers *p, void (*done)(void *arg), void *arg);

/* Certificates of hubs may have been revoked: connections that were made with them are cut. */
void peers_check(struct peers *p);
/* By what name other replicas know this hub. */
const char *peers_own_name(const struct peers *p);
/* The serial number of the certificate that the replica of this name shows; false: none is
 * connected. */
bool peers_serial(const struct peers *p, const char *name, char serial[PKI_SERIAL_TEXT]);
/* Rows of hub_hubs, each with a comma in front. */
void peers_serials(const struct peers *p, struct buf *out);
/* [{"peer","address","state","nodes","streams","rtt_ms","since_s","error",...}] */
void peers_state(const struct peers *p, struct buf *out);
void peers_metrics(const struct peers *p, struct metrics *m);

#endif
