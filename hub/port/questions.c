#include "hub/port/questions.h"

#include <errno.h>
#include <string.h>

#include "model/json.h"

int
questions_add(struct questions *all, struct question *q)
{
	if (all->n >= QUESTIONS_MOST)
		return -EBUSY;
	envelope_new_id(q->id);
	q->of = all;
	LIST_INSERT_HEAD(&all->all, q, link);
	all->n++;
	return 0;
}

void
question_drop(struct question *q)
{
	if (q->of == NULL)
		return;
	LIST_REMOVE(q, link);
	q->of->n--;
	q->of = NULL;
}

/* The reason is a JSON string, as peers send it with `error`; otherwise a text of our own. */
static void
tell_refusal(const struct question *q, const struct envelope *e)
{
	auto_free char *why = NULL;
	struct json j;

	if (e->content_len > 0) {
		json_init(&j, e->content, e->content_len);
		json_text(&j, &why, QUESTION_WHY_MAX);
		if (json_finish(&j, NULL) < 0)
			free(take_ptr(&why));
	}
	if (why == NULL)
		why = xstrdup("it refuses, and does not say why");
	q->answered(q->arg, -EREMOTEIO, why, strlen(why));
}

bool
questions_answer(struct questions *all, const struct envelope *e)
{
	struct question *q;

	LIST_FOREACH(q, &all->all, link) {
		if (strcmp(q->id, e->parent_id) == 0)
			break;
	}
	if (q == NULL)
		return false;
	question_drop(q);
	if (e->operation == OP_ERROR)
		tell_refusal(q, e);
	else
		q->answered(q->arg, 0, e->content, e->content_len);
	return true;
}

void
questions_end(struct questions *all)
{
	struct question *q;

	while ((q = LIST_FIRST(&all->all)) != NULL) {
		question_drop(q);
		q->answered(q->arg, -ENOTCONN, "", 0);
	}
}
