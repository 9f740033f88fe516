#include "lb/pool.h"

#include <assert.h>
#include <errno.h>
#include <sys/socket.h>

#include "lb/dial.h"
#include "lb/exchange.h"
#include "lb/memory.h"
#include "lb/relay.h"
#include "lb/wait_queue.h"

static void
on_back(void *arg, int fd, unsigned events)
{
	struct back *b = arg;
	struct front *f;

	(void)fd;
	worker_enter(b->worker);
	f = b->ex != NULL ? b->ex->front : NULL;
	if (b->connecting)
		dial_on_event(b);
	else if (b->ex == NULL)
		back_close(b, false);
	else if (b->ex->relay)
		relay_on_back(b, events);
	else
		exchange_on_back(b, events);
	if (f != NULL)
		memory_settle(f);
	worker_leave(b->worker);
}

static void
on_expired(void *arg)
{
	struct back *b = arg;

	if (b->ex == NULL && (!b->connecting || b->worker->draining))
		back_close(b, false);
	else
		dial_on_time(b);
}

static void
join_exchange(struct back *b, struct exchange *ex)
{
	b->ex = ex;
	b->rival = ex->back;
	ex->back = b;
	b->counted = b->target->node.shared != NULL;
}

struct back *
back_new(struct worker *w, int fd, struct target *t, struct exchange *ex)
{
	struct back *b = xcalloc(1, sizeof *b);

	b->worker = w;
	b->target = target_ref(t);
	b->connecting = true;
	b->since_ms = w->now_ms;
	b->from_ms = ex->want_ms;
	b->era = t->era;
	b->fresh = true;
	t->n_fresh++;
	list_init(&b->node);
	expiry_init(&b->expiry, on_expired, b);
	expiry_set(&w->expiries, &b->expiry, SPAN_DIAL, w->now_ms);
	peer_open(&b->peer, w->loop, fd, !target_is_far(t), on_back, b);
	join_exchange(b, ex);
	return b;
}

static void
leave_exchange(struct back *b)
{
	struct back **at = &b->ex->back;

	while (*at != b)
		at = &(*at)->rival;
	*at = take_ptr(&b->rival);
	target_end(b->target, b->ex->front->client_ip, b->counted);
	if (b->counted)
		wait_queue_freed(b->worker);
	b->ex = NULL;
	wait_queue_due(b->worker);
}

void
back_stale(struct back *b)
{
	if (b->fresh)
		b->target->n_fresh--;
	b->fresh = false;
}

static void
leave_pool(struct back *b)
{
	list_del(&b->node);
	b->target->n_idle--;
	expiry_cancel(&b->expiry);
}

void
back_drop(struct back *b, bool reset)
{
	if (b->grave.ended)
		return;
	if (b->ex != NULL)
		leave_exchange(b);
	else if (!b->connecting)
		leave_pool(b);
	back_stale(b);
	expiry_cancel(&b->expiry);
	peer_close(&b->peer, reset);
	target_unref(&b->target);
	worker_bury(b->worker, &b->grave);
}

void
back_close(struct back *b, bool reset)
{
	struct exchange *ex = b->ex;

	if (ex == NULL || !b->connecting) {
		back_drop(b, reset);
		return;
	}
	while (ex->back != NULL)
		back_drop(ex->back, reset);
}

void
back_won(struct back *b)
{
	struct exchange *ex = b->ex;
	struct back *r = ex->back, *next;

	fair_queue_leave(&ex->waiter);
	for (; r != NULL; r = next) {
		next = r->rival;
		if (r == b)
			continue;
		/* A relay's bytes must not go to a connection that nothing waits for. */
		if (ex->relay)
			back_drop(r, true);
		else
			leave_exchange(r);
	}
}

/* Costs one system call; a stale connection would cost a request that cannot be sent twice. */
static bool
pool_alive(const struct back *b)
{
	char byte;

	return recv(b->peer.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

struct back *
pool_get(struct target *t, struct exchange *ex)
{
	while (!list_empty(&t->idle)) {
		struct back *b = container_of(t->idle.next, struct back, node);

		if ((!ex->idempotent || ex->has_body) && !pool_alive(b)) {
			back_close(b, false);
			continue;
		}
		leave_pool(b);
		b->reused = true;
		join_exchange(b, ex);
		back_won(b);
		return b;
	}
	return NULL;
}

/* back_drop would treat a connection without an exchange as one of the pool, so mark it as
 * connecting. */
static void
close_late(struct back *b)
{
	if (b->ex == NULL)
		b->connecting = true;
	back_drop(b, false);
}

void
pool_put(struct back *b)
{
	struct target *t = b->target;

	assert(!b->connecting);
	if (t->n_idle >= POOL_IDLE_MAX || b->worker->draining || b->era != t->era) {
		close_late(b);
		return;
	}
	if (b->ex != NULL)
		leave_exchange(b);
	b->scan = (struct http1_scan){0};
	peer_resume(&b->peer);
	list_add_after(&t->idle, &b->node);
	t->n_idle++;
	expiry_set(&b->worker->expiries, &b->expiry, SPAN_POOL, b->worker->now_ms);
}

void
pool_let_go(struct target *t)
{
	t->era++;
	pool_clear(t);
}

void
pool_clear(struct target *t)
{
	struct target *held = target_ref(t); /* these connections may hold the last references */

	while (!list_empty(&t->idle))
		back_close(container_of(t->idle.next, struct back, node), false);
	target_unref(&held);
}
