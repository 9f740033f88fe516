#include "meta/client/hub_client_private.h"

#include <stdio.h>
#include <string.h>

#include "base/core/log.h"
#include "model/health.h"
#include "model/json.h"

enum {
	AT_ONCE = 32, /* unanswered questions */
	PER_SECOND = 64,
};

/* Answers with the reason. Unlike hub_client_send_error it does not count towards closing the
 * connection: the hub may ask again. */
static void
hub_client_answer_decline(struct hub_client *f, const struct envelope *e, const char *why)
{
	auto_buf struct buf text;
	struct message m = {.operation = OP_ERROR, .resource = e->resource, .parent = e->id};

	buf_init(&text, BUF_UNLIMITED);
	json_add_text(&text, why);
	m.content = buf_str(&text);
	hub_client_send(f, &m, NULL);
}

static bool
too_often(struct hub_client *f)
{
	uint64_t now = loop_now_ms(f->loop);

	if (now - f->asked_ms >= 1000) {
		f->asked_ms = now;
		f->n_asked = 0;
	}
	return ++f->n_asked > PER_SECOND;
}

void
hub_client_on_question(struct hub_client *f, const struct envelope *e)
{
	struct meta_question q = {.connection = f->connection};
	struct err err = {0};

	if (message_health(&q.service, e->resource, &err) < 0) {
		hub_client_send_error(f, e, err.text);
		return;
	}
	if (strlen(e->id) > QUESTION_ID_MAX) {
		hub_client_send_error(f, e, "a question with a msg_id that is too long");
		return;
	}
	memcpy(q.id, e->id, strlen(e->id) + 1);
	if (f->asked == NULL)
		hub_client_answer_decline(f, e, "this agent does not tell");
	else if (too_often(f))
		hub_client_answer_decline(f, e, "it is asked too often");
	else if (f->n_unanswered >= AT_ONCE)
		hub_client_answer_decline(f, e, "it has too many questions to answer");
	else {
		f->n_unanswered++;
		f->asked(f->asked_arg, &q);
	}
}

void
hub_client_answer(struct hub_client *f, const struct meta_question *q, const char *json)
{
	struct message m = {.operation = OP_RESPONSE, .parent = q->id, .content = json};
	auto_free char *resource =
		xasprintf("%s/" HEALTH_KIND "/%s", q->service.ns, q->service.name);

	if (f->conn == NULL || q->connection != f->connection || f->state < SYNCING)
		return;
	m.resource = resource;
	f->n_unanswered -= f->n_unanswered > 0;
	hub_client_send(f, &m, NULL);
}
