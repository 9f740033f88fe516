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

/* One end of a pair of sockets, and the HTTP/2 session there of what crosses. The one that opens
 * the streams makes the pair, and another once the numbers of streams are used up; then the former
 * pair is gone with its last stream. */
struct crossing_end {
	LIST_ENTRY(crossing_end) link;
	struct session_worker *worker;
	bool owner; /* it is the owner's, else the worker's */
	int fd; /* until there is a session */
	struct session *session;
	uint64_t pair; /* its number, as in each the streams are numbered anew */
};

LIST_HEAD(crossing_ends, crossing_end); /* the first one is in use, others drain */

struct session_worker {
	struct session_workers *of;
	struct loop *loop; /* the worker's */
	uint64_t last_pair; /* of whichever of the two opens streams */
	/* the owner's */
	struct crossing_ends near;
	bool began; /* it has had a session, and so may have `far`, and crossings */
	struct session_budget counted; /* as of the last count */
	unsigned n_counts;
	uint64_t counted_ms; /* when that was, or the first session began; 0: there is none */
	/* the worker's */
	struct timer *counter; /* NULL: not yet */
	struct crossing_ends far;
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

/* As session_open, on the loop of `ends`. -EAGAIN: or no pair can be made. */
int crossing_open(struct session_worker *w, struct crossing_ends *ends,
	const struct stream_request *request, const struct stream_events *events, void *arg,
	struct stream **out);
/* What crosses there is lost. */
void crossing_ends_free(struct crossing_ends *ends);

/* In tunnel_crossing.c, on the worker. */
#define CROSSING_SESSION "edgeway-session" /* field: the id */
#define CROSSING_HELD "edgeway-held" /* field: the stream waits for crossing_take */
unsigned crossing_opened(
	void *end, struct stream *st, const struct stream_request *request, const char **reason);
/* The same for a stream that the node has opened in this session: it goes to the owner. */
unsigned crossing_opened_by_node(void *tunnel_session, struct stream *st,
	const struct stream_request *request, const char **reason);
/* NULL: it has ended. */
struct crossing *crossing_find(const struct session_worker *w, uint64_t pair, int32_t id);
/* Once all that crosses has come, and the crossing stream has ended: `taken` gets the node's
 * stream, and the crossing is gone; NULL: it was reset. */
typedef void crossing_taken_fn(void *arg, struct stream *stream);
void crossing_take(struct crossing *c, crossing_taken_fn *taken, void *arg);
/* Resets both streams; `taken` is not called. */
void crossing_free(struct crossing *c);

#endif
