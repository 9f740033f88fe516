#include "lb/proxy/pool.h"

#include <assert.h>

#include "lb/proxy/dial.h"
#include "lb/proxy/exchange.h"
#include "lb/proxy/h2_upstream.h"
#include "lb/proxy/memory.h"
#include "lb/proxy/relay.h"
#include "lb/proxy/wait_queue.h"

static void
pool_on_answer(struct upstream_conn *b, unsigned events)
{
	struct exchange *ex = b->ex;

	exchange_on_upstream(b, events);
	/* A hang-up is told once, and what the answer has made of the exchange must know. */
	if (events & WATCH_HUP && b->ex == ex && !b->base.ended && exchange_is_relay(ex))
		relay_on_upstream(b, WATCH_HUP);
}

void
upstream_conn_on_event(void *arg, int fd, unsigned events)
{
	struct upstream_conn *b = arg;
	struct downstream *f;

	(void)fd;
	worker_enter(b->worker);
	f = b->ex != NULL ? b->ex->downstream : NULL;
	if (b->connecting)
		dial_on_event(b);
	else if (b->h2 != NULL)
		h2_upstream_on_event(b, events);
	else if (b->ex == NULL && b->peer.tls != NULL && peer_is_quiet(&b->peer))
		; /* a session ticket */
	else if (b->ex == NULL)
		upstream_conn_close(b, false);
	else if (exchange_is_relay(b->ex))
		relay_on_upstream(b, events);
	else
		pool_on_answer(b, events);
	if (f != NULL)
		memory_settle(f);
	worker_leave(b->worker);
}

static void
on_expired(void *arg)
{
	struct upstream_conn *b = arg;

	if (b->h2 != NULL)
		h2_upstream_on_time(b);
	else if (b->ex == NULL && (!b->connecting || b->worker->draining))
		upstream_conn_close(b, false);
	else if (b->ex != NULL && !b->connecting && exchange_is_relay(b->ex))
		relay_on_time(b);
	else
		dial_on_time(b);
}

static void
join_exchange(struct upstream_conn *b, struct exchange *ex)
{
	b->ex = ex;
	b->for_h2 = ex->h2 != NULL;
	b->own_tls = ex->own_tls;
	b->rival = ex->upstream;
	ex->upstream = b;
	b->counted = b->target->node.shared != NULL;
}

struct upstream_conn *
upstream_conn_new(struct worker *w, int fd, struct target *t, struct exchange *ex)
{
	struct upstream_conn *b = xcalloc(1, sizeof *b);

	b->worker = w;
	b->target = target_ref(t);
	b->connecting = true;
	b->since_ms = w->now_ms;
	b->from_ms = ex->want_ms;
	b->pool_generation = t->pool_generation;
	b->fresh = true;
	t->n_fresh++;
	list_init(&b->node);
	expiry_init(&b->expiry, on_expired, b);
	expiry_set(&w->expiries, &b->expiry, SPAN_DIAL, w->now_ms);
	peer_open(&b->peer, w->loop, fd, !target_is_far(t), upstream_conn_on_event, b);
	join_exchange(b, ex);
	if (b->for_h2 && !h2_upstream_is_first(t))
		upstream_conn_place(b, ex->downstream);
	return b;
}

void
upstream_conn_place(struct upstream_conn *b, const struct downstream *f)
{
	struct fair_share *places = b->worker->lb->connections;

	if (b->placed)
		fair_share_give(places, b->slot, 1);
	b->placed = f != NULL;
	if (f == NULL)
		return;
	b->slot = f->slot;
	fair_share_charge(places, b->slot, 1);
}

/* Two connections to the two addresses of an endpoint count as one: that to the other address goes
 * on with the count of b. */
static bool
pool_hand_count(const struct upstream_conn *b)
{
	for (struct upstream_conn *r = b->ex->upstream; r != NULL; r = r->rival)
		if (r->uncounted && r->target == b->target) {
			r->uncounted = false;
			r->counted = b->counted;
			return true;
		}
	return false;
}

static void
pool_unlink(struct upstream_conn *b)
{
	struct upstream_conn **at = &b->ex->upstream;

	while (*at != b)
		at = &(*at)->rival;
	*at = take_ptr(&b->rival);
}

bool
upstream_conn_release(struct upstream_conn *b)
{
	pool_unlink(b);
	b->ex = NULL;
	return b->counted;
}

static void
leave_exchange(struct upstream_conn *b)
{
	pool_unlink(b);
	if (!b->uncounted && !pool_hand_count(b)) {
		target_end(b->target, b->ex->downstream->client_ip, b->counted);
		if (b->counted)
			wait_queue_freed(b->worker);
	}
	b->ex = NULL;
	wait_queue_due(b->worker);
}

void
upstream_conn_stale(struct upstream_conn *b)
{
	if (b->fresh)
		b->target->n_fresh--;
	b->fresh = false;
}

static void
leave_pool(struct upstream_conn *b)
{
	list_del(&b->node);
	b->target->n_idle--;
	expiry_cancel(&b->expiry);
}

void
upstream_conn_drop(struct upstream_conn *b, bool reset)
{
	if (b->base.ended)
		return;
	upstream_conn_place(b, NULL);
	h2_upstream_dial_over(b);
	if (b->h2 != NULL)
		h2_upstream_free(b);
	else if (b->ex != NULL)
		leave_exchange(b);
	else if (!b->connecting)
		leave_pool(b);
	upstream_conn_stale(b);
	expiry_cancel(&b->expiry);
	peer_close(&b->peer, reset);
	target_unref(&b->target);
	worker_free_later(b->worker, &b->base);
}

void
upstream_conn_close(struct upstream_conn *b, bool reset)
{
	struct exchange *ex = b->ex;

	if (ex == NULL || !b->connecting) {
		upstream_conn_drop(b, reset);
		return;
	}
	while (ex->upstream != NULL)
		upstream_conn_drop(ex->upstream, reset);
}

void
upstream_conn_won(struct upstream_conn *b)
{
	struct exchange *ex = b->ex;
	struct upstream_conn *r = ex->upstream, *next;

	fair_queue_leave(&ex->waiter);
	for (; r != NULL; r = next) {
		next = r->rival;
		if (r == b)
			continue;
		/* A relay's bytes must not go to a connection that nothing waits for. */
		if (exchange_is_relay(ex))
			upstream_conn_drop(r, true);
		else
			leave_exchange(r);
	}
}

void
upstream_conn_leave_dials(struct exchange *ex)
{
	fair_queue_leave(&ex->waiter);
	while (ex->upstream != NULL)
		leave_exchange(ex->upstream);
}

/* What has come since the loop last looked for events answers nothing, and would be taken for the
 * answer; and a stale connection would cost a request that cannot be sent twice. Asking costs a
 * system call, which a small request without these needs is spared where it waits in the ring:
 * what is told of until it is sent is seen then (exchange_on_upstream). */
static bool
pool_must_ask(const struct upstream_conn *b, const struct exchange *ex)
{
	return !ex->idempotent || ex->has_body || b->peer.tls != NULL ||
		!send_ring_takes(b->worker->ring, buf_len(&ex->head));
}

struct upstream_conn *
pool_get(struct target *t, struct exchange *ex)
{
	while (!list_empty(&t->idle)) {
		struct upstream_conn *b = container_of(t->idle.next, struct upstream_conn, node);

		if (pool_must_ask(b, ex) && !peer_is_quiet(&b->peer)) {
			upstream_conn_close(b, false);
			continue;
		}
		leave_pool(b);
		b->reused_at = loop_looks(b->worker->loop);
		join_exchange(b, ex);
		upstream_conn_won(b);
		return b;
	}
	return NULL;
}

/* upstream_conn_drop would treat a connection without an exchange as one of the pool, so mark it as
 * connecting. */
static void
close_late(struct upstream_conn *b)
{
	if (b->ex == NULL)
		b->connecting = true;
	upstream_conn_drop(b, false);
}

void
pool_put(struct upstream_conn *b)
{
	struct target *t = b->target;

	assert(!b->connecting);
	if (t->n_idle >= POOL_IDLE_MAX || b->worker->draining ||
		b->pool_generation != t->pool_generation) {
		close_late(b);
		return;
	}
	if (b->ex != NULL)
		leave_exchange(b);
	peer_resume(&b->peer);
	list_add_after(&t->idle, &b->node);
	t->n_idle++;
	expiry_set(&b->worker->expiries, &b->expiry, SPAN_POOL, b->worker->now_ms);
}

void
pool_let_go(struct target *t)
{
	t->pool_generation++;
	pool_clear(t);
}

void
pool_clear(struct target *t)
{
	struct target *held = target_ref(t); /* these connections may hold the last references */

	while (!list_empty(&t->idle))
		upstream_conn_close(container_of(t->idle.next, struct upstream_conn, node), false);
	h2_upstream_retire(t);
	target_unref(&held);
}
