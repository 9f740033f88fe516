#include <stdlib.h>
#include <string.h>

#include "model/health.h"
#include "src/agent/agent_private.h"

/* A question from the hub, while the workers are asked. */
struct agent_answer {
	LIST_ENTRY(agent_answer) link;
	struct agent *agent;
	struct meta_question question;
	struct lb_asking *asking;
};

static struct lb_seen
health_seen(const struct endpoint *e, const struct lb_seen *seen, size_t n)
{
	const struct lb_seen wanted = {.ip = e->ip, .port = e->port, .health = LB_UNUSED};
	const struct lb_seen *found =
		n > 0 ? bsearch(&wanted, seen, n, sizeof *seen, lb_seen_order) : NULL;

	return found != NULL ? *found : wanted;
}

static void
add_port(struct health_text *t, const struct service_port *p, const struct lb_seen *seen, size_t n)
{
	char text[ADDR_TEXT_MAX];

	for (unsigned i = 0; i < p->n_endpoints; i++) {
		const struct endpoint *e = &p->endpoints[i];
		const struct lb_seen one = health_seen(e, seen, n);

		health_add(t,
			&(struct health_of){
				.port = p->port,
				.address = one.at_other && endpoint_has_other(e)
					? endpoint_other_text(e, text)
					: endpoint_text(e, text),
				.node = e->node,
				.health = lb_health_name((enum lb_health)one.health),
			});
	}
}

static void
agent_health_tell(
	const struct agent *a, const struct meta_question *q, const struct lb_seen *seen, size_t n)
{
	const char *ns = q->service.ns, *name = q->service.name;
	const struct service *s = snapshot_find(a->snapshot, ns, strlen(ns), name, strlen(name));
	struct health_text t;
	auto_buf struct buf out;

	buf_init(&out, BUF_UNLIMITED);
	if (a->meta == NULL)
		return; /* a successor is taking over */
	health_begin(&t, &out, s != NULL);
	for (unsigned p = 0; s != NULL && p < s->n_ports; p++)
		add_port(&t, &s->ports[p], seen, n);
	health_end(&t);
	meta_answer(a->meta, q, buf_str(&out));
}

static void
answer_free(struct agent_answer *w)
{
	LIST_REMOVE(w, link);
	lb_unask(&w->asking);
	free(w);
}

static void
on_told(void *arg, const struct lb_seen *seen, size_t n)
{
	struct agent_answer *w = arg;

	w->asking = NULL;
	agent_health_tell(w->agent, &w->question, seen, n);
	answer_free(w);
}

void
agent_asked(void *arg, const struct meta_question *question)
{
	const struct lb_question ask = {question->service.ns, question->service.name};
	struct agent *a = arg;
	struct agent_answer *w;

	if (a->lb == NULL) {
		agent_health_tell(a, question, NULL, 0);
		return;
	}
	w = xcalloc(1, sizeof *w);
	w->agent = a;
	w->question = *question;
	LIST_INSERT_HEAD(&a->answers, w, link);
	w->asking = lb_ask(a->lb, &ask, on_told, w);
}

void
agent_health_end(struct agent *a)
{
	while (!LIST_EMPTY(&a->answers))
		answer_free(LIST_FIRST(&a->answers));
}
