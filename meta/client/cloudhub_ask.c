#include "meta/client/cloudhub_private.h"

#include <string.h>

#include "base/core/log.h"

enum {
	QUERY_MS = 10 * 1000,
	SILENT_QUERIES = 2 * CLOUDHUB_QUERIES, /* after so many unanswered ones no more are sent */
};

static void
send_query(struct hub_client *f, const char *resource, char id[37])
{
	struct message m = {.operation = OP_QUERY, .resource = resource, .parent = ""};

	hub_client_send(f, &m, id);
}

void
cloudhub_ask_list(struct hub_client *f)
{
	f->cloudhub->list_tick = f->cloudhub->ticks;
	send_query(f, "namespace/servicelist/service", f->cloudhub->list_id);
}

void
cloudhub_forget(struct asked *q)
{
	q->id[0] = '\0';
	free(q->ns);
	free(q->service);
	q->ns = q->service = NULL;
}

void
cloudhub_ask(struct hub_client *f)
{
	struct cloudhub *c = f->cloudhub;
	struct cloudhub_cache_question q;

	for (size_t i = 0; i < CLOUDHUB_QUERIES; i++) {
		struct asked *a = &c->asked[i];
		auto_free char *resource = NULL;

		if (a->id[0] != '\0')
			continue;
		if (!cloudhub_cache_ask(c->mirror, &q))
			return;
		if (c->n_silent >= SILENT_QUERIES) {
			cloudhub_cache_give_up(c->mirror, &q);
			i--;
			continue;
		}
		a->kind = q.kind;
		a->ns = xstrdup(q.ns);
		a->service = xstrdup(q.service);
		a->at_ms = loop_now_ms(f->loop);
		resource = xasprintf(
			"%s/%s/%s", q.ns, q.kind == KUBE_POD ? "podlist" : "endpoints", q.service);
		send_query(f, resource, a->id);
	}
}

void
cloudhub_give_up(struct hub_client *f, struct asked *a)
{
	cloudhub_cache_give_up(f->cloudhub->mirror,
		&(struct cloudhub_cache_question){
			.kind = a->kind, .ns = a->ns, .service = a->service});
	cloudhub_forget(a);
}

void
cloudhub_expire(struct hub_client *f)
{
	struct cloudhub *c = f->cloudhub;
	uint64_t now = loop_now_ms(f->loop);

	for (size_t i = 0; i < CLOUDHUB_QUERIES; i++) {
		struct asked *a = &c->asked[i];

		if (a->id[0] == '\0' || now - a->at_ms < QUERY_MS)
			continue;
		cloudhub_give_up(f, a);
		if (++c->n_silent == SILENT_QUERIES)
			log_warn("meta",
				"the CloudHub does not answer questions about pods and endpoints: "
				"services wait for what it tells by itself");
	}
}

struct asked *
cloudhub_find_asked(struct cloudhub *c, const struct told *t)
{
	const char *type;

	for (size_t i = 0; i < CLOUDHUB_QUERIES; i++) {
		struct asked *a = &c->asked[i];

		if (a->id[0] == '\0')
			continue;
		if (strcmp(a->id, t->parent) == 0)
			return a;
		type = a->kind == KUBE_POD ? "podlist" : "endpoints";
		if (strcmp(a->ns, t->ns) == 0 && strcmp(a->service, t->name) == 0 &&
			strcmp(type, t->type) == 0)
			return a;
	}
	return NULL;
}

bool
cloudhub_is_asking(const struct cloudhub *c)
{
	for (size_t i = 0; i < CLOUDHUB_QUERIES; i++)
		if (c->asked[i].id[0] != '\0')
			return true;
	return false;
}

void
cloudhub_forget_all(struct cloudhub *c)
{
	for (size_t i = 0; i < CLOUDHUB_QUERIES; i++)
		cloudhub_forget(&c->asked[i]);
}
