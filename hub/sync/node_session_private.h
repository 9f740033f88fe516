/*
 * State shared by the files of a node session: node_session.c (received messages, sending,
 * beginning and end), node_session_compare.c (digests), node_session_say.c (small messages),
 * node_session_ask.c (questions), node_session_pods.c (pods by their address) and
 * node_session_tell.c (state for others). No other file includes it.
 */
#ifndef EDGEWAY_HUB_SYNC_NODE_SESSION_PRIVATE_H
#define EDGEWAY_HUB_SYNC_NODE_SESSION_PRIVATE_H

#include "base/core/rate.h"
#include "hub/port/refusals.h"
#include "hub/sync/inflight.h"
#include "hub/sync/node_filter.h"
#include "hub/sync/node_session.h"
#include "hub/sync/outbox.h"
#include "hub/sync/pending.h"
#include "hub/sync/unserved.h"
#include "model/envelope.h"

struct node_session {
	struct node_session_config config;
	struct ws_conn *conn;
	char *node, *site, *zone, *address, *agent;
	uint64_t since_ms;

	bool live; /* the node has sent its digests: changes are sent */
	bool synced; /* all differences have been sent, too */
	uint64_t gate_ticket; /* until it is */
	bool ended;
	char *held_id; /* query that waits for the source; NULL: none */
	struct digests held;

	struct fanout_watch watch;
	struct node_filter sight;
	struct pending pending;
	/* query to be answered with {"synced":true} once popped has reached sync_at */
	char *sync_id;
	uint64_t sync_at;

	struct inflight flights; /* unacknowledged */
	struct outbox outbox;
	uint64_t n_acks;
	struct unserved unserved;
	struct refusals refusals; /* reasons of the items with PENDING_REFUSED */
	bool takes_ranges; /* it has told its pods: it is told the ranges of pods' addresses */
	uint64_t ranges; /* hash of those that it was told; 0: none */
	char *pods_told; /* the pods that the node holds, while the source is being read */
	struct rate_count pod_asks, pod_names; /* its queries of pods, and of their names */
	struct questions questions; /* not yet answered by the node */
	uint64_t callers; /* hash of the list that it was sent, 0: none */
	struct buf callers_next; /* rest of that list that could not be sent yet */
};

/* --- node_session.c ------------------------------------------------------------------------- */
/* From now on changes are sent as they come. */
void node_session_go_live(struct node_session *s);
/* Reports that the node is synced once everything that the comparison found has been sent. */
void node_session_finish_sync(struct node_session *s);

/* --- node_session_compare.c ----------------------------------------------------------------- */
/* The node's digests of all buckets; they are kept until the source has been read. */
void node_session_compare_buckets(struct node_session *s, const struct envelope *e);
/* The services in some buckets: queues what differs. */
void node_session_compare_services(struct node_session *s, const struct envelope *e);
/* Answers the digests that were kept. */
void node_session_answer_held(struct node_session *s);

/* --- node_session_pods.c -------------------------------------------------------------------- */
/* Which pods the node holds by their address, of an earlier session. */
void node_session_pods(struct node_session *s, const struct envelope *e);
/* The same, once the source has been read. */
void node_session_pods_ready(struct node_session *s);
/* The node asks for a pod, or for its name. */
void node_session_ask_pod(struct node_session *s, const struct envelope *e);

/* --- node_session_say.c --------------------------------------------------------------------- */
void node_session_say(struct node_session *s, enum operation op, const char *resource,
	const char *parent, struct buf *content);
void node_session_say_as(struct node_session *s, const struct saying *say, const char *id);
void node_session_say_hello(struct node_session *s);
/* The node is in step, or gone. */
void node_session_leave_gate(struct node_session *s);
void node_session_say_synced(struct node_session *s, const char *parent);
/* Reports an error to the node. Ends the connection of a node that sends faster than it reads
 * these. */
void node_session_complain(
	struct node_session *s, const char *parent, const char *resource, const char *why);

#endif
