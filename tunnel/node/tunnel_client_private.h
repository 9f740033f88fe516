/*
 * Shared by the files of the tunnel client: tunnel_client.c (keeps a connection, renews and drains
 * it) and tunnel_client_tell.c (state, metrics). No other file includes it.
 */
#ifndef EDGEWAY_TUNNEL_NODE_TUNNEL_CLIENT_PRIVATE_H
#define EDGEWAY_TUNNEL_NODE_TUNNEL_CLIENT_PRIVATE_H

#include <sys/queue.h>

#include "base/core/flapping.h"
#include "tunnel/node/tunnel_client.h"
#include "tunnel/node/tunnel_client_dial.h"

/* tunnel_client.c has the table; doc/states/tunnel-client.dot draws it. */
enum tunnel_conn_state {
	TUNNEL_CONN_DIALLING,
	TUNNEL_CONN_OPEN,
	TUNNEL_CONN_DOUBTED, /* no new streams: it is not known whether the hub is there */
	TUNNEL_CONN_DRAINING,
	TUNNEL_CONN_ENDED,
};

/* One connection to the hub. */
struct tunnel_conn {
	enum tunnel_conn_state state;
	TAILQ_ENTRY(tunnel_conn) next;
	struct tunnel_client *client;
	struct tunnel_client_dial *dial; /* until it is open */
	struct session *session;
	struct liveness_line line; /* of the session */
	uint64_t certificate, since_ms;
	char address[ADDR_TEXT_MAX];
	const char *doubt; /* while doubted: why */
	/* this machine's path to the hub now starts at another address: another connection is to
	 * replace this one */
	bool rerouted;
	bool multipath; /* dialled so; the hub may have none */
};

TAILQ_HEAD(tunnel_conns, tunnel_conn);

struct tunnel_client {
	struct tunnel_client_config config;
	struct session_budget budget;
	struct session_limits limits;
	struct timer *retry, *drained;
	struct tunnel_client_hub hub; /* tls NULL: hub not known yet */
	struct tunnel_conn *dialling; /* becomes `current` */
	struct tunnel_conn *current; /* takes new streams unless it is doubted */
	struct tunnel_conns leaving; /* finish their streams, then close */
	uint64_t backoff_ms;
	uint64_t asked_ms; /* the hub asked to wait at least so long before the next dial */
	bool heeds; /* the wait under way is the hub's wish */
	bool draining;
	bool multipath; /* this machine has several uplinks */
	bool held; /* nothing is dialled */
	bool wanted;
	loop_fn *done;
	void *done_arg;
	char error[256]; /* why the last attempt failed; "": it did not */
	struct flapping ends; /* against our will */
	struct session_stats past;
	uint64_t opened, failed, lost, renewed, doubted, told_to_wait;
};

#endif
