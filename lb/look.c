#include <stdlib.h>
#include <string.h>

#include "lb/known.h"

enum { LOOK_MS = 1000 /* timeout for the workers */ };

struct lb_asking {
	struct loop *main;
	struct timer *late; /* NULL: the timeout has passed, or the caller has cancelled */
	lb_asked_fn *asked;
	void *arg;
	struct lb_seen *seen;
	size_t n_seen;
	size_t waiting; /* parts still with the workers */
	char *ns, *name;
};

/* One worker's reply. It travels by posts, to the worker and back, and belongs to the loop that it
 * was posted to. */
struct part {
	struct lb_asking *of; /* the worker's loop reads only its names */
	struct worker *worker;
	struct buf seen;
};

/* --- on a worker's loop --------------------------------------------------------------------- */

static void
note_group(void *arg, const struct group *g)
{
	struct part *p = arg;
	const struct balance *b = &g->balance;

	if (g->service == NULL || strcmp(g->service->name, p->of->name) != 0 ||
		strcmp(g->service->namespace, p->of->ns) != 0)
		return;
	for (uint32_t i = 0; i < balance_count(b); i++) {
		const struct target *t = container_of(b->nodes[i], struct target, node);
		const struct lb_seen seen = {.ip = t->ip,
			.port = t->port,
			.health = known_health(p->worker, t),
			.at_other = t->at_other};

		buf_add(&p->seen, &seen, sizeof seen);
	}
}

static void on_part(void *arg);

static void
on_worker(void *arg)
{
	struct part *p = arg;

	if (!p->worker->stopped) {
		worker_enter(p->worker);
		targets_each(p->worker->targets, note_group, p);
	}
	loop_post(p->of->main, on_part, p);
}

/* --- on loop 0 ------------------------------------------------------------------------------ */

static void
look_release(struct lb_asking *a)
{
	if (a->waiting > 0 || a->late != NULL)
		return;
	free(a->seen);
	free(a->ns);
	free(a->name);
	free(a);
}

int
lb_seen_order(const void *a, const void *b)
{
	const struct lb_seen *one = a, *other = b;
	int order = memcmp(&one->ip, &other->ip, sizeof one->ip);

	return order != 0 ? order : (one->port > other->port) - (one->port < other->port);
}

/* Merges the states that several workers report for one endpoint. */
static void
sum_up(struct lb_asking *a)
{
	size_t kept = 0;

	if (a->n_seen == 0)
		return;
	qsort(a->seen, a->n_seen, sizeof *a->seen, lb_seen_order);
	for (size_t i = 1; i < a->n_seen; i++) {
		struct lb_seen *last = &a->seen[kept];

		if (lb_seen_order(last, &a->seen[i]) == 0)
			last->health = MAX(last->health, a->seen[i].health);
		else
			a->seen[++kept] = a->seen[i];
	}
	a->n_seen = kept + 1;
}

static void
look_finish(struct lb_asking *a)
{
	lb_asked_fn *asked = a->asked;

	timer_free(&a->late);
	sum_up(a);
	asked(a->arg, a->seen, a->n_seen);
	look_release(a);
}

static void
on_part(void *arg)
{
	struct part *p = arg;
	struct lb_asking *a = p->of;
	size_t n = buf_len(&p->seen) / sizeof *a->seen;

	a->waiting--;
	if (n > 0) {
		a->seen = xrealloc(a->seen, (a->n_seen + n) * sizeof *a->seen);
		memcpy(a->seen + a->n_seen, buf_at(&p->seen), n * sizeof *a->seen);
		a->n_seen += n;
	}
	buf_fini(&p->seen);
	free(p);
	if (a->late == NULL)
		look_release(a);
	else if (a->waiting == 0)
		look_finish(a);
}

static void
on_late(void *arg)
{
	look_finish(arg);
}

struct lb_asking *
lb_ask(struct lb *lb, const struct lb_question *question, lb_asked_fn *asked, void *arg)
{
	struct lb_asking *a;

	if (lb == NULL)
		return NULL;
	a = xcalloc(1, sizeof *a);
	a->main = lb->config.main;
	a->asked = asked;
	a->arg = arg;
	a->ns = xstrdup(question->ns);
	a->name = xstrdup(question->name);
	a->late = timer_new(a->main, on_late, a);
	timer_start(a->late, LOOK_MS, 0);
	for (size_t i = 0; i < lb->config.n_workers; i++) {
		struct part *p = xcalloc(1, sizeof *p);

		p->of = a;
		p->worker = lb->workers[i];
		buf_init(&p->seen, BUF_UNLIMITED);
		a->waiting++;
		loop_post(p->worker->loop, on_worker, p);
	}
	return a;
}

void
lb_unask(struct lb_asking **out)
{
	struct lb_asking *a = take_ptr(out);

	if (a == NULL)
		return;
	timer_free(&a->late);
	look_release(a);
}
