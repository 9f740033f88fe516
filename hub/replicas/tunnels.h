/*
 * The tunnels of the nodes that are connected to this hub, by the name in the node's certificate
 * and nothing else. A newer connection of a node takes its new streams (epochs: the order of their
 * coming); the older one finishes those it has, and its end, however late, touches the newer one no
 * more. A tunnel is cut when its certificate is revoked, or ends and the node has no newer tunnel
 * with one that is good: what runs in an older tunnel outlives its certificate as long as the node
 * renews. Epochs count among all hubs: a new one is above every one that is known, here and of
 * other hubs, and not below the clock in ms. Everything on the loop's thread.
 *
 *	tunnels_adopt(tunnels, fd, NULL);	// a socket whose ClientHello asks for TUNNEL_ALPN_REVERSE
 *	rc = tunnels_open(tunnels, "edge-1", &(struct stream_request){.authority = "edge-1:10250"}, &events, c, &c->stream);
 */
#ifndef EDGEWAY_HUB_REPLICAS_TUNNELS_H
#define EDGEWAY_HUB_REPLICAS_TUNNELS_H

#include "base/core/metric.h"
#include "tunnel/tunnel.h"

struct tunnels;
struct floods;
struct ssl_ctx_st;

enum {
	TUNNELS_MOST = 20000,
	TUNNELS_OLDER_MOST = 16, /* of one node, that finish what they have */
	TUNNELS_LATELY_MS = 15 *
		/* a node that was lost, or has not come since the start, is expected for so long */
		1000,
	TUNNELS_MEMORY = 64 << 20,
};

/* What the owner is told of a node's tunnels. */
enum tunnel_news {
	TUNNEL_CAME, /* one that takes new streams */
	TUNNEL_ASKS, /* the node wants to be asked (session_ask_anew) */
	TUNNEL_GONE, /* the last one has ended */
};

struct tunnels_setup {
	struct loop *loop;
	/* server context; borrowed until tunnels_renew or tunnels_free. NULL: nothing can be
	 * adopted */
	struct ssl_ctx_st *tls;
	uint64_t heartbeat_ms; /* 0: 4 s; a tunnel silent for twice that and 1 s is dead */
	size_t memory_limit; /* of all sessions' windows beyond their base; 0: TUNNELS_MEMORY */
	bool squeeze; /* ask nodes for clear text that is smaller on the wire */
	size_t most; /* 0: TUNNELS_MOST */
	struct preauth *preauth; /* places of handshakes; outlives it; NULL: any number */
	struct floods *floods; /* nodes that rest; outlives it; NULL: none do */
	/* Set: the nodes open the streams (TUNNEL_ALPN_FORWARD), as `opened` of session_events.
	 * NULL: the hub does. */
	unsigned (*opened)(void *arg, const char *node, struct stream *st,
		const struct stream_request *request, const char **reason);
	void *opened_arg;
	/* NULL: nobody is told. From the loop's turns, not from within a call but tunnels_revoked
	 * and tunnels_check. */
	void (*news)(void *arg, const char *node, enum tunnel_news news);
	/* What this hub can do for the node has changed: tunnels_epoch tells. Also from within
	 * calls of this header, and more often than needed. NULL: nobody wants to know. */
	void (*changed)(void *others, const char *node);
	/* The highest epoch that another hub claims for the node; 0: none does. NULL: there are no
	 * others. */
	uint64_t (*claimed)(void *others, const char *node);
	void *others;
	/* Is a certificate with this serial number revoked? NULL: none is. */
	bool (*refuses)(void *arg, const char *node, const char *serial);
	void *arg;
};

struct tunnels *tunnels_new(const struct tunnels_setup *setup);
/* Streams are told STREAM_LOST. */
void tunnels_free(struct tunnels **t);

/* fd: accepted, not a byte read, taken: it shakes hands, and is the node's tunnel then. from: where
 * it comes from, for people; NULL: the socket's other end. */
void tunnels_adopt(struct tunnels *t, int fd, const char *from);
/* Handshakes to come are with this certificate. */
void tunnels_renew(struct tunnels *t, struct ssl_ctx_st *tls);
/* Cuts what the node's revoked certificates have opened. How many. */
unsigned tunnels_revoked(struct tunnels *t, const char *node);
/* The same for all nodes, and what has expired. Also from time to time by itself. */
void tunnels_check(struct tunnels *t);

/* The owner is told by `events` as session_open says. 0; -ENOTCONN: no tunnel of this node;
 * -EAGAIN: too many streams;
 * -ESHUTDOWN: it drains; -EINVAL: a bad request. */
int tunnels_open(struct tunnels *t, const char *node, const struct stream_request *request,
	const struct stream_events *events, void *arg, struct stream **out);
/* Would it take a stream? */
bool tunnels_have(const struct tunnels *t, const char *node);
/* It does not: did the node's tunnel break a moment ago, or has it not come yet since this hub
 * began to take tunnels a moment ago? Then it may come any moment. Not when it left in good order
 * or was cut. */
bool tunnels_await(const struct tunnels *t, const char *node);
/* Is there one that would, if its node answered? */
bool tunnels_silent(const struct tunnels *t, const char *node);
/* The epoch of the tunnel that would; 0: none. */
uint64_t tunnels_epoch(const struct tunnels *t, const char *node);
/* Calls fn for each node of which tunnels_have is true. */
void tunnels_each(const struct tunnels *t, void (*fn)(void *arg, const char *node, uint64_t epoch),
	void *arg);
/* Another hub has the node's tunnel of this epoch: those here that are older finish what they
 * have. */
void tunnels_yield(struct tunnels *t, const char *node, uint64_t epoch);
/* Streams in the node's tunnels, now. */
unsigned tunnels_streams(const struct tunnels *t, const char *node);
/* No new streams and no new tunnels; `done` once the last has ended, not from within this call. */
void tunnels_drain(struct tunnels *t, void (*done)(void *arg), void *arg);

/* A tunnel, for those who look on: texts are good until the loop's next turn. */
struct tunnel_facts {
	const char *node, *address;
	const struct session_stats *stats;
	uint64_t since_ms; /* of the loop */
	uint64_t epoch;
	int64_t ends_s; /* its certificate, seconds since 1970 */
	bool takes; /* new streams; else it finishes what it has */
};
/* Calls fn for each, in any order; of one node that with the highest epoch is the newest. */
void tunnels_look(const struct tunnels *t, void (*fn)(void *arg, const struct tunnel_facts *facts),
	void *arg);
size_t tunnels_count(const struct tunnels *t); /* nodes with a tunnel that takes streams */
/* [{"node","address","epoch","since_s","streams","rtt_ms","bytes_in","bytes_out","draining",...}],
 * the newest of a node first. */
void tunnels_state(const struct tunnels *t, struct buf *out);
/* Every stream, as session_streams. */
void tunnels_streams_state(const struct tunnels *t, const char **comma, struct buf *out);
void tunnels_metrics(const struct tunnels *t, struct metrics *m);

#endif
