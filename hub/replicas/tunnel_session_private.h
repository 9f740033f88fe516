/*
 * Shared by the files of sessions on workers: tunnel_session.c (workers and sessions),
 * tunnel_crossing.c (streams to nodes, on the worker) and relay_worker.c (relays there). No other
 * file includes it. Each member is one loop's: what the other loop needs of it goes in a post.
 */
#ifndef EDGEWAY_HUB_REPLICAS_TUNNEL_SESSION_PRIVATE_H
#define EDGEWAY_HUB_REPLICAS_TUNNEL_SESSION_PRIVATE_H

#include <sys/queue.h>

#include "hub/replicas/relay_worker.h"

enum { SESSION_WORKER_BUCKETS = 4096 };

struct session_worker {
	struct session_workers *of;
	struct loop *loop; /* the worker's */
	/* the owner's */
	struct session *near; /* its end of what crosses; NULL: not yet, or lost */
	bool began; /* there was one: the worker may have its end, and crossings */
	struct session_budget counted; /* as of the last count */
	unsigned n_counts;
	uint64_t counted_ms; /* when that was, or the first session began; 0: there is none */
	/* the worker's */
	struct timer *counter; /* NULL: not yet */
	struct session *far;
	struct session_budget budget, crossing_budget;
	LIST_HEAD(, tunnel_session) sessions[SESSION_WORKER_BUCKETS]; /* by id */
	LIST_HEAD(, crossing) crossings[SESSION_WORKER_BUCKETS]; /* by the stream's number */
};

struct session_workers {
	struct loop *loop; /* the owner's */
	enum session_role role; /* of the nodes' sessions, and of the owner's ends */
	struct session_budget budget; /* of `near` of all */
	struct fair_share *shares; /* of nodes, on all loops; NULL: they open no streams */
	uint64_t last_id;
	LIST_HEAD(, tunnel_session) owned[SESSION_WORKER_BUCKETS]; /* the owner's, by id */
	size_t n;
	struct session_worker workers[];
};

struct tunnel_session {
	struct session_worker *worker; /* NULL: `session` is the owner's */
	uint64_t id; /* among the workers' sessions */
	uint16_t slot; /* the node's, of `shares` */
	char *node;
	/* the owner's */
	LIST_ENTRY(tunnel_session) own;
	struct loop *loop;
	const struct session_events *events;
	void *arg;
	struct liveness_line line; /* joined and left by the owner, read and set by the session */
	bool silent, drains, ended; /* as told */
	/* the worker's */
	LIST_ENTRY(tunnel_session) link;
	struct session *session; /* NULL: not yet, or no longer */
	/* the owner's, as of the worker's last count that found a change, or of the end */
	struct session_stats stats;
	unsigned since, since_count; /* how many streams were opened since the worker's nth count */
	/* the worker's, until `ended`, or until the owner has waited: what it has told last */
	struct session_stats last;
	int rc;
	char why[128];
};

/* A relay on a worker has two parts: struct relay_worker (relay_worker.c), and until it begins the
 * crossing that it takes the stream from. */
struct crossing;

/* Runs fn on the worker while the owner waits, behind all that was posted there before. */
void session_worker_ask(struct session_worker *w, loop_fn *fn, void *arg);
/* On the worker: NULL: it has ended. */
struct tunnel_session *session_worker_find(const struct session_worker *w, uint64_t id);

/* In tunnel_crossing.c, on the worker. */
#define CROSSING_SESSION "edgeway-session" /* field: the id */
#define CROSSING_HELD "edgeway-held" /* field: the stream waits for crossing_take */
unsigned crossing_opened(
	void *worker, struct stream *st, const struct stream_request *request, const char **reason);
/* The same for a stream that the node has opened in this session: it goes to the owner. */
unsigned crossing_opened_by_node(void *tunnel_session, struct stream *st,
	const struct stream_request *request, const char **reason);
/* NULL: it has ended. */
struct crossing *crossing_find(const struct session_worker *w, int32_t id);
/* Once all that crosses has come, and the crossing stream has ended: `taken` gets the node's
 * stream, and the crossing is gone; NULL: it was reset. */
typedef void crossing_taken_fn(void *arg, struct stream *stream);
void crossing_take(struct crossing *c, crossing_taken_fn *taken, void *arg);
/* Resets both streams; `taken` is not called. */
void crossing_free(struct crossing *c);

#endif
