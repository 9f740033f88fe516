#include "lb/proxy/answer.h"

#include <errno.h>
#include <sys/socket.h>
#include <time.h>

#include "lb/conn/gather.h"
#include "lb/proxy/access_log.h"
#include "lb/proxy/exchange.h"
#include "lb/proxy/memory.h"
#include "lb/proxy/outlier.h"
#include "lb/proxy/outlier_share.h"
#include "lb/proxy/pool.h"
#include "lb/proxy/proxy.h"
#include "lb/proxy/relay.h"
#include "lb/proxy/routing.h"
#include "lb/proxy/server_first.h"
#include "lb/proxy/splice.h"
#include "lb/proxy/trace.h"

enum { AT_ONCE_BYTES = 8192 }; /* surely in flight: the initial window is larger */

uint64_t
answer_clock_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

void
answer_count_status(struct exchange *ex, unsigned status)
{
	struct counters *c = &ex->downstream->worker->counters;
	_Atomic uint64_t *by_class[] = {
		&c->status_1xx, &c->status_2xx, &c->status_3xx, &c->status_4xx, &c->status_5xx};

	count(by_class[status / 100 - 1], 1);
	count(&ex->group->cell->requests[status / 100], 1);
}

void
answer_count_down(struct exchange *ex, uint64_t n)
{
	ex->body_received += n;
	count(&ex->downstream->worker->counters.bytes_down, n);
	count(&ex->group->cell->bytes_down, n);
}

/* A client that has said that this request is its last one sends nothing more that a RST could
 * answer (RFC 9112 section 9.6), so nothing need be awaited unless it has. A long response is, as
 * the kernel soon gives up sending what nobody waits for. */
static bool
answer_ends_client(const struct exchange *ex)
{
	const struct downstream *f = ex->downstream;

	return ex->http.last && ex->http.request_done && !ex->has_body &&
		ex->body_received < AT_ONCE_BYTES && buf_len(&f->peer.out) == 0 &&
		buf_len(&f->base.in) == 0 && !peer_has_input(&f->peer);
}

/* The response is complete; `rest`: the endpoint sent more than that. */
static void
answer_finish_response(struct exchange *ex, bool rest)
{
	struct downstream *f = ex->downstream;
	struct upstream_conn *b = ex->upstream;
	bool keep = ex->http.keep && ex->http.request_done, at_once;

	if (ex->http.reusable && ex->http.request_done && !ex->discard && !rest && !b->peer.eof &&
		buf_len(&b->peer.out) == 0 && (!b->filled || peer_is_quiet(&b->peer)))
		pool_put(b);
	else
		upstream_conn_close(b, false);
	at_once = f->peer.last ? buf_len(&f->peer.out) == 0 : answer_ends_client(ex);
	exchange_end(ex);
	if (at_once)
		downstream_close(f, false);
	else
		downstream_next(f, keep);
}

static void
bad_answer(struct exchange *ex, const char *why)
{
	struct downstream *f = ex->downstream;

	count(&f->worker->counters.bad_response, 1);
	access_log_end(ex, ex->state == EXCHANGE_ANSWERING ? "PD" : "PH");
	upstream_conn_close(ex->upstream, true);
	if (ex->state == EXCHANGE_ANSWERING)
		downstream_close(f, true);
	else
		downstream_refuse(f, 502, why, !ex->http.request_done);
}

static void
client_lost(struct exchange *ex)
{
	count(&ex->downstream->worker->counters.client_lost, 1);
	access_log_end(ex, ex->state == EXCHANGE_ANSWERING ? "CD" : "CH");
	downstream_close(ex->downstream, false);
}

/* Reads the response no faster than the client takes it. */
static void
hold_back(struct exchange *ex)
{
	if (memory_full(&ex->downstream->peer))
		peer_pause(&ex->upstream->peer);
	exchange_touch(ex);
}

/* 100, 103 and other 1xx are forwarded end to end. */
static void
relay_interim(struct exchange *ex)
{
	struct worker *w = ex->downstream->worker;
	ssize_t n = http1_exchange_emit(&ex->http, &w->head, w->emit, sizeof w->emit);

	answer_count_status(ex, w->head.status);
	if (n < 0)
		bad_answer(ex, "the endpoint's head is too large");
	else if (peer_send_bytes(&ex->downstream->peer, w->emit, (size_t)n) < 0)
		client_lost(ex);
	else
		hold_back(ex);
}

void
answer_begins(struct exchange *ex, unsigned status)
{
	struct target *t = exchange_target(ex);
	uint64_t now_us = answer_clock_us();

	exchange_go(ex, EXCHANGE_ANSWERING);
	server_first_is_http(ex->downstream->group);
	ex->access.status = (uint16_t)status;
	access_log_first(ex);
	answer_count_status(ex, status);
	service_stats_took(ex->group->cell, now_us - ex->begin_us);
	if (ex->sent_us != 0)
		balance_observe(&t->node, (uint32_t)MIN(now_us - ex->sent_us, (uint64_t)UINT32_MAX),
			ex->downstream->worker->now_ms);
}

/* Writes the head of the final response into worker->emit; returns its length, 0 when the exchange
 * is over. */
static size_t
answer_begin_response(struct exchange *ex)
{
	struct worker *w = ex->downstream->worker;
	ssize_t n;

	ex->http.keep = ex->http.keep && !w->draining;
	if (routing_edit_response(ex, &w->head) < 0) {
		bad_answer(ex, "the endpoint's head has too many fields for its route's edits");
		return 0;
	}
	n = http1_exchange_emit(&ex->http, &w->head, w->emit, sizeof w->emit);
	if (n < 0) {
		bad_answer(ex, "the endpoint's head is too large");
		return 0;
	}
	/* An answer without a request: the endpoint is not to get the body alone. */
	ex->discard |= ex->state == EXCHANGE_CONNECTED;
	answer_begins(ex, w->head.status);
	return (size_t)n;
}

void
answer_judge(struct exchange *ex, unsigned status)
{
	struct worker *w = ex->downstream->worker;
	const struct service *s = ex->group->service;
	unsigned most = s != NULL ? s->lb.outlier_5xx : 0;
	struct target *t = exchange_target(ex);

	t->heard_ms = w->now_ms;
	if (most == 0 || status < 500) {
		t->errors = 0;
	} else if (++t->errors >= most || (t->ejections > 0 && t->fault == TARGET_ERRORS)) {
		t->errors = 0;
		outlier_target(w, t, TARGET_ERRORS, ex);
		return;
	}
	if (target_is_suspect(t))
		outlier_share_worked(w, t, true);
}

/* 101: the bytes after it, and those that the client sent after its request, belong to the new
 * protocol. */
static void
switch_protocol(struct exchange *ex, const char *data, size_t len)
{
	struct worker *w = ex->downstream->worker;
	ssize_t n = routing_edit_response(ex, &w->head);

	if (n == 0)
		n = http1_exchange_emit(&ex->http, &w->head, w->emit, sizeof w->emit);
	if (n < 0 || peer_send_bytes(&ex->downstream->peer, w->emit, (size_t)n) < 0) {
		client_lost(ex);
		return;
	}
	answer_count_status(ex, 101);
	ex->access.status = 101;
	access_log_first(ex);
	trace_end(ex);
	relay_upgraded(ex, data, len);
}

/* Forwards body bytes, preceded by head_len bytes of worker->emit. */
static void
forward_body(struct exchange *ex, size_t head_len, const char *data, size_t len)
{
	struct downstream *f = ex->downstream;
	struct worker *w = f->worker;
	enum http1_got got;
	struct gather g;
	size_t used;

	gather_init(&g, &f->peer);
	gather_add(&g, w->emit, head_len);
	got = gather_body(&g, &ex->http.down, ex->http.chunked_down, data, len, &used);
	answer_count_down(ex, g.payload);
	f->peer.later = got == HTTP1_DONE ? w->ring : NULL;
	f->peer.last = got == HTTP1_DONE && answer_ends_client(ex);
	if (gather_flush(&g) < 0) {
		client_lost(ex);
	} else if (got == HTTP1_BAD) {
		bad_answer(ex, "");
	} else if (got == HTTP1_DONE) {
		answer_finish_response(ex, used < len);
	} else {
		hold_back(ex);
	}
}

/* Returns the bytes of the head that were used; 0: it is incomplete, or the exchange is over. */
static size_t
take_head(struct exchange *ex, const char *data, size_t len)
{
	struct worker *w = ex->downstream->worker;
	auto_buf struct buf clean = {.limit = BUF_UNLIMITED};
	size_t used = 0, head_len;

	if (h2_is_settings(data, len)) {
		bad_answer(ex, "the endpoint speaks HTTP/2 alone, and the request is HTTP/1");
		return 0;
	}
	switch (http1_exchange_read(
		&ex->http, &w->head, (struct http1_str){data, len}, &clean, &used)) {
	case HTTP1_ANSWER_BAD:
		bad_answer(ex, w->head.why);
		return 0;
	case HTTP1_ANSWER_INCOMPLETE:
		return 0;
	case HTTP1_ANSWER_HIDDEN:
		return used;
	case HTTP1_ANSWER_INTERIM:
		relay_interim(ex);
		return ex->state == EXCHANGE_ENDED ? 0 : used;
	case HTTP1_ANSWER_SWITCH:
		switch_protocol(ex, data + used, len - used);
		return 0;
	case HTTP1_ANSWER_FINAL:
		break;
	}
	answer_judge(ex, w->head.status);
	if (exchange_may_ask_another(ex, w->head.status)) {
		exchange_ask_another(ex);
		return 0;
	}
	head_len = answer_begin_response(ex);
	if (head_len > 0)
		forward_body(ex, head_len, data + used, len - used);
	return 0;
}

static void
answer_input_part(struct exchange *ex, const char *data, size_t len, size_t *used)
{
	size_t n;

	*used = 0;
	if (ex->state == EXCHANGE_ANSWERING) {
		forward_body(ex, 0, data, len);
		*used = len;
		return;
	}
	while (*used < len && (n = take_head(ex, data + *used, len - *used)) > 0)
		*used += n;
	if (ex->state != EXCHANGE_CONNECTED && ex->state != EXCHANGE_SENDING)
		*used = len;
}

void
answer_input(struct exchange *ex, const char *data, size_t len)
{
	struct upstream_conn *b = ex->upstream;
	auto_buf struct buf pieces;
	size_t used;

	/* The head came in several pieces; the connection may belong to another exchange when
	 * `input` returns. */
	pieces = b->base.in;
	buf_init(&b->base.in, BUF_UNLIMITED);
	if (buf_len(&pieces) > 0) {
		buf_add(&pieces, data, len);
		data = buf_at(&pieces);
		len = buf_len(&pieces);
	}
	answer_input_part(ex, data, len, &used);
	if (used == len)
		return;
	if (buf_len(&pieces) > 0) {
		buf_consume(&pieces, used);
		b->base.in = pieces;
		buf_init(&pieces, BUF_UNLIMITED);
	} else
		buf_add(&b->base.in, data + used, len - used);
}

ssize_t
answer_splice(struct exchange *ex)
{
	struct downstream *f = ex->downstream;
	uint64_t left = ex->state == EXCHANGE_ANSWERING ? http1_body_raw(&ex->http.down) : 0;
	size_t step;
	ssize_t n;

	if (ex->step[0] == 0 || left < SCRATCH_BYTES || buf_len(&f->peer.out) > 0 ||
		memory_allowance(f) < MEMORY_ALLOWANCE_MOST)
		return -ENOSYS;
	step = memory_step(&f->peer, ex->step[0]);
	if (step < SCRATCH_BYTES)
		return -ENOSYS;
	n = splice_move(f->worker, &ex->upstream->peer, &f->peer, MIN(left, (uint64_t)step));
	if (n <= 0) {
		if (f->peer.broken)
			client_lost(ex);
		return n;
	}
	ex->step[0] = splice_next(ex->step[0], n, &f->peer);
	http1_body_skip(&ex->http.down, (uint64_t)n);
	answer_count_down(ex, (uint64_t)n);
	if (http1_body_done(&ex->http.down))
		answer_finish_response(ex, !peer_is_quiet(&ex->upstream->peer));
	else
		hold_back(ex);
	return n;
}

void
answer_until_close_done(struct exchange *ex)
{
	struct downstream *f = ex->downstream;

	if (ex->http.chunked_down &&
		peer_send_bytes(&f->peer, HTTP1_CHUNK_LAST, sizeof HTTP1_CHUNK_LAST - 1) < 0) {
		client_lost(ex);
		return;
	}
	ex->http.reusable = false;
	answer_finish_response(ex, false);
}
