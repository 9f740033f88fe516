/*
 * A question of the hub (doc/protocol.md, "Questions"): how healthy are the endpoints of a service,
 * seen from this node? Plain data; meta/client/hub_client_answer.c reads it, and the callee passes
 * it back to meta_answer.
 */
#ifndef EDGEWAY_META_CLIENT_QUESTION_H
#define EDGEWAY_META_CLIENT_QUESTION_H

#include "meta/client/message.h"

enum { QUESTION_ID_MAX = 64 };

struct meta_question {
	unsigned connection; /* the one that it came by */
	char id[QUESTION_ID_MAX + 1];
	struct message_service service;
};

/* Answer once, now or within seconds. */
typedef void meta_asked_fn(void *arg, const struct meta_question *question);

#endif
