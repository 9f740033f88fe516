#include "lb/proxy/exchange.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>

#include "base/core/hops.h"
#include "base/core/log.h"
#include "base/core/state.h"
#include "lb/balance/hashkey.h"
#include "lb/conn/gather.h"
#include "lb/proxy/access_log.h"
#include "lb/proxy/answer.h"
#include "lb/proxy/dial.h"
#include "lb/proxy/h2_stream.h"
#include "lb/proxy/memory.h"
#include "lb/proxy/mirror.h"
#include "lb/proxy/permit.h"
#include "lb/proxy/pick.h"
#include "lb/proxy/pool.h"
#include "lb/proxy/proxy.h"
#include "lb/proxy/routing.h"
#include "lb/proxy/splice.h"
#include "lb/proxy/trace.h"

static const char *const state_names[] = {
	[EXCHANGE_DIALLING] = "dialling",
	[EXCHANGE_CONNECTED] = "connected",
	[EXCHANGE_SENDING] = "sending",
	[EXCHANGE_ANSWERING] = "answering",
	[EXCHANGE_GREETING] = "greeting",
	[EXCHANGE_RELAYING] = "relaying",
	[EXCHANGE_ENDED] = "ended",
};
static const uint32_t state_next[] = {
	[EXCHANGE_DIALLING] = STATE_TO(EXCHANGE_DIALLING) | STATE_TO(EXCHANGE_CONNECTED) |
		STATE_TO(EXCHANGE_GREETING) | STATE_TO(EXCHANGE_RELAYING) |
		STATE_TO(EXCHANGE_ENDED),
	[EXCHANGE_CONNECTED] = STATE_TO(EXCHANGE_SENDING) | STATE_TO(EXCHANGE_ANSWERING) |
		STATE_TO(EXCHANGE_DIALLING) | STATE_TO(EXCHANGE_ENDED),
	[EXCHANGE_SENDING] = STATE_TO(EXCHANGE_ANSWERING) | STATE_TO(EXCHANGE_RELAYING) |
		STATE_TO(EXCHANGE_DIALLING) | STATE_TO(EXCHANGE_ENDED),
	[EXCHANGE_ANSWERING] = STATE_TO(EXCHANGE_ENDED),
	[EXCHANGE_GREETING] = STATE_TO(EXCHANGE_RELAYING) | STATE_TO(EXCHANGE_ENDED),
	[EXCHANGE_RELAYING] = STATE_TO(EXCHANGE_ENDED),
	[EXCHANGE_ENDED] = 0,
};
static const struct state_machine states = {"request", "lb", state_names, state_next};

void
exchange_go(struct exchange *ex, enum exchange_state to)
{
	ex->state = (uint8_t)state_go(&states, ex->state, to);
}

void
exchange_use(struct exchange *ex, struct group *g)
{
	struct group *old = ex->group;

	ex->group = group_hold(g);
	group_release(&old, ex->downstream->worker->now_ms);
}

struct exchange *
exchange_new(struct downstream *f, const struct exchange_kind *kind)
{
	struct worker *w = f->worker;
	struct exchange *ex = w->spare;
	struct buf head;

	if (ex != NULL) {
		w->spare = ex->next;
		w->n_spare--;
	} else {
		ex = xcalloc(1, sizeof *ex);
	}
	head = ex->head;
	memset(ex, 0, sizeof *ex);
	ex->head = head;
	ex->kind = kind;
	ex->downstream = f;
	ex->group = group_hold(f->group);
	ex->expiry = &f->expiry;
	ex->key = f->client_ip;
	access_log_begin(ex);
	return ex;
}

void
exchange_end(struct exchange *ex)
{
	struct worker *w = ex->downstream->worker;

	if (ex->state == EXCHANGE_ENDED)
		return;
	access_log_write(ex);
	trace_end(ex);
	fair_queue_leave(&ex->waiter);
	mirror_drop(ex);
	if (ex->upstream != NULL)
		upstream_conn_close(ex->upstream, false);
	if (ex->downstream->ex == ex)
		ex->downstream->ex = NULL;
	exchange_go(ex, EXCHANGE_ENDED);
	ex->next = w->dead_exchanges;
	w->dead_exchanges = ex;
}

void
exchange_due(struct exchange *ex, uint64_t due_ms)
{
	struct worker *w = ex->downstream->worker;

	ex->due_ms = due_ms;
	ex->own = true;
	expiry_set(&w->expiries, ex->expiry, SPAN_OWN, w->now_ms);
}

bool
exchange_not_due(struct exchange *ex)
{
	if (!ex->own || ex->downstream->worker->now_ms >= ex->due_ms)
		return false;
	exchange_due(ex, ex->due_ms);
	return true;
}

/* The time from the request's last byte to the response's head. A request for another protocol may
 * wait as long as that protocol. */
bool
exchange_touch_waiting(struct exchange *ex)
{
	struct downstream *f = ex->downstream;
	const struct service *s = ex->group->service;
	uint32_t request_ms = s != NULL ? s->lb.request_ms : REQUEST_MS_DEFAULT;
	uint64_t due_ms = routing_due_ms(ex);

	if (due_ms != 0 && !ex->http.upgrade)
		exchange_due(ex, due_ms);
	if (routing_limits(ex))
		return due_ms != 0 && !ex->http.upgrade;
	if (ex->state == EXCHANGE_ANSWERING || request_ms == 0 ||
		(request_ms == REQUEST_MS_DEFAULT && ex->http.upgrade))
		return false;
	if (request_ms == REQUEST_MS_DEFAULT) {
		ex->own = false;
		expiry_set(&f->worker->expiries, ex->expiry, SPAN_ANSWER, f->worker->now_ms);
	} else {
		exchange_due(ex, routing_service_due_ms(ex));
	}
	return true;
}

/* The client may wait for the endpoint as long as its service allows; a client that neither sends
 * nor reads has SPAN_IDLE. */
void
exchange_touch(struct exchange *ex)
{
	struct downstream *f = ex->downstream;
	bool on_client = !ex->http.request_done || buf_len(&f->peer.out) > 0;

	if ((!on_client || ex->again_ms != 0) && exchange_touch_waiting(ex))
		return;
	if (ex->whole_ms != 0) { /* its route's limit holds also while the client is slow */
		exchange_due(ex,
			MIN(ex->whole_ms,
				f->worker->now_ms + f->worker->expiries.span_ms[SPAN_IDLE]));
		return;
	}
	ex->own = false;
	expiry_set(&f->worker->expiries, ex->expiry, on_client ? SPAN_IDLE : SPAN_TUNNEL,
		f->worker->now_ms);
}

struct target *
exchange_target(const struct exchange *ex)
{
	return ex->h2 != NULL ? h2_stream_target(ex->h2) : ex->upstream->target;
}

bool
exchange_at_other(const struct exchange *ex)
{
	return ex->h2 != NULL ? exchange_target(ex)->at_other : ex->upstream->at_other;
}

/* --- the request ---------------------------------------------------------------------------- */

static void
exchange_hex16(char to[17], uint64_t v)
{
	for (int i = 15; i >= 0; i--, v >>= 4)
		to[i] = "0123456789abcdef"[v & 15];
	to[16] = '\0';
}

/* As inet_ntop, which uses printf and would be slow for every request. */
static void
ipv4_text(char to[INET_ADDRSTRLEN], uint32_t ip)
{
	for (int shift = 24; shift >= 0; shift -= 8) {
		unsigned byte = ip >> shift & 255;

		if (byte >= 100)
			*to++ = (char)('0' + byte / 100);
		if (byte >= 10)
			*to++ = (char)('0' + byte / 10 % 10);
		*to++ = (char)('0' + byte % 10);
		*to++ = shift > 0 ? '.' : '\0';
	}
}

static int
write_head(struct exchange *ex, const struct http1_head *h)
{
	struct downstream *f = ex->downstream;
	struct worker *w = f->worker;
	char from[IP_TEXT_MAX], to[INET_ADDRSTRLEN], host[INET_ADDRSTRLEN + 8] = "", id[17];
	char traceparent[TRACEPARENT_LEN + 1];
	struct http1_forward forward = {.client = from,
		.via = w->lb->config.via ? "edgeway" : "",
		.host = host,
		.request_id = id};
	ssize_t n;

	if (IN6_IS_ADDR_V4MAPPED(&f->client))
		ipv4_text(from, f->client_ip);
	else
		ip_text(&f->client, from);
	if (h->host.len == 0) {
		ipv4_text(to, f->group->key.ip);
		snprintf(host, sizeof host, "%s:%u", to, f->group->key.port);
	}
	exchange_hex16(id, worker_random(w));
	if (w->traces)
		trace_begin(ex, h, &forward, traceparent);
	n = http1_emit_request(w->emit, sizeof w->emit, h, &forward);
	if (n < 0)
		return (int)n;
	buf_consume(&ex->head, buf_len(&ex->head));
	return buf_add(&ex->head, w->emit, (size_t)n);
}

static const char *
why_none(const struct group *g)
{
	const struct service_port *p =
		g->service != NULL ? service_port_find(g->service, g->key.port, false) : NULL;

	if (p != NULL && p->n_refused > 0)
		return "has endpoints that this node refuses to dial (lb.allow)";
	return p != NULL && p->n_unreachable > 0
		? "has no endpoints that this node can dial (no hostPort, or another site)"
		: "has no endpoints";
}

static void
refuse_service(struct exchange *ex, const char *what, _Atomic uint64_t *counter)
{
	const struct service *s = ex->group->service;
	char line[256];

	count(counter, 1);
	access_log_end(ex, "SC");
	if (s != NULL)
		snprintf(line, sizeof line, "service %s/%s port %u %s", s->namespace, s->name,
			ex->group->key.port, what);
	else
		snprintf(line, sizeof line, "no such service any more");
	ex->kind->refuse(ex, 503, line);
}

static void
exchange_refuse_tls(struct exchange *ex)
{
	char what[200];

	snprintf(what, sizeof what,
		"is called by TLS alone, which its BackendTLSPolicy prevents: %s",
		group_tls_wrong(ex->group));
	refuse_service(ex, what, &ex->downstream->worker->counters.tls_failed);
}

static void
exchange_refuse_loop(struct exchange *ex)
{
	worker_tell_loop(ex->downstream);
	access_log_end(ex, "PR");
	ex->kind->refuse(ex, 508, HOPS_REASON);
}

static void
refuse_caller(struct exchange *ex)
{
	const struct group *g = ex->downstream->group;
	char reason[PERMIT_REASON_MAX];

	permit_refused(ex->downstream, g->service, g->key.port, reason);
	access_log_end(ex, "PR");
	ex->kind->refuse(ex, 403, reason);
}

static void
send_head(struct exchange *ex)
{
	exchange_go(ex, EXCHANGE_SENDING);
	ex->upstream->peer.later = ex->downstream->worker->ring;
	/* A failed write is followed by a failed read; the decision to try again is made there. */
	if (peer_send_bytes(&ex->upstream->peer, buf_at(&ex->head), buf_len(&ex->head)) < 0)
		ex->discard = true;
	dial_sent(ex);
}

static void
exchange_begin_sending(struct exchange *ex, bool more)
{
	access_log_connected(ex);
	trace_connected(ex);
	exchange_go(ex, EXCHANGE_CONNECTED);
	ex->discard = false;
	if (worker_policy(ex->downstream->worker, ex->group) == LB_EWMA)
		ex->sent_us = answer_clock_us();
	/* If body bytes are available, the head is sent together with them. */
	if (ex->http.request_done || !more)
		send_head(ex);
}

bool
exchange_admit(struct exchange *ex, struct http1_head *h)
{
	struct downstream *f = ex->downstream;
	struct worker *w = f->worker;
	bool may = permit_check(f), follow = true;
	struct routing routing;

	exchange_use(ex, f->group);
	if (may && f->group->service != NULL && f->group->service->routes != NULL)
		follow = routing_apply(ex, h, &routing);
	ex->has_body = !ex->http.request_done;
	if (ex->http.last && ex->http.request_done) /* it is closed after the answer */
		watch_defer(f->peer.watch, true);
	/* For a service without retries each request is sent at most once. */
	ex->idempotent = h->idempotent && pick_tries(ex) > 1;
	ex->key = hashkey_of(ex->group->service, h, f->client_ip);
	if (write_head(ex, h) < 0) {
		access_log_end(ex, "PR");
		ex->http.keep = false;
		ex->kind->refuse(ex, 431, "the head is too large");
		return false;
	}
	exchange_touch(ex);
	if (http1_passes(h) >= HOPS_MAX) {
		exchange_refuse_loop(ex);
		return false;
	}
	if (!may) {
		refuse_caller(ex);
		return false;
	}
	if (!follow) {
		routing_refuse(ex, &routing);
		return false;
	}
	if (ex->rule != NULL && ex->rule->n_mirrors > 0)
		mirror_begin(ex, h);
	if (group_tls_wrong(ex->group) != NULL) {
		exchange_refuse_tls(ex);
		return false;
	}
	if (balance_count(&ex->group->balance) > 0)
		return true;
	refuse_service(ex, why_none(ex->group),
		ex->group->service != NULL ? &w->counters.no_endpoints : &w->counters.no_service);
	return false;
}

static void
exchange_connected(struct exchange *ex)
{
	struct downstream *f = ex->downstream;

	exchange_begin_sending(ex, !ex->http.request_done && buf_len(&f->base.in) > 0);
	downstream_run(f);
}

static void
exchange_refuse(struct exchange *ex, int status, const char *line)
{
	downstream_refuse(ex->downstream, status, line, !ex->http.request_done);
}

static const struct exchange_kind exchange_http1 = {
	.connected = exchange_connected,
	.dial_failed = exchange_dial_failed,
	.refuse = exchange_refuse,
};

void
exchange_start(struct downstream *f, bool more)
{
	struct http1_head *h = &f->worker->head;
	struct exchange *ex = exchange_new(f, &exchange_http1);

	f->ex = ex;
	http1_exchange_begin(&ex->http, h);
	if (!exchange_admit(ex, h))
		return;
	switch (dial_start(ex, true)) {
	case DIAL_READY:
		exchange_begin_sending(ex, more);
		break;
	case DIAL_WAIT:
	case DIAL_HELD:
		break;
	case DIAL_FAILED:
		exchange_dial_failed(ex);
		break;
	}
}

void
exchange_dial_failed(struct exchange *ex)
{
	struct downstream *f = ex->downstream;
	const struct service *s = ex->group->service;
	const char *why = ex->full ? "has all its connections in use (edgeway.io/max-connections)"
		: ex->over_quota   ? "cannot be reached: its client has its share of connections"
		: ex->out_of_resources
		? "cannot be reached: this node is short of descriptors or ports"
		: NULL;
	char line[256];

	if (why != NULL) {
		refuse_service(ex, why, &f->worker->counters.overloaded);
		return;
	}
	count(&f->worker->counters.not_connected, 1);
	access_log_end(ex, ex->timed_out ? "sC" : "SC");
	if (ex->tls_why != NULL) {
		auto_free char *text =
			xasprintf("service %s/%s port %u: TLS with its endpoint failed: %s",
				s != NULL ? s->namespace : "-", s != NULL ? s->name : "-",
				ex->group->key.port, ex->tls_why);

		ex->kind->refuse(ex, ex->timed_out ? 504 : 502, text);
		return;
	}
	snprintf(line, sizeof line, "no endpoint of service %s/%s port %u %s",
		s != NULL ? s->namespace : "-", s != NULL ? s->name : "-", ex->group->key.port,
		ex->timed_out ? "answers" : "accepts connections");
	ex->kind->refuse(ex, ex->timed_out ? 504 : 502, line);
}

/* The body violates the grammar: the start of the next request is unknown. */
static void
bad_body(struct exchange *ex)
{
	struct downstream *f = ex->downstream;

	count(&f->worker->counters.bad_request, 1);
	access_log_end(ex, "PR");
	if (ex->state == EXCHANGE_ANSWERING) {
		downstream_close(f, true);
		return;
	}
	if (ex->upstream != NULL)
		upstream_conn_close(ex->upstream, true);
	downstream_refuse(f, 400, "malformed chunked body", true);
}

/* It has an endpoint's connection, and is not a relay. */
static bool
exchange_is_connected(const struct exchange *ex)
{
	return ex->state == EXCHANGE_CONNECTED || ex->state == EXCHANGE_SENDING ||
		ex->state == EXCHANGE_ANSWERING;
}

size_t
exchange_body(struct exchange *ex, const char *data, size_t len)
{
	struct downstream *f = ex->downstream;
	enum http1_got got;
	struct gather g;
	size_t used;

	if (ex->http.request_done || !exchange_is_connected(ex))
		return 0;
	/* After a failed write the next read shows whether there is a response or another
	 * attempt. */
	if (ex->discard ? ex->state != EXCHANGE_ANSWERING : memory_full(&ex->upstream->peer))
		return 0;
	gather_init(&g, ex->discard ? NULL : &ex->upstream->peer);
	if (ex->state == EXCHANGE_CONNECTED) {
		gather_add(&g, buf_at(&ex->head), buf_len(&ex->head));
		dial_sent(ex);
		exchange_go(ex, EXCHANGE_SENDING);
	}
	if (ex->mirrors != NULL)
		mirror_body_http1(ex, data, len);
	got = gather_body(&g, &ex->http.up, ex->http.up.framing == HTTP1_CHUNKED, data, len, &used);
	if (got == HTTP1_BAD) {
		bad_body(ex);
		return len;
	}
	ex->body_sent += g.payload;
	count(&f->worker->counters.bytes_up, g.payload);
	count(&ex->group->cell->bytes_up, g.payload);
	if (gather_flush(&g) < 0)
		ex->discard = true; /* there may be a response nevertheless */
	if (got == HTTP1_DONE) {
		ex->http.request_done = true;
		mirror_done(ex);
	}
	exchange_touch(ex);
	return used;
}

/* --- ends ----------------------------------------------------------------------------------- */

void
exchange_abort(struct exchange *ex)
{
	const struct worker *w = ex->downstream->worker;

	if (w->draining && w->now_ms >= w->drain_until_ms)
		access_log_end(ex, "KD");
	access_log_end(ex, ex->state == EXCHANGE_ANSWERING || exchange_is_relay(ex) ? "CD" : "CH");
	if (ex->upstream != NULL)
		upstream_conn_close(ex->upstream, true);
	exchange_end(ex);
}

void
exchange_tell_silence(const struct exchange *ex, const struct target *t)
{
	const struct service *s = ex->group->service;
	char text[ADDR_TEXT_MAX];

	log_limited(LOG_LEVEL_WARN, 6, "lb",
		"an endpoint took a request and did not answer in time: see its container's log; "
		"edgeway.io/request-timeout says how long that may be, 0 for ever address=%s "
		"service=%s/%s port=%u",
		target_text(t, t->at_other, text), s != NULL ? s->namespace : "-",
		s != NULL ? s->name : "-", ex->group->key.port);
}

/* An attempt that has lasted as long as its route lets it is given up for another one. */
static bool
exchange_try_again(struct exchange *ex)
{
	struct upstream_conn *b = ex->upstream;

	if (!routing_try_is_over(ex) || !routing_repeats(ex) || b == NULL || b->connecting ||
		!ex->idempotent || !exchange_may_retry(ex) || !pick_may_charge(ex))
		return false;
	dial_report_failure(ex, b->target, TARGET_RESET);
	exchange_ask_another(ex);
	return true;
}

static void exchange_ask_now(struct exchange *ex);

void
exchange_timeout(struct exchange *ex)
{
	struct downstream *f = ex->downstream;
	bool started = ex->state == EXCHANGE_ANSWERING;
	bool slow_client = !ex->http.request_done && exchange_is_connected(ex) &&
		!memory_full(&ex->upstream->peer);

	if (routing_is_due_again(ex)) {
		exchange_ask_now(ex);
		return;
	}
	count(&f->worker->counters.timeouts, 1);
	if (exchange_try_again(ex))
		return;
	access_log_end(ex,
		started ? buf_len(&f->peer.out) > 0 || !ex->http.request_done ? "cD" : "sD"
			: slow_client ? "cD"
				      : "sH");
	if (started) {
		downstream_close(f, true);
		return;
	}
	if (!slow_client && ex->upstream != NULL && !ex->upstream->connecting) {
		exchange_tell_silence(ex, ex->upstream->target);
		dial_report_failure(ex, ex->upstream->target, TARGET_RESET);
	}
	if (ex->upstream != NULL)
		upstream_conn_close(ex->upstream, true);
	if (slow_client && !routing_is_over(ex))
		downstream_refuse(f, 408, "the request's body took too long", true);
	else
		downstream_refuse(
			f, 504, "the endpoint did not answer in time", !ex->http.request_done);
}

void
exchange_client_drained(struct exchange *ex)
{
	exchange_touch(ex);
	if (ex->upstream != NULL && !ex->upstream->connecting)
		peer_resume(&ex->upstream->peer);
}

/* RFC 9110 section 9.2.2, 9112 section 9.3.1: send again only if nothing can have been executed, or
 * if executing twice is as good as once. */
bool
exchange_may_retry(const struct exchange *ex)
{
	const struct upstream_conn *b = ex->upstream;

	if (ex->state == EXCHANGE_ANSWERING || ex->body_sent > 0 || buf_len(&b->base.in) > 0)
		return false;
	/* A chunked body without a byte: the endpoint has the whole request, and its end is not
	 * kept. */
	if (ex->has_body && ex->http.request_done)
		return false;
	return ex->idempotent || (b->reused_at > 0 && ex->has_body);
}

bool
exchange_may_ask_another(const struct exchange *ex, unsigned status)
{
	return routing_retries(ex, status, retry_on_bit(status)) && ex->idempotent &&
		exchange_may_retry(ex) && pick_may_charge(ex) &&
		(routing_repeats(ex) ||
			pick_another(ex, ex->upstream->target, pick_is_mute(ex->upstream)));
}

/* Returns false if no endpoint is left to try. */
static bool
dial_again(struct exchange *ex, bool may_reuse)
{
	enum dial d = dial_next(ex, may_reuse);

	if (d == DIAL_READY)
		ex->kind->connected(ex);
	return d != DIAL_FAILED;
}

static void
exchange_ask_now(struct exchange *ex)
{
	if (!dial_again(ex, true))
		exchange_dial_failed(ex);
	else if (ex->rule != NULL)
		exchange_touch(ex);
}

void
exchange_ask_another(struct exchange *ex)
{
	pick_leave(ex, ex->upstream->target, pick_is_mute(ex->upstream));
	ex->free_retry = false;
	ex->try_ms = 0;
	upstream_conn_close(ex->upstream, false);
	if (routing_backs_off(ex))
		exchange_touch(ex);
	else
		exchange_ask_now(ex);
}

/* Returns whether the endpoint has taken no byte of the request. */
static bool
exchange_untouched(const struct exchange *ex)
{
	return ex->discard || peer_unacked_bytes(&ex->upstream->peer) >= buf_len(&ex->head);
}

void
exchange_refuse_lost(struct exchange *ex, bool silent)
{
	count(&ex->downstream->worker->counters.upstream_lost, 1);
	access_log_end(ex, "SH");
	ex->kind->refuse(ex, silent ? 504 : 502,
		silent ? "the endpoint is not reachable any more"
		       : "the endpoint closed the connection without an answer");
}

/* A server may close a connection right after an idle time, and a connection through the hub may
 * have lost its route: neither is the endpoint's fault. */
static bool
exchange_is_stale(const struct exchange *ex, bool again)
{
	const struct upstream_conn *b = ex->upstream;

	return (b->reused_at > 0 && !b->silent && !b->acked) ||
		(again && ex->n_stale == 0 && target_is_far(b->target));
}

/* The connection ended before the response began. */
static void
retry_or_refuse(struct exchange *ex)
{
	struct upstream_conn *b = ex->upstream;
	bool again = exchange_may_retry(ex), silent = b->silent;

	if (exchange_is_stale(ex, again)) {
		ex->n_stale++;
		trace_note(ex, TRACE_STALE, b->target);
	} else {
		dial_report_failure(ex, b->target, TARGET_RESET);
		ex->free_retry = again && exchange_untouched(ex);
	}
	upstream_conn_close(b, false);
	if (!again || !dial_again(ex, false))
		exchange_refuse_lost(ex, silent);
}

void
exchange_ask_again(struct exchange *ex)
{
	if (!exchange_may_retry(ex))
		return;
	ex->n_stale++;
	trace_note(ex, TRACE_STALE, ex->upstream->target);
	upstream_conn_close(ex->upstream, true);
	if (!dial_again(ex, false))
		exchange_refuse_lost(ex, false);
}

static void
upstream_ended(struct exchange *ex, bool clean)
{
	struct downstream *f = ex->downstream;

	if (ex->state != EXCHANGE_ANSWERING) {
		retry_or_refuse(ex);
	} else if (clean && ex->http.down.framing == HTTP1_UNTIL_CLOSE) {
		answer_until_close_done(ex);
	} else {
		count(&f->worker->counters.upstream_lost, 1);
		count(&ex->group->cell->failures, 1);
		access_log_end(ex, "SD");
		downstream_close(f, true); /* a truncated response must not look complete */
	}
}

static void
read_upstream(struct upstream_conn *b, unsigned events)
{
	struct exchange *ex = b->ex;
	struct worker *w = b->worker;

	/* What had come before the request was sent answers nothing. With TLS pool_get has asked,
	 * and what is told is of our own making. */
	if (b->reused_at == loop_looks(w->loop) && b->peer.tls == NULL &&
		ex->state != EXCHANGE_ANSWERING) {
		retry_or_refuse(ex);
		return;
	}
	/* No other event follows a hang-up: read everything now. */
	for (int round = 0; round < READ_ROUNDS || events & WATCH_HUP; round++) {
		size_t most = memory_allowance(ex->downstream);
		ssize_t n = answer_splice(ex);
		bool copy = n == -ENOSYS;

		if (copy && ex->step[0] > 0)
			most = memory_step(&ex->downstream->peer, most);
		if (copy)
			n = peer_read(&b->peer, w->scratch, most);
		if ((n == -EAGAIN && !(events & WATCH_HUP)) || b->base.ended)
			return;
		if (n <= 0) {
			upstream_ended(ex, n == 0 && !b->peer.cut);
			return;
		}
		if (copy) {
			ex->step[0] = splice_first(n, most);
			b->filled = (size_t)n == most;
			answer_input(ex, w->scratch, (size_t)n);
		}
		if (b->ex != ex || b->base.ended || exchange_is_relay(ex) || b->peer.paused)
			return;
		if ((size_t)n < most && !(events & WATCH_HUP))
			return;
	}
}

void
exchange_on_upstream(struct upstream_conn *b, unsigned events)
{
	struct exchange *ex = b->ex;

	if (events & WATCH_WRITE) {
		if (peer_flush(&b->peer) < 0)
			ex->discard = true;
		exchange_touch(ex);
		if (buf_len(&b->peer.out) == 0)
			downstream_run(ex->downstream);
	}
	if (b->ex == ex && !b->base.ended && events & (WATCH_READ | WATCH_HUP))
		read_upstream(b, events);
}
