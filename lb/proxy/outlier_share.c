#include "lb/proxy/outlier_share.h"

#include <string.h>

#include "base/core/log.h"
#include "lb/proxy/exchange.h"
#include "lb/proxy/pool.h"

struct outlier_event {
	struct worker *to;
	struct in6_addr ip;
	uint64_t owner, wait_ms;
	uint16_t port;
	uint8_t fault; /* enum target_fault */
	bool ejected, answered, let_go, reroute;
};

/* For all services that name the endpoint. */
static void
let_go(struct worker *w, const struct outlier_event *r)
{
	struct target *t = targets_next(w->targets, NULL, &r->ip, r->port), *next;

	for (; t != NULL; t = next) {
		next = targets_next(w->targets, t, &r->ip, r->port);
		pool_let_go(t);
	}
}

/* Requests that endpoints beyond the hub have not answered yet; let_go: for that endpoint alone. */
static void
outlier_share_ask_again(struct worker *w, const struct outlier_event *r)
{
	for (struct node *n = w->downstreams.next, *next; n != &w->downstreams; n = next) {
		struct downstream *f = container_of(n, struct downstream, node);
		const struct upstream_conn *b =
			f->ex != NULL && !exchange_is_relay(f->ex) ? f->ex->upstream : NULL;

		next = n->next;
		if (b != NULL && !b->connecting && target_is_far(b->target) &&
			(!r->let_go ||
				(b->target->port == r->port &&
					memcmp(&b->target->ip, &r->ip, sizeof r->ip) == 0)))
			exchange_ask_again(f->ex);
	}
}

static void
on_rumour(void *arg)
{
	struct outlier_event *r = arg;
	struct worker *w = r->to;
	struct target *t = NULL;

	if (!w->stopped) {
		worker_enter(w);
		if (r->let_go)
			let_go(w, r);
		if (r->reroute)
			outlier_share_ask_again(w, r);
		else if (!r->let_go)
			t = targets_find(w->targets, r->owner, &r->ip, r->port);
	}
	if (t != NULL && !r->ejected)
		target_told_works(t, r->answered, w->now_ms);
	else if (t != NULL &&
		target_told_failed(t, (enum target_fault)r->fault, w->now_ms, r->wait_ms))
		pool_clear(t);
	free(r);
}

void
outlier_share_let_go(const struct lb *lb, const struct in6_addr *ip, uint16_t port, bool doubted)
{
	const struct outlier_event what = {
		.let_go = true, .reroute = doubted, .ip = *ip, .port = port};

	for (size_t i = 0; i < lb->config.n_workers; i++) {
		struct outlier_event *r = xmemdup(&what, sizeof what);

		r->to = lb->workers[i];
		loop_post(r->to->loop, on_rumour, r);
	}
}

void
outlier_share_reroute(const struct lb *lb)
{
	for (size_t i = 0; i < lb->config.n_workers; i++) {
		struct outlier_event *r = xcalloc(1, sizeof *r);

		r->to = lb->workers[i];
		r->reroute = true;
		loop_post(r->to->loop, on_rumour, r);
	}
}

static void
outlier_share_tell(const struct worker *w, const struct target *t, const struct outlier_event *what)
{
	const struct lb *lb = w->lb;

	for (size_t i = 0; i < lb->config.n_workers; i++) {
		struct outlier_event *r;

		if (lb->workers[i] == w)
			continue;
		r = xmemdup(what, sizeof *what);
		r->to = lb->workers[i];
		r->ip = t->ip;
		r->owner = t->owner;
		r->port = t->port;
		loop_post(r->to->loop, on_rumour, r);
	}
}

void
outlier_share_ejected(const struct worker *w, const struct target *t)
{
	const struct outlier_event r = {
		.ejected = true, .fault = t->fault, .wait_ms = t->node.down_until_ms - w->now_ms};

	outlier_share_tell(w, t, &r);
}

void
outlier_share_worked(struct worker *w, struct target *t, bool answered)
{
	bool was_out = t->ejections > 0;
	char text[ADDR_TEXT_MAX];

	target_worked(t, w->now_ms);
	if (!was_out)
		return;
	count(&w->counters.returns, 1);
	log_limited(LOG_LEVEL_INFO, 20, "lb", "an endpoint is back address=%s after_ms=%llu",
		target_text(t, t->at_other, text), (unsigned long long)(w->now_ms - t->ejected_ms));
	outlier_share_tell(w, t, &(struct outlier_event){.answered = answered});
}
