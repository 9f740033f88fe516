/*
 * What the files of the link share: link.c (keeps a connection, renews and drains it) and
 * link_tell.c (state, metrics). Nothing outside of these includes it.
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
	/* Why it takes no new streams: whether anybody is there is not known. NULL: it takes
	 * them. */
	const char *doubt;
	/* this machine's way to the hub begins elsewhere now: another connection is to take its
	 * place */
	bool rerouted;
};

TAILQ_HEAD(log_queue, line);

struct tunnel_client {
	struct tunnel_client_config config;
	struct session_budget budget;
	struct session_limits limits;
	struct timer *retry, *drained;
	struct tunnel_client_hub hub; /* tls NULL: not known yet */
	struct line *dialling; /* becomes `now` */
	struct line *now; /* takes new streams */
	struct log_queue leaving; /* finish what they have */
	uint64_t backoff_ms;
	bool draining;
	bool held; /* nothing is dialled */
	bool wanted;
	loop_fn *done;
	void *done_arg;
	char error[256]; /* why the last attempt failed, "" none */
	struct session_stats past;
	uint64_t opened, failed, lost, renewed, dead, doubted;
};

#endif
