/* A node's session on a worker, or on the test's loop without any: the hub's end, the node's end,
 * which sends back what comes, and callers. */
#ifndef EDGEWAY_TESTS_UNIT_HUB_REPLICAS_TUNNEL_SESSION_BED_H
#define EDGEWAY_TESTS_UNIT_HUB_REPLICAS_TUNNEL_SESSION_BED_H

#include "hub/replicas/tunnel_session_private.h"
#include "tests/unit/base/tls/workers_bed.h"

enum { FIRST = 1000 };

struct node { /* on the test's loop */
	struct session *session;
	struct session_budget budget;
	struct stream *stream; /* the latest */
	struct stream *former[64];
	unsigned n_former, opened, drained, ended, reset;
	unsigned resets_with; /* the code */
	char authority[64], field[64]; /* of the latest */
};

struct tunnel {
	struct tunnel_session *session; /* the hub's end */
	struct node node;
	unsigned drained, ended, silent, asked;
	int rc;
};

struct caller {
	struct stream *stream;
	struct relay_worker *relay;
	unsigned answered, status, reset, ended;
	struct relay_report report;
	char reason[64], got[64];
	size_t n;
};

extern struct session_workers *bed_workers; /* NULL in a test without them */
extern bool bed_squeeze; /* of the next tunnel */
/* Of the hub's end. SESSION_SERVER: the node opens the streams, and `node` has those at the hub. */
extern enum session_role bed_role;

#define until(condition) patience_until(patience_turn(loop), condition)

/* Tests for cmocka: on workers; there and on one loop. */
#define ON_WORKERS(test)                                                                           \
	{                                                                                          \
#		test, test, bed_with_workers, bed_end_workers, NULL                               \
	}
#define BOTH(test)                                                                                 \
	ON_WORKERS(test),                                                                          \
	{                                                                                          \
#		test " on one loop", test, bed_without, bed_end_workers, NULL                     \
	}

int bed_with_workers(void **state);
int bed_without(void **state);
int bed_end_workers(void **state);

void bed_start(struct tunnel *t);
void bed_end(struct tunnel *t);
/* The node's. */
void bed_close_streams(struct node *n);

/* Dials; what tunnel_session_open returns. */
int bed_ask(struct tunnel *t, struct caller *c, const char *target, bool held);
/* Dials what sends back, and waits for the answer. */
void bed_reach(struct tunnel *t, struct caller *c, bool held);
/* Says something to it, which comes back. */
void bed_echo(struct caller *c);
/* Dials where nobody listens, and is told so. */
void bed_refused(struct tunnel *t, struct caller *c);
/* Has the worker join its stream, which was opened with `held`, with a socket; returns the caller's
 * end of that. rate: NULL: no limit. */
int bed_join(struct caller *c, struct rate *rate);
/* For session_worker_ask: the next stream of the session, which opens them, has the last id. */
void bed_on_use_up(void *session);
/* The same: a session has as many given-up streams that wait for its wire as it may,
 * and has them no more. */
void bed_on_crowd(void *session);
void bed_on_crowd_left(void *session);
/* A caller's stream_events. */
void bed_on_answered(void *arg, unsigned status, const char *reason);
void bed_on_reset(void *arg, unsigned code);

#endif
