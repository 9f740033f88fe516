#include "lb/pool.h"

#include <assert.h>
#include <errno.h>
#include <sys/socket.h>

#include "lb/dial.h"
#include "lb/exchange.h"
#include "lb/relay.h"

static void
on_back(void *arg, int fd, unsigned events)
{
	struct back *b = arg;

	(void)fd;
	worker_enter(b->worker);
	if (b->ex == NULL)
		back_close(b, false);
	else if (b->connecting)
		dial_on_event(b);
	else if (b->ex->relay)
		relay_on_back(b, events);
	else
		exchange_on_back(b, events);
	worker_check_drained(b->worker);
}

static void
on_expired(void *arg)
{
	struct back *b = arg;

	if (b->ex == NULL)
		back_close(b, false);
	else if (b->connecting)
		dial_on_timeout(b);
}

struct back *
back_new(struct worker *w, int fd, struct target *t, struct exchange *ex)
{
	struct back *b = xcalloc(1, sizeof *b);

	b->worker = w;
	b->target = target_ref(t);
	b->ex = ex;
	ex->back = b;
	b->connecting = true;
	list_init(&b->node);
	expiry_init(&b->expiry, on_expired, b);
	expiry_set(&w->expiries, &b->expiry, SPAN_CONNECT, w->now_ms);
	peer_open(&b->peer, w->loop, fd, true, on_back, b);
	target_begin(t);
	return b;
}

static void
leave_exchange(struct back *b)
{
	b->ex->back = NULL;
	b->ex = NULL;
	target_end(b->target);
}

static void
leave_pool(struct back *b)
{
	list_del(&b->node);
	b->target->n_idle--;
	expiry_cancel(&b->expiry);
}

void
back_close(struct back *b, bool reset)
{
	if (b->grave.ended)
		return;
	if (b->ex != NULL)
		leave_exchange(b);
	else
		leave_pool(b);
	expiry_cancel(&b->expiry);
	peer_close(&b->peer, reset);
	target_unref(&b->target);
	worker_bury(b->worker, &b->grave);
}

/* One system call, where a stale connection would cost a request that cannot be sent twice. */
static bool
alive(const struct back *b)
{
	char byte;

	return recv(b->peer.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

struct back *
pool_get(struct target *t, struct exchange *ex)
{
	while (!list_empty(&t->idle)) {
		struct back *b = container_of(t->idle.next, struct back, node);

		if (!ex->idempotent && !alive(b)) {
			back_close(b, false);
			continue;
		}
		leave_pool(b);
		b->reused = true;
		b->ex = ex;
		ex->back = b;
		target_begin(t);
		return b;
	}
	return NULL;
}

void
pool_put(struct back *b)
{
	struct target *t = b->target;

	assert(b->ex != NULL);
	if (t->n_idle >= POOL_IDLE_MAX || b->worker->draining) {
		back_close(b, false);
		return;
	}
	leave_exchange(b);
	b->scanned = 0;
	peer_resume(&b->peer);
	list_add_after(&t->idle, &b->node);
	t->n_idle++;
	expiry_set(&b->worker->expiries, &b->expiry, SPAN_POOL, b->worker->now_ms);
}
