/*
 * Shared by the files of the tunnel client: tunnel_client.c (keeps a connection, renews and drains
 * it) and tunnel_client_tell.c (state, metrics). No other file includes it.
 */
#ifndef EDGEWAY_TUNNEL_NODE_TUNNEL_CLIENT_PRIVATE_H
#define EDGEWAY_TUNNEL_NODE_TUNNEL_CLIENT_PRIVATE_H

#include <sys/queue.h>

#include "tunnel/node/tunnel_client.h"
#include "tunnel/node/tunnel_client_dial.h"

/* One connection: an attempt, then a session. */
struct line {
	TAILQ_ENTRY(line) next;
	struct tunnel_client *of;
	struct tunnel_client_dial *dial; /* until it is open */
	struct session *session;
	uint64_t certificate, since_ms;
	char address[ADDR_TEXT_MAX];
	/* Why it takes no new streams: it is not known whether the hub is there. NULL: it takes
	 * them. */
	const char *doubt;
	/* this machine's path to the hub now starts at another address: another connection is to
	 * replace this one */
	bool rerouted;
};

TAILQ_HEAD(lines, line);

struct tunnel_client {
	struct tunnel_client_config config;
	struct session_budget budget;
	struct session_limits limits;
	struct timer *retry, *drained;
	struct tunnel_client_hub hub; /* tls NULL: hub not known yet */
	struct line *dialling; /* becomes `now` */
	struct line *now; /* takes new streams */
	struct lines leaving; /* finish their streams, then close */
	uint64_t backoff_ms;
	bool draining;
	bool held; /* nothing is dialled */
	bool wanted;
	loop_fn *done;
	void *done_arg;
	char error[256]; /* why the last attempt failed; "": it did not */
	struct session_stats past;
	uint64_t opened, failed, lost, renewed, dead, doubted;
};

#endif
