/*
 * The tunnels of the nodes that are connected to this hub, found by the name in the node's
 * certificate and nothing else. A newer connection of a node takes its new streams (epochs give the
 * order); the older one finishes its streams, and its end, however late, does not affect the newer
 * one. A tunnel is closed when its certificate is revoked, or has expired and the node has no newer
 * tunnel with a valid one: streams in an older tunnel survive the expiry as long as the node
 * renews. Epochs are common to all hubs: a new one is higher than every known one, here and at
 * other hubs, and not lower than the clock in ms. Everything on the loop's thread.
 *
 * A node may have a standby tunnel beside its tunnel to another hub (agent's hub.tunnels): new
 * streams use it where no other tunnel of the node takes them, here or at another replica that
 * answers. Its epoch, by which replicas choose, is lower than those of all others. So a stolen
 * certificate gains nothing by a standby tunnel while the node's own tunnel answers. It replaces no
 * tunnel but an older standby one, and is replaced only by a newer one.
 *
 *	// a socket whose ClientHello asks for TUNNEL_ALPN_REVERSE
 *	tunnels_adopt(tunnels, fd, NULL, false);
 *	rc = tunnels_open(tunnels, "edge-1", &(struct stream_request){.authority = "edge-1:10250"},
 *		&events, c, &c->stream);
 */
#ifndef EDGEWAY_HUB_REPLICAS_TUNNELS_H
#define EDGEWAY_HUB_REPLICAS_TUNNELS_H

#include <errno.h>
#include <string.h>

#include "base/core/metric.h"
#include "tunnel/tunnel.h"

struct tunnels;
struct floods;
struct tls_workers;
struct session_workers;
struct ssl_ctx_st;

enum {
	TUNNELS_MOST = 20000,
	TUNNELS_OLDER_MOST = 16, /* of one node and kind, that finish their streams */
	/* how long a node is expected after it was lost or since the hub's start */
	TUNNELS_LATELY_MS = 15 * 1000,
	TUNNELS_LEFT_MS = 5 * 1000, /* after it left in good order */
	TUNNELS_MEMORY = 64 << 20, /* for windows, at least and at most (session_budget_limit) */
	TUNNELS_MEMORY_MOST = 512 << 20,
};

/* Events of a node's tunnels for the owner. */
enum tunnel_news {
	TUNNEL_CAME, /* a tunnel that takes new streams */
	TUNNEL_ASKS, /* the node wants the hub to ask again (session_ask_anew) */
	TUNNEL_GONE, /* the last tunnel has ended */
};

struct tunnels_setup {
	struct loop *loop;
	/* server context; borrowed until tunnels_renew or tunnels_free. NULL: no tunnel can be
	 * adopted */
	struct ssl_ctx_st *tls;
	uint64_t heartbeat_ms; /* 0: 4 s; a tunnel silent for twice that and 1 s is dead */
	struct liveness *liveness; /* of nodes, by name; outlives it; NULL: pings alone tell */
	/* of all windows beyond their base of sessions on `loop`; 0: by the machine */
	size_t memory_limit;
	bool squeeze; /* ask nodes to send clear text deflated */
	size_t most; /* 0: TUNNELS_MOST */
	/* does the handshakes; outlives it; NULL: they are done on `loop` */
	struct tls_workers *workers;
	/* have the sessions; outlive it; NULL, as always if `opened` is set: `loop` has them */
	struct session_workers *sessions;
	struct preauth *preauth; /* limits handshakes; outlives it; NULL: no limit */
	/* bars nodes from tunnels for a while (tunnel/node/floods.h); outlives it; NULL: none are
	 * barred */
	struct floods *floods;
	/* Set: the nodes open the streams (TUNNEL_ALPN_FORWARD), as `opened` of session_events.
	 * NULL: the hub does. */
	unsigned (*opened)(void *arg, const char *node, struct stream *st,
		const struct stream_request *request, const char **reason);
	void *opened_arg;
	/* NULL: no events. Called from the loop's turns, not from within a call, except for
	 * tunnels_revoked and tunnels_check. */
	void (*news)(void *arg, const char *node, enum tunnel_news news);
	/* This hub's tunnel to the node has changed: see tunnels_epoch. Also called from within
	 * calls of this header, and more often than needed. NULL: nobody needs it. */
	void (*changed)(void *others, const char *node);
	/* Returns the highest epoch that another hub claims for the node; 0: none. NULL: there are
	 * no other hubs. */
	uint64_t (*claimed)(void *others, const char *node);
	void *others;
	/* Returns true if a certificate with this serial number is revoked. NULL: none is. */
	bool (*refuses)(void *arg, const char *node, const char *serial);
	void *arg;
};

struct tunnels *tunnels_new(const struct tunnels_setup *setup);
/* Streams end with STREAM_LOST. */
void tunnels_free(struct tunnels **t);

/* fd: accepted, nothing read yet; taken over: after its handshake it is the node's tunnel. from:
 * its source address, for people; NULL: the socket's remote address. standby: its ClientHello asks
 * for TUNNEL_ALPN_STANDBY. */
void tunnels_adopt(struct tunnels *t, int fd, const char *from, bool standby);
/* New handshakes use this certificate. */
void tunnels_renew(struct tunnels *t, struct ssl_ctx_st *tls);
/* Closes what the node opened with revoked certificates. Returns how many. */
unsigned tunnels_revoked(struct tunnels *t, const char *node);
/* The same for all nodes, and for expired certificates. Also runs from time to time by itself. */
void tunnels_check(struct tunnels *t);

/* Events go to `events` as session_open says. 0; -ENOTCONN: no tunnel of this node; -EAGAIN: too
 * many streams; -ESHUTDOWN: it drains; -EINVAL: invalid request. */
int tunnels_open(struct tunnels *t, const char *node, const struct stream_request *request,
	const struct stream_events *events, void *arg, struct stream **out);
/* Describes an error of tunnels_open. */
static inline const char *
tunnels_why_not(int rc)
{
	switch (rc) {
	case -EINVAL:
		return "what is asked for is no target";
	case -EAGAIN:
		return "the node has as many streams as its tunnel carries";
	case -EINPROGRESS:
		return "the node's tunnel has just begun, and does not say yet whether it carries "
		       "UDP";
	case -EPROTONOSUPPORT:
		return "the node's agent carries no UDP yet: it needs the hub's version";
	default:
		return strerror(-rc);
	}
}
/* Returns true if the node has a tunnel that takes new streams. */
bool tunnels_have(const struct tunnels *t, const char *node);
/* For a node without one: returns true if its tunnel broke a moment ago, or if this hub started to
 * accept tunnels a moment ago and the node has not come yet, so that it may come any moment; with
 * `left` also if it is leaving or left in good order, as an agent that is restarted does. False if
 * it was cut off. */
bool tunnels_await(const struct tunnels *t, const char *node, bool left);
/* Tells the node that its websocket has ended here, which it may not know: a NAT that has forgotten
 * that connection alone passes nothing on. */
void tunnels_ask_anew(const struct tunnels *t, const char *node);
/* Returns true if there is a tunnel that would take streams, if its node answered. */
bool tunnels_silent(const struct tunnels *t, const char *node);
/* The epoch of the tunnel that takes new streams; 0: none. */
uint64_t tunnels_epoch(const struct tunnels *t, const char *node);
/* Calls fn for each node for which tunnels_have returns true. */
void tunnels_each(const struct tunnels *t, void (*fn)(void *arg, const char *node, uint64_t epoch),
	void *arg);
/* Another hub has the node's tunnel of this epoch: older ones here only finish their streams. */
void tunnels_yield(struct tunnels *t, const char *node, uint64_t epoch);
/* Number of open streams in the node's tunnels. */
unsigned tunnels_streams(const struct tunnels *t, const char *node);
/* No new streams and no new tunnels; calls `done` once the last has ended, never from within this
 * call. */
void tunnels_drain(struct tunnels *t, void (*done)(void *arg), void *arg);

/* Data of a tunnel for displays: texts are valid until the loop's next turn. */
struct tunnel_facts {
	const char *node, *address;
	const struct session_stats *stats;
	uint64_t since_ms; /* of the loop */
	uint64_t epoch;
	int64_t ends_s; /* when its certificate expires, seconds since 1970 */
	bool takes; /* accepts new streams; else it finishes its open ones */
	bool standby;
};
/* Calls fn for each tunnel, in any order; for one node the highest epoch is the newest. */
void tunnels_look(const struct tunnels *t, void (*fn)(void *arg, const struct tunnel_facts *facts),
	void *arg);
/* Nodes with a tunnel that takes streams, those with a standby tunnel alone not counted. */
size_t tunnels_count(const struct tunnels *t);
/* Payload that these tunnels have carried, both ways. */
uint64_t tunnels_bytes(const struct tunnels *t);
/* [{"node","address","epoch","since_s","streams","rtt_ms","bytes_in","bytes_out","draining",...}],
 * the newest of a node first. */
void tunnels_state(const struct tunnels *t, struct buf *out);
/* Every stream, in the format of session_streams. */
void tunnels_streams_state(const struct tunnels *t, const char **comma, struct buf *out);
void tunnels_metrics(const struct tunnels *t, struct metrics *m);

#endif
