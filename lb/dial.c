#include "lb/dial.h"

#include <errno.h>

#include "base/log.h"
#include "lb/exchange.h"
#include "lb/pool.h"
#include "lb/relay.h"

static struct target *
pick(struct exchange *ex)
{
	struct front *f = ex->front;
	struct worker *w = f->worker;
	const struct balance_ask ask = {
		.policy = worker_policy(w, f->group),
		.now_ms = w->now_ms,
		.random = worker_random(w),
		.key = f->client_ip,
		.avoid = ex->tried,
		.n_avoid = ex->n_tried,
	};

	if (ex->n_tried == TRIES_MAX)
		return NULL;
	return group_pick(f->group, &ask);
}

void
dial_blame(struct exchange *ex, struct target *t, enum target_fault fault)
{
	struct worker *w = ex->front->worker;
	char text[ADDR_TEXT_MAX];

	if (ex->n_tried < TRIES_MAX)
		ex->tried[ex->n_tried++] = &t->node;
	if (!target_failed(t, fault, w->now_ms, worker_random(w)))
		return;
	count(&w->counters.ejections, 1);
	log_limited(LOG_LEVEL_WARN, 20, "lb",
		"endpoint is left out for a while address=%s wait_ms=%llu",
		addr_text(&t->addr, text), (unsigned long long)(t->node.down_until_ms - w->now_ms));
}

enum dial
dial_next(struct exchange *ex, bool may_reuse)
{
	struct worker *w = ex->front->worker;
	struct target *t;

	while ((t = pick(ex)) != NULL) {
		int fd = -1;

		if (ex->n_tried + ex->n_stale > 0)
			count(&w->counters.retries, 1);
		if (may_reuse && pool_get(t, ex) != NULL) {
			count(&w->counters.reuses, 1);
			return DIAL_READY;
		}
		if (sock_connect(&t->addr, w->lb->config.mark, &fd) == 0) {
			count(&w->counters.dials, 1);
			back_new(w, fd, t, ex);
			return DIAL_WAIT;
		}
		dial_blame(ex, t, TARGET_REFUSED);
	}
	return DIAL_FAILED;
}

static void
failed(struct back *b, enum target_fault fault)
{
	struct exchange *ex = b->ex;

	dial_blame(ex, b->target, fault);
	back_close(b, false);
	if (dial_next(ex, !ex->relay) != DIAL_FAILED) {
		if (ex->back->connecting)
			return;
		exchange_connected(ex);
		return;
	}
	if (ex->relay)
		relay_dial_failed(ex);
	else
		exchange_dial_failed(ex);
}

void
dial_on_event(struct back *b)
{
	int error = sock_error(b->peer.fd);

	if (error != 0) { /* reset: it was accepted, and then dropped at once */
		failed(b, error == ECONNRESET ? TARGET_SILENT : TARGET_REFUSED);
		return;
	}
	b->connecting = false;
	expiry_cancel(&b->expiry);
	peer_connected(&b->peer);
	if (b->ex->relay)
		relay_connected(b->ex);
	else
		exchange_connected(b->ex);
}

void
dial_on_timeout(struct back *b)
{
	b->ex->timed_out = true;
	failed(b, TARGET_SILENT);
}
