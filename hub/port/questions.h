/*
 * What the hub has asked a node on its websocket and waits for (doc/protocol.md, "Questions"): a
 * leaf of hub/sync/node_session. Who asks owns the question and keeps his own deadline; he is told
 * once, by the answer, the node's refusal or the end of the connection, unless he drops it before.
 * On the hub's loop.
 *
 *	q->answered = on_answered, q->arg = me;
 *	rc = nodes_ask(nodes, "edge-1", "default/web", q);	// 0: `answered` comes, not from within this call
 *	question_drop(q);	// allowed at any time
 */
#ifndef EDGEWAY_HUB_PORT_QUESTIONS_H
#define EDGEWAY_HUB_PORT_QUESTIONS_H

#include <sys/queue.h>

#include "model/envelope.h"

enum { QUESTIONS_MOST = 32 /* that wait for one node */, QUESTION_WHY_MAX = 200 };

/* rc 0: text is JSON, as the node has sent it; -EREMOTEIO: the node's reason why not, a sentence;
 * -ENOTCONN: its connection has ended. */
typedef void question_fn(void *arg, int rc, const char *text, size_t len);

struct questions;

struct question {
	LIST_ENTRY(question) link;
	struct questions *of; /* NULL: nothing is waited for */
	question_fn *answered;
	void *arg;
	char id[37];
};

struct questions {
	LIST_HEAD(, question) all;
	unsigned n;
};

/* Gives it an id; -EBUSY: too many wait. */
int questions_add(struct questions *all, struct question *q);
/* Is this the answer to one of them? Then it has been told. */
bool questions_answer(struct questions *all, const struct envelope *e);
/* All are told that the connection has ended. */
void questions_end(struct questions *all);
void question_drop(struct question *q);

#endif
