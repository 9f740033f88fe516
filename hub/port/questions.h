/*
 * Pending queries from the hub to a node on its websocket (doc/protocol.md, "Questions"); used by
 * hub/sync/node_session. The caller owns the question and keeps its own deadline. The callback
 * comes once, with the answer, the node's refusal or the end of the connection, unless the caller
 * drops the question before. On the hub's loop.
 *
 *	q->answered = on_answered, q->arg = me;
 *	rc = nodes_ask(nodes, "edge-1", "default/web", q);	// 0: `answered` comes, not from within this call
 *	question_drop(q);	// allowed at any time
 */
#ifndef EDGEWAY_HUB_PORT_QUESTIONS_H
#define EDGEWAY_HUB_PORT_QUESTIONS_H

#include <sys/queue.h>

#include "model/envelope.h"

enum { QUESTIONS_MOST = 32 /* pending for one node */, QUESTION_WHY_MAX = 200 };

/* rc 0: text is JSON as the node sent it; -EREMOTEIO: the node's reason for refusing, a sentence;
 * -ENOTCONN: its connection has ended. */
typedef void question_fn(void *arg, int rc, const char *text, size_t len);

struct questions;

struct question {
	LIST_ENTRY(question) link;
	struct questions *of; /* NULL: not pending */
	question_fn *answered;
	void *arg;
	char id[37];
};

struct questions {
	LIST_HEAD(, question) all;
	unsigned n;
};

/* Assigns an id; -EBUSY: too many are pending. */
int questions_add(struct questions *all, struct question *q);
/* True if this answers one of them; its callback has then been called. */
bool questions_answer(struct questions *all, const struct envelope *e);
/* Tells all callers that the connection has ended. */
void questions_end(struct questions *all);
void question_drop(struct question *q);

#endif
