#include "lb/proxy/server_first.h"

#include <errno.h>

#include "base/core/log.h"
#include "lb/proxy/dial.h"
#include "lb/proxy/exchange.h"
#include "lb/proxy/permit.h"
#include "lb/proxy/pool.h"
#include "lb/proxy/proxy.h"
#include "lb/proxy/relay.h"

enum { ASK_EVERY_MS = 60 * 1000, LOOK_AGAIN_MS = 10 };

/* A finding holds only for the service as it was then. */
static bool
server_first_known(const struct group *g)
{
	return g->service != NULL && g->habit_of == g->service->digest;
}

static enum detected_protocol
server_first_habit(const struct group *g)
{
	return server_first_known(g) ? (enum detected_protocol)g->detected_protocol
				     : DETECTED_UNKNOWN;
}

static bool
asked_lately(const struct group *g, uint64_t now_ms)
{
	return server_first_known(g) && now_ms < g->ask_again_ms;
}

static void
server_first_learn(struct group *g, enum detected_protocol detected_protocol)
{
	g->detected_protocol = (uint8_t)detected_protocol;
	g->habit_of = g->service != NULL ? g->service->digest : 0;
}

void
server_first_is_http(struct group *g)
{
	server_first_learn(g, DETECTED_HTTP);
}

void
server_first_open(struct downstream *f)
{
	struct worker *w = f->worker;

	switch (server_first_habit(f->group)) {
	case DETECTED_HTTP:
		break;
	case DETECTED_SERVER_FIRST:
		relay_open(f);
		break;
	case DETECTED_UNKNOWN:
		f->silent = true;
		expiry_set(&w->expiries, &f->expiry, SPAN_SILENCE, w->now_ms);
		if (!timer_active(w->silence_timer))
			timer_start(w->silence_timer, SILENCE_MS, 0);
		break;
	}
}

void
server_first_tick(void *arg)
{
	struct worker *w = arg;

	worker_enter(w);
	expiries_run(&w->expiries, w->now_ms);
	if (!list_empty(&w->expiries.rings[SPAN_SILENCE]))
		timer_start(w->silence_timer, LOOK_AGAIN_MS, 0);
	worker_leave(w);
}

void
server_first_over(struct downstream *f)
{
	struct worker *w = f->worker;
	struct group *g = f->group;
	struct exchange *ex;

	f->silent = false;
	expiry_set(&w->expiries, &f->expiry, SPAN_IDLE, w->now_ms);
	if (server_first_habit(g) == DETECTED_SERVER_FIRST) {
		relay_open(f);
		return;
	}
	/* A client that may not call gets its refusal when it sends a request; nothing goes to an
	 * endpoint for it. */
	if (!permit_check(f))
		return;
	g = f->group;
	/* Its routes say that it is HTTP, and no endpoint must be asked before they are. */
	if (g->service != NULL && g->service->routes != NULL)
		return;
	/* Nobody greets within TLS before its handshake, which clients of HTTP are not to wait for.
	 * */
	if (g->port_of != NULL && g->port_of->tls != NULL)
		return;
	if (server_first_habit(g) == DETECTED_HTTP || w->draining || asked_lately(g, w->now_ms))
		return;
	server_first_learn(g, DETECTED_UNKNOWN);
	g->ask_again_ms = w->now_ms + ASK_EVERY_MS;
	ex = exchange_new(f, &relay_kind);
	f->ex = ex;
	exchange_go(ex, EXCHANGE_GREETING);
	f->state = DOWNSTREAM_RELAY;
	expiry_set(&w->expiries, &f->expiry, SPAN_HEAD, w->now_ms);
	if (relay_goes_round(ex) || dial_start(ex, false) == DIAL_FAILED)
		server_first_end(f);
}

void
server_first_end(struct downstream *f)
{
	struct worker *w = f->worker;
	struct exchange *ex = f->ex;

	if (ex->upstream != NULL && !ex->upstream->connecting && !ex->upstream->peer.eof)
		pool_put(ex->upstream);
	exchange_end(ex);
	f->state = DOWNSTREAM_IDLE;
	expiry_set(&w->expiries, &f->expiry, SPAN_IDLE, w->now_ms);
}

/* Handles the other waiting clients of the group as the first one. */
static void
wake_others(struct worker *w, const struct group *g)
{
	for (struct node *n = w->downstreams.next, *next; n != &w->downstreams; n = next) {
		struct downstream *f = container_of(n, struct downstream, node);

		next = n->next;
		if (f->group == g && f->state == DOWNSTREAM_IDLE && f->ex == NULL && !f->not_first)
			relay_open(f);
	}
}

void
server_first_on_upstream(struct upstream_conn *b)
{
	struct exchange *ex = b->ex;
	struct downstream *f = ex->downstream;
	struct worker *w = f->worker;
	struct group *g = f->group;
	ssize_t n = peer_read(&b->peer, w->scratch, sizeof w->scratch);

	if (n == -EAGAIN)
		return;
	/* An HTTP server that has waited long enough sends 408, or closes. */
	if (n <= 0 || memcmp(w->scratch, "HTTP/", MIN((size_t)n, 5u)) == 0) {
		if (n > 0)
			server_first_learn(g, DETECTED_HTTP);
		upstream_conn_close(b, false);
		server_first_end(f);
		return;
	}
	server_first_learn(g, DETECTED_SERVER_FIRST);
	if (g->service != NULL)
		log_limited(LOG_LEVEL_INFO, 10, "lb",
			"a port called http greets its clients: relayed as TCP service=%s/%s "
			"port=%u",
			g->service->namespace, g->service->name, g->key.port);
	count(&w->counters.server_first, 1);
	exchange_go(ex, EXCHANGE_RELAYING);
	relay_greeted(ex, w->scratch, (size_t)n);
	wake_others(w, g);
}
