#include "lb/proxy/wait_queue.h"

#include "lb/proxy/dial.h"
#include "lb/proxy/pick.h"

struct wait_queue {
	struct node node; /* in worker->turns */
	struct fair_queue line;
	struct group *group;
};

static struct wait_queue *
wait_queue_of(struct worker *w, struct group *g)
{
	if (g->turn == NULL) {
		g->turn = xcalloc(1, sizeof *g->turn);
		g->turn->group = g;
		fair_queue_init(&g->turn->line);
		list_add_before(&w->turns, &g->turn->node);
		atomic_store_explicit(&w->has_waiters, true, memory_order_relaxed);
	}
	return g->turn;
}

void
wait_queue_wait(struct exchange *ex)
{
	const struct downstream *f = ex->downstream;
	struct worker *w = f->worker;

	if (ex->waiter.lane != NULL)
		return;
	if (ex->upstream == NULL)
		count(&w->counters.waits, 1);
	fair_queue_join(&wait_queue_of(w, ex->group)->line, &ex->waiter, f->client_ip);
	w->turns_due = true;
}

bool
wait_queue_has_waiters(const struct group *g)
{
	return g->turn != NULL && !fair_queue_empty(&g->turn->line);
}

static bool
too_late(const struct worker *w, const struct exchange *ex)
{
	const struct service *s = ex->group->service;
	uint32_t limit_ms = s != NULL && s->lb.connect_ms > 0 ? s->lb.connect_ms : w->connect_ms;

	return w->now_ms - ex->want_ms >= limit_ms;
}

static void
give_up(struct exchange *ex)
{
	fair_queue_leave(&ex->waiter);
	if (ex->upstream != NULL)
		return; /* its dial is in progress and has its own timeout */
	/* An exchange that waited behind others of its client never looked for an endpoint, so
	 * check now. */
	ex->full = pick_all_full(ex);
	ex->timed_out = !ex->full;
	dial_gave_up(ex);
}

/* Serves the waiters in turn, until a whole round brings none of them further. */
static void
wait_queue_serve(struct worker *w, struct wait_queue *t)
{
	struct waiter *first;
	unsigned held = 0;

	targets_refresh(w->targets, t->group, w->snapshot, w->epoch);
	while (held < t->line.n_lanes && (first = fair_queue_next(&t->line)) != NULL) {
		struct exchange *ex = container_of(first, struct exchange, waiter);

		if (too_late(w, ex))
			give_up(ex);
		else if (dial_turn(ex) == DIAL_HELD) {
			held++;
			continue;
		}
		held = 0;
	}
}

void
wait_queue_run(struct worker *w)
{
	struct node *n, *next;

	w->turns_due = false;
	for (n = w->turns.next; n != &w->turns; n = next) {
		struct wait_queue *t = container_of(n, struct wait_queue, node);

		wait_queue_serve(w, t);
		next = n->next;
		if (!fair_queue_empty(&t->line))
			continue;
		list_del(n);
		t->group->turn = NULL;
		free(t);
	}
	if (list_empty(&w->turns))
		atomic_store_explicit(&w->has_waiters, false, memory_order_relaxed);
}

/* --- from worker to worker ------------------------------------------------------------------ */

static void
wait_queue_on_woken(void *arg)
{
	struct worker *w = arg;

	atomic_store_explicit(&w->woken, false, memory_order_relaxed);
	if (w->stopped)
		return;
	worker_enter(w);
	wait_queue_run(w);
	worker_leave(w);
}

void
wait_queue_freed(const struct worker *w)
{
	const struct lb *lb = w->lb;

	for (size_t i = 0; i < lb->config.n_workers; i++) {
		struct worker *other = lb->workers[i];

		if (other != w && atomic_load_explicit(&other->has_waiters, memory_order_relaxed) &&
			!atomic_exchange_explicit(&other->woken, true, memory_order_relaxed))
			loop_post(other->loop, wait_queue_on_woken, other);
	}
}
