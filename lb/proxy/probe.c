#include "lb/proxy/probe.h"

#include <errno.h>
#include <unistd.h>

#include "lb/proxy/outlier_share.h"

enum {
	PROBES_MAX = 32,
	INTERVAL_MS = 250, /* between starts; grows by this much with each minute */
	INTERVAL_MAX_MS = 5000,
};

struct probe {
	struct node node; /* in worker->probes */
	struct expiry expiry;
	struct worker *worker;
	struct target *target; /* with a reference */
	struct watch *watch;
	uint64_t since_ms;
	int fd;
	bool other; /* to the endpoint's other address */
};

static void
probe_end(struct probe *p)
{
	struct worker *w = p->worker;

	expiry_cancel(&p->expiry);
	list_del(&p->node);
	w->n_probes--;
	if (p->watch != NULL)
		watch_stop(&p->watch);
	cleanup_fd(&p->fd);
	p->target->probed = false;
	target_unref(&p->target);
	free(p);
}

static uint64_t
interval_ms(struct worker *w, const struct target *t)
{
	uint64_t minutes = (w->now_ms - t->ejected_ms) / 60000;
	uint64_t ms = MIN(INTERVAL_MS * (minutes + 1), (uint64_t)INTERVAL_MAX_MS);

	return ms - worker_random(w) % (ms / 4);
}

static void
probe_failed(struct probe *p)
{
	struct target *t = p->target;
	struct worker *w = p->worker;

	t->at_other = target_has_other(t) && !p->other;
	t->probe_ms = MAX(p->since_ms + interval_ms(w, t), w->now_ms);
	/* the endpoint is gone: that was the reason */
	if (target_fault_needs_answer((enum target_fault)t->fault))
		t->fault = TARGET_REFUSED;
	/* Its back-off must not end before the next probe has a result. */
	t->node.down_until_ms = MAX(t->node.down_until_ms, t->probe_ms + 1000);
	probe_end(p);
}

/* A dial that this node cannot make now says nothing about the endpoint. */
static void
probe_later(struct probe *p)
{
	p->target->probe_ms = p->since_ms + interval_ms(p->worker, p->target);
	probe_end(p);
}

static void
probe_worked(struct probe *p)
{
	struct target *t = p->target;
	struct worker *w = p->worker;

	t->at_other = p->other;
	if (target_fault_needs_answer((enum target_fault)t->fault))
		t->probe_ms = UINT64_MAX; /* until it fails again */
	else if (t->ejections > 0)
		outlier_share_worked(w, t, false);
	target_connected(t, w->now_ms - p->since_ms, w->now_ms);
	probe_end(p);
}

static void
on_probe(void *arg, int fd, unsigned events)
{
	struct probe *p = arg;
	int rc;

	(void)events;
	worker_enter(p->worker);
	rc = worker_connected(p->target, fd);
	if (rc == 0)
		probe_worked(p);
	else if (rc != -EAGAIN)
		probe_failed(p);
}

static void
on_expired(void *arg)
{
	struct probe *p = arg;
	struct worker *w = p->worker;

	if (w->now_ms - p->since_ms < 4 * p->target->connect_ms)
		expiry_set(&w->expiries, &p->expiry, SPAN_PROBE, w->now_ms);
	else
		probe_failed(p);
}

static void
probe_start(struct worker *w, struct target *t)
{
	struct probe *p = xcalloc(1, sizeof *p);
	int rc;

	p->worker = w;
	p->target = target_ref(t);
	p->since_ms = w->now_ms;
	p->fd = -1;
	p->other = t->at_other;
	t->probed = true;
	w->n_probes++;
	list_add_before(&w->probes, &p->node);
	expiry_init(&p->expiry, on_expired, p);
	count(&w->counters.probes, 1);
	rc = worker_connect(w, t, p->other, NULL, &p->fd);
	if (rc < 0) {
		if (sock_short_of(rc))
			probe_later(p);
		else
			probe_failed(p);
		return;
	}
	p->watch = watch_start(
		w->loop, p->fd, target_is_far(t) ? WATCH_READ : WATCH_WRITE, on_probe, p);
	expiry_set(&w->expiries, &p->expiry, SPAN_PROBE, w->now_ms);
}

uint64_t
probe_tick(struct worker *w)
{
	struct node *ring = targets_ejected(w->targets), *n, *next;
	uint64_t ejected = 0, again_ms = UINT64_MAX;

	if (w->draining)
		return again_ms;
	for (n = ring->next; n != ring; n = next) {
		struct target *t = container_of(n, struct target, ejected);

		next = n->next;
		ejected++;
		if (w->n_probes < PROBES_MAX && !t->probed && w->now_ms >= t->probe_ms)
			probe_start(w, t);
		if (!t->probed)
			again_ms = MIN(again_ms, t->probe_ms);
	}
	atomic_store_explicit(&w->counters.ejected, ejected, memory_order_relaxed);
	return again_ms;
}

void
probe_stop(struct worker *w)
{
	while (!list_empty(&w->probes))
		probe_end(container_of(w->probes.next, struct probe, node));
}
