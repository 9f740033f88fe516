/*
 * State shared by the files of the tunnels: tunnels.c (life cycle, streams), tunnels_lost.c (nodes
 * expected back) and tunnels_tell.c (state and metrics). No other file includes it. The tunnels of
 * a node are in one chain of its bucket, the latest first, standby tunnels after all others.
 */
#ifndef EDGEWAY_HUB_REPLICAS_TUNNELS_PRIVATE_H
#define EDGEWAY_HUB_REPLICAS_TUNNELS_PRIVATE_H

#include <sys/queue.h>

#include "base/core/preauth.h"
#include "base/tls/tls_handshake.h"
#include "hub/replicas/tunnel_session.h"
#include "hub/replicas/tunnels.h"

enum {
	TUNNELS_BUCKETS = 4096,
	TUNNELS_LOGGED =
		/* log lines a minute of each kind: a node may reconnect as often as it likes */
	120,
};

struct tunnel {
	TAILQ_ENTRY(tunnel) link; /* link in `handshakes` or in `open` */
	struct preauth_conn place; /* while it shakes hands */
	struct tunnel *next; /* chain of the bucket */
	struct tunnels *of;
	struct tls_handshake *handshake; /* until it is done */
	struct tls_stream *tls; /* then, until there is a session */
	struct tunnel_session *session;
	char *node;
	char serial[PKI_SERIAL_TEXT], address[ADDR_TEXT_MAX];
	int64_t ends_s; /* when its certificate expires, seconds since 1970 */
	uint64_t came; /* order of arrival at this hub */
	uint64_t epoch; /* among all hubs */
	uint64_t since_ms;
	uint64_t rests; /* as told */
	/* once expired: when a newer certificate was last known to be in use; 0: never */
	uint64_t vouched_ms;
	bool standby;
	bool older; /* finishes its open streams */
	bool proxied; /* a proxy in front of this hub ends its TCP connection */
	bool leaving; /* the node has announced that it takes no new streams */
};

TAILQ_HEAD(tunnel_ring, tunnel);

struct tunnels {
	struct tunnels_setup setup;
	struct session_budget budget;
	uint64_t seed; /* of nodes' slots of shares */
	struct session_limits limits;
	struct timer *sweep, *drained;
	struct tunnel_ring handshakes, open;
	size_t n_open;
	struct tunnel *buckets[TUNNELS_BUCKETS];
	struct tunnel_lost
		*lost[TUNNELS_BUCKETS]; /* nodes whose last tunnel has ended, for a while */
	uint64_t started_ms; /* since when nodes can connect */
	bool started;
	uint64_t last; /* the highest `came` and `epoch` */
	bool draining;
	void (*done)(void *arg);
	void *done_arg;
	struct session_stats past; /* of sessions that have ended */
	uint64_t opened, failed, refused, replaced, late, cut, dead, silent, missed, resumed;
};

/* Returns true if the node has a tunnel whose streams end, since the node stops. */
bool tunnels_leaving(const struct tunnels *t, const char *node);
/* In tunnels_lost.c. The node's last tunnel has ended with this result: 0 or -errno. */
void tunnels_note_lost(struct tunnels *t, const char *node, int rc);
/* Forgets the nodes that are not expected any more, or all. */
void tunnels_forget_lost(struct tunnels *t, bool all);
/* Returns true if the tunnel accepts new streams. */
bool tunnels_takes(const struct tunnel *u);

#endif
