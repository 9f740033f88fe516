#include "lb/proxy/worker.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/core/log.h"
#include "lb/proxy/access_log.h"
#include "lb/proxy/h2_link.h"
#include "lb/proxy/h2_upstream.h"
#include "lb/proxy/health.h"
#include "lb/proxy/listener.h"
#include "lb/proxy/memory.h"
#include "lb/proxy/mirror.h"
#include "lb/proxy/probe.h"
#include "lb/proxy/proxy.h"
#include "lb/proxy/server_first.h"
#include "lb/proxy/splice.h"
#include "lb/proxy/tap.h"
#include "lb/proxy/trace.h"
#include "lb/proxy/wait_queue.h"

enum {
	HEDGE_MS = 100,
	SPARE_MAX = 64,
	SPARE_HEAD_MAX = 4096,
	SWEEP_MS = 10 * 1000,
};

void
worker_free_later(struct worker *w, struct conn_base *g)
{
	g->ended = true;
	g->next = w->dead;
	w->dead = g;
}

static void
reap_exchange(struct worker *w, struct exchange *ex)
{
	buf_consume(&ex->head, buf_len(&ex->head));
	http1_exchange_fini(&ex->http);
	group_release(&ex->group, w->now_ms);
	http_routes_unref(&ex->routes);
	free(take_ptr(&ex->tls_why));
	if (w->n_spare >= SPARE_MAX || ex->head.size > SPARE_HEAD_MAX) {
		buf_fini(&ex->head);
		free(ex);
		return;
	}
	ex->next = w->spare;
	w->spare = ex;
	w->n_spare++;
}

void
worker_reap(struct worker *w)
{
	while (w->dead != NULL) {
		struct conn_base *g = w->dead;

		w->dead = g->next;
		buf_fini(&g->in);
		free(g);
	}
	while (w->dead_exchanges != NULL) {
		struct exchange *ex = w->dead_exchanges;

		w->dead_exchanges = ex->next;
		reap_exchange(w, ex);
	}
}

/* --- ticks ---------------------------------------------------------------------------------- */

/*
 * A worker ticks within EXPIRY_TICK_MS of each event, and otherwise when something is due: without
 * clients it sleeps. Whatever an event leaves for later (deadlines, lines of the access log, spans)
 * is seen by the tick that follows it.
 */
static void
worker_tick_at(struct worker *w, uint64_t at_ms)
{
	uint64_t soon_ms = w->now_ms + EXPIRY_TICK_MS;

	w->tick_soon = at_ms <= soon_ms;
	if (at_ms == UINT64_MAX)
		timer_cancel(w->tick);
	else
		timer_start(w->tick, MAX(at_ms, soon_ms) - w->now_ms, 0);
}

static uint64_t
worker_sweep(struct worker *w)
{
	if (w->now_ms >= w->sweep_ms)
		w->sweep_ms =
			targets_sweep(w->targets, w->now_ms) ? w->now_ms + SWEEP_MS : UINT64_MAX;
	return w->sweep_ms;
}

static void
on_tick(void *arg)
{
	struct worker *w = arg;
	uint64_t next_ms;

	w->tick_soon = true; /* set below, after all that it does itself */
	w->now_ms = loop_now_ms(w->loop);
	worker_reap(w);
	if (expiries_run(&w->expiries, w->now_ms))
		w->stirred = true;
	listener_tick(w);
	next_ms = MIN(probe_tick(w), health_tick(w));
	wait_queue_run(w);
	next_ms = MIN(MIN(memory_tick(w), worker_sweep(w)), next_ms);
	h2_upstream_wake(w);
	/* After all that ends requests: no further tick may come for a long time. */
	access_log_flush(w);
	tap_flush(w);
	trace_flush(w);
	if (w->draining || w->listen_paused || w->tap != NULL || w->turns_due || w->dead != NULL ||
		w->dead_exchanges != NULL || !list_empty(&w->turns) || !list_empty(&w->h2_woken))
		next_ms = w->now_ms;
	worker_tick_at(w, MIN(expiries_next(&w->expiries), next_ms));
	worker_leave(w);
}

void
worker_enter(struct worker *w)
{
	w->now_ms = loop_now_ms(w->loop);
	if (!w->tick_soon) {
		w->sweep_ms = MIN(w->sweep_ms, w->now_ms + SWEEP_MS);
		worker_tick_at(w, w->now_ms);
	}
	worker_reap(w);
}

/* --- dials ---------------------------------------------------------------------------------- */

/* Returns whether a hostNetwork pod of this node has this address and port, for this service or for
 * any. Asked only for the node's own addresses. */
static bool
stands_host_network(
	const struct worker *w, const struct in6_addr *ip, uint16_t port, const struct service *s)
{
	if (s != NULL)
		return service_endpoint_find(s, ip, port, ENDPOINT_HOST_NETWORK) != NULL;
	for (size_t i = 0; i < snapshot_count(w->snapshot); i++)
		if (service_endpoint_find(
			    snapshot_at(w->snapshot, i), ip, port, ENDPOINT_HOST_NETWORK) != NULL)
			return true;
	return false;
}

int
worker_dial(struct worker *w, const struct addr *to, const struct service *s, unsigned hops,
	bool speaks, int *fd)
{
	enum special_addr class;
	char text[ADDR_TEXT_MAX];
	struct in6_addr ip;

	addr_ip(to, &ip);
	class = dial_guard_check(w->guard, &ip, false);
	if (class == SPECIAL_NONE ||
		(class == SPECIAL_OWN && stands_host_network(w, &ip, addr_port(to), s)))
		return sock_connect_hops(to, w->lb->config.mark, hops, speaks, fd);
	count(&w->counters.dials_refused, 1);
	log_limited(LOG_LEVEL_WARN, 6, "lb",
		"an endpoint is not dialled since its address is %s; where that is meant, name it "
		"in lb.allow address=%s service=%s/%s",
		special_addr_text(class), addr_text(to, text), s != NULL ? s->namespace : "",
		s != NULL ? s->name : "");
	return -EPERM;
}

/* Are there bytes for the endpoint already? A client that waits for a greeting has none. */
static bool
worker_speaks(const struct exchange *ex)
{
	const struct downstream *f = ex->downstream;

	return !exchange_is_relay(ex) || ex->own_tls || buf_len(&f->base.in) > 0 ||
		peer_has_input(&f->peer);
}

int
worker_connect(
	struct worker *w, const struct target *t, bool other, const struct exchange *ex, int *fd)
{
	const struct lb_config *c = &w->lb->config;
	const struct addr to = target_addr(t, other);
	/* A pooled connection serves successive requests, each with its own hop count. */
	unsigned hops = ex != NULL && exchange_is_relay(ex) ? ex->hops + 1u : 0;

	if (!target_is_far(t))
		return worker_dial(w, &to, ex != NULL ? ex->group->service : NULL, hops,
			ex != NULL && worker_speaks(ex), fd);
	return c->forward != NULL
		? c->forward(c->forward_arg,
			  &(struct lb_forward){
				  ex != NULL ? ex->group->service : NULL, t->ip, t->port, hops},
			  fd)
		: -EHOSTUNREACH;
}

void
worker_tell_loop(const struct downstream *f)
{
	const struct service *s = f->group->service;
	char client[IP_TEXT_MAX];

	count(&f->worker->counters.loops, 1);
	log_limited(LOG_LEVEL_WARN, 6, "lb",
		"loop detected: the request has passed through Edgeway as often as it may; an "
		"endpoint of this service, or of one on the way, leads back here "
		"service=%s/%s port=%u client=%s",
		s != NULL ? s->namespace : "-", s != NULL ? s->name : "-", f->group->key.port,
		ip_text(&f->client, client));
}

int
worker_connected(const struct target *t, int fd)
{
	int error = sock_error(fd);
	char byte;
	ssize_t n;

	if (error != 0 || !target_is_far(t))
		return -error;
	n = recv(fd, &byte, 1, MSG_DONTWAIT);
	if (n == 1)
		return 0;
	return n < 0 ? -errno : -ECONNREFUSED;
}

/* xorshift64*: for policies and ids, not for secrets. */
uint64_t
worker_random(struct worker *w)
{
	w->rng ^= w->rng >> 12;
	w->rng ^= w->rng << 25;
	w->rng ^= w->rng >> 27;
	return w->rng * 2685821657736338717u;
}

enum lb_policy
worker_policy(const struct worker *w, const struct group *g)
{
	const struct service *s = g->service;

	if (s != NULL && s->lb.policy != LB_DEFAULT)
		return (enum lb_policy)s->lb.policy;
	return w->lb->config.policy;
}

static uint32_t
worker_either(uint32_t value, uint32_t fallback)
{
	return value != 0 ? value : fallback;
}

struct worker *
worker_new(struct lb *lb, struct loop *loop, size_t index)
{
	struct worker *w = xcalloc(1, sizeof *w);
	const struct lb_config *c = &lb->config;

	w->lb = lb;
	w->loop = loop;
	w->ring = c->rings != NULL ? c->rings[index] : NULL;
	w->snapshot = snapshot_new(false);
	w->guard = c->guard != NULL ? dial_guard_ref(c->guard) : NULL;
	w->targets = targets_new(&lb->shares, lb->tallies, index);
	w->listen_fd[0] = w->listen_fd[1] = w->pipe[0] = w->pipe[1] = -1;
	list_init(&w->downstreams);
	w->looked_at = &w->downstreams;
	list_init(&w->h2_touched);
	list_init(&w->h2_woken);
	list_init(&w->turns);
	w->spans_last = &w->spans;
	random_bytes(&w->rng, sizeof w->rng);
	w->rng |= 1;
	expiries_init(&w->expiries);
	list_init(&w->probes);
	list_init(&w->mirrors);
	list_init(&w->checks);
	w->tick_soon = true; /* until worker_start has made the timer */
	w->sweep_ms = UINT64_MAX;
	w->connect_ms = worker_either(c->connect_ms, 1000);
	w->expiries.span_ms[SPAN_DIAL] = HEDGE_MS;
	w->expiries.span_ms[SPAN_ACK] = 150;
	w->expiries.span_ms[SPAN_PROBE] = 300;
	w->expiries.span_ms[SPAN_HEAD] = worker_either(c->head_ms, 10000);
	w->expiries.span_ms[SPAN_ANSWER] = worker_either(c->answer_ms, 60000);
	w->expiries.span_ms[SPAN_IDLE] = worker_either(c->idle_ms, 60000);
	w->expiries.span_ms[SPAN_POOL] =
		MAX(worker_either(c->upstream_idle_ms, 4000), 2u * EXPIRY_TICK_MS) - EXPIRY_TICK_MS;
	w->expiries.span_ms[SPAN_LINGER] = 2000;
	w->expiries.span_ms[SPAN_SILENCE] = SILENCE_MS;
	w->expiries.span_ms[SPAN_OWN] = EXPIRY_TICK_MS;
	w->expiries.span_ms[SPAN_TUNNEL] = worker_either(c->tunnel_idle_ms, 3600 * 1000);
	return w;
}

void
worker_start(void *arg)
{
	struct worker *w = arg;

	w->now_ms = loop_now_ms(w->loop);
	w->tick = timer_new(w->loop, on_tick, w);
	worker_tick_at(w, w->now_ms);
	w->silence_timer = timer_new(w->loop, server_first_tick, w);
	w->h2_kick = timer_new(w->loop, h2_links_flush, w);
	if (w->ring != NULL)
		loop_at_turn_end(w->loop, send_ring_submit, w->ring);
}

/* On its loop; afterwards only the counters are left, and `w` itself, which loop 0 frees. */
static void
worker_end(struct worker *w)
{
	w->tick_soon = true; /* nothing starts it again */
	timer_free(&w->tick);
	timer_free(&w->silence_timer);
	timer_free(&w->h2_kick);
	access_log_flush(w);
	buf_fini(&w->access);
	buf_fini(&w->h2_out);
	splice_fini(w);
	expiries_flush(&w->expiries, SPAN_POOL);
	expiries_flush(&w->expiries, SPAN_DIAL);
	wait_queue_run(w);
	probe_stop(w);
	mirror_stop(w);
	health_stop(w);
	worker_enter(w);
	while (w->spare != NULL) {
		struct exchange *ex = w->spare;

		w->spare = ex->next;
		buf_fini(&ex->head);
		free(ex);
	}
	tap_worker_end(w);
	trace_flush(w);
	targets_free(&w->targets);
	route_regex_scratch_free(&w->regex_scratch);
	snapshot_unref(&w->snapshot);
	dial_guard_unref(&w->guard);
	w->stopped = true;
}

void
worker_leave(struct worker *w)
{
	h2_upstream_wake(w);
	if (w->turns_due)
		wait_queue_run(w);
	if (!w->draining || w->stopped)
		return;
	while (w->now_ms >= w->drain_until_ms && !list_empty(&w->downstreams))
		downstream_close(container_of(w->downstreams.next, struct downstream, node), true);
	if (!list_empty(&w->downstreams) || w->calls_waiting > 0)
		return;
	worker_end(w);
	loop_post(w->lb->config.main, w->lb->on_worker_gone, w);
}
