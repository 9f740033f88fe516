#include "lb/proxy/h2_stream_private.h"

#include <stdio.h>

#include "base/core/hops.h"
#include "base/http/grpc.h"
#include "lb/proxy/access_log.h"
#include "lb/proxy/answer.h"
#include "lb/proxy/exchange.h"
#include "lb/proxy/h2_client.h"
#include "lb/proxy/h2_upstream.h"
#include "lb/proxy/memory.h"
#include "lb/proxy/mirror.h"
#include "lb/proxy/pool.h"
#include "lb/proxy/proxy.h"
#include "lb/proxy/routing.h"
#include "lb/proxy/trace.h"

enum {
	WIDEN_BYTES = 128 * 1024, /* of a body, after which its window is widened */
	WIDEN_WAITING = 16 * 1024, /* if no more than that waits: the receiver keeps up */
	WIDEN_STREAMS = 8, /* of one connection */
	INFORM_HELD_MAX = 128 * 1024,
};

struct target *
h2_stream_target(const struct h2_stream *st)
{
	return st->target;
}

size_t
h2_stream_held(const struct h2_stream *st)
{
	size_t n = sizeof *st + st->to_endpoint.size + st->to_client.size +
		st->trailers_up.text.size + st->trailers_down.text.size;

	if (st->up != NULL)
		n += h2_upstream_held(st->up) / st->up->n_streams;
	return st->ex != NULL ? n + sizeof *st->ex + st->ex->head.size : n;
}

/* --- time ----------------------------------------------------------------------------------- */

/* A call of gRPC has its own deadline or none, and may be silent for long at either side: it waits
 * as a relay does. */
void
h2_stream_touch(struct h2_stream *st)
{
	struct worker *w = stream_worker(st);
	struct exchange *ex = st->ex;
	const struct service *s = ex->group->service;
	bool limited = s != NULL && s->lb.request_ms != REQUEST_MS_DEFAULT;
	/* of another protocol, which may be silent at either side (RFC 8441) */
	bool on_client =
		!ex->http.upgrade && (!ex->http.request_done || buf_len(&st->to_client) > 0);

	if (st->has_timeout) {
		uint64_t due_ms = routing_due_ms(ex);

		if (limited && s->lb.request_ms != 0 && ex->again_ms == 0 &&
			ex->http.request_done && ex->state != EXCHANGE_ANSWERING)
			due_ms = MIN(due_ms, routing_service_due_ms(ex));
		exchange_due(ex, due_ms);
		return;
	}
	if (ex->http.upgrade && ex->state == EXCHANGE_ANSWERING && s != NULL && s->lb.idle_ms > 0) {
		exchange_due(ex, w->now_ms + s->lb.idle_ms);
		return;
	}
	if (routing_limits(ex) && exchange_touch_waiting(ex))
		return;
	if (!on_client || st->grpc) {
		if ((!st->grpc || (limited && ex->http.request_done)) && exchange_touch_waiting(ex))
			return;
		on_client = false;
	}
	ex->own = false;
	expiry_set(&w->expiries, &st->expiry, on_client ? SPAN_IDLE : SPAN_TUNNEL, w->now_ms);
}

/* The deadline that the client names counts from its request, and holds for all of the call. */
static void
stream_heed_timeout(struct h2_stream *st, const struct http1_head *h)
{
	struct exchange *ex = st->ex;
	uint64_t ms = st->grpc ? grpc_timeout_ms(h) : 0;

	if (ms == 0)
		return;
	ms += stream_worker(st)->now_ms;
	st->has_timeout = true;
	ex->whole_ms = ex->whole_ms != 0 ? MIN(ms, ex->whole_ms) : ms;
}

/* --- the end -------------------------------------------------------------------------------- */

static void
stream_forget_body(struct buf *b)
{
	buf_consume(b, buf_len(b));
	buf_release(b);
}

/* What was kept is of no use any more: the client may send as much again. */
static void
stream_unkeep(struct h2_stream *st)
{
	if (!st->kept)
		return;
	st->kept = false;
	buf_consume(&st->to_endpoint, st->kept_sent);
	if (st->client != NULL && st->kept_sent > 0) {
		h2_consume(st->client->link.h2, st->id, st->kept_sent);
		h2_link_touch(&st->client->link);
	}
	st->kept_sent = 0;
}

/* The exchange is over; the stream may still have bytes for the client. */
void
h2_stream_end(struct h2_stream *st, uint32_t code)
{
	struct exchange *ex = take_ptr(&st->ex);

	if (ex == NULL)
		return;
	expiry_set(&stream_worker(st)->expiries, &st->expiry, SPAN_IDLE, stream_worker(st)->now_ms);
	h2_upstream_unwait(st);
	upstream_conn_leave_dials(ex); /* others may wait for them */
	exchange_end(ex);
	h2_upstream_leave(st, code);
	stream_unkeep(st);
	if (buf_len(&st->to_endpoint) > 0)
		h2_consume(st->client->link.h2, st->id, buf_len(&st->to_endpoint));
	stream_forget_body(&st->to_endpoint);
}

/* Ends it on both sides, within its response. */
static void
stream_cut(struct h2_stream *st, uint32_t code)
{
	h2_reset(st->client->link.h2, st->id, code);
	h2_stream_end(st, H2_CANCEL);
	h2_link_touch(&st->client->link);
}

void
h2_stream_client_gone(struct h2_stream *st, uint32_t code)
{
	struct h2_client *c = st->client;
	struct exchange *ex = st->ex;
	bool whole = st->response_done && buf_len(&st->to_client) == 0;

	if (ex != NULL && (!whole || code != H2_NO_ERROR)) {
		count(&stream_worker(st)->counters.client_lost, 1);
		access_log_end(ex, ex->state == EXCHANGE_ANSWERING ? "CD" : "CH");
	}
	h2_stream_end(st, code);
	expiry_cancel(&st->expiry);
	c->n_widened -= st->widened;
	list_del(&st->node);
	buf_fini(&st->to_endpoint);
	buf_fini(&st->to_client);
	buf_fini(&st->trailers_up.text);
	buf_fini(&st->trailers_down.text);
	h2_client_count(c, -1);
	worker_free_later(c->link.worker, &st->base);
}

static void
on_expired(void *arg)
{
	struct h2_stream *st = arg;
	struct exchange *ex = st->ex;
	struct worker *w = stream_worker(st);
	bool slow_client;

	if (ex == NULL) { /* the client has not read our response */
		h2_reset(st->client->link.h2, st->id, H2_CANCEL);
		h2_link_touch(&st->client->link);
		return;
	}
	if (exchange_not_due(ex))
		return;
	if (routing_is_due_again(ex)) {
		h2_stream_ask_now(st);
		h2_link_touch(&st->client->link);
		return;
	}
	slow_client = !ex->http.request_done && !ex->http.upgrade && !st->grpc && st->up != NULL &&
		buf_len(&st->to_endpoint) == 0;
	count(&w->counters.timeouts, 1);
	if (h2_stream_try_again(st))
		return;
	access_log_end(ex, ex->state == EXCHANGE_ANSWERING ? "sD" : slow_client ? "cD" : "sH");
	if (st->up != NULL && ex->http.request_done && ex->state != EXCHANGE_ANSWERING &&
		!(st->has_timeout && routing_is_over(ex))) {
		exchange_tell_silence(ex, st->target);
		dial_report_failure(ex, st->target, TARGET_RESET);
	}
	if (ex->state == EXCHANGE_ANSWERING)
		stream_cut(st, H2_CANCEL);
	else if (slow_client && !routing_is_over(ex))
		ex->kind->refuse(ex, 408, "the request's body took too long");
	else
		ex->kind->refuse(ex, 504, "the endpoint did not answer in time");
	h2_link_touch(&st->client->link);
}

/* --- responses of our own ------------------------------------------------------------------- */

static void
stream_refuse_call(struct h2_stream *st, int status, const char *line)
{
	struct h2_fields *f = &stream_worker(st)->fields;
	char message[GRPC_MESSAGE_MAX], digits[4];
	unsigned code =
		st->has_timeout && status == 504 ? GRPC_DEADLINE_EXCEEDED : grpc_status_of(status);

	trace_call(st->ex, code);
	snprintf(digits, sizeof digits, "%u", code);
	f->n = 0;
	h2_fields_add(f, ":status", "200");
	h2_fields_add(f, "content-type", "application/grpc");
	h2_fields_add(f, "grpc-status", digits);
	h2_fields_add(f, "grpc-message", grpc_message(line, message));
	h2_respond(st->client->link.h2, st->id, f, true);
}

static void
stream_refuse(struct exchange *ex, int status, const char *line)
{
	struct h2_stream *st = ex->h2;
	struct h2_fields *f = &stream_worker(st)->fields;
	char digits[4];

	downstream_count_own(ex->downstream, ex, status);
	ex->access.status = (uint16_t)status;
	if (st->grpc && ex->location == NULL) {
		stream_refuse_call(st, status, line);
	} else {
		snprintf(digits, sizeof digits, "%d", status);
		f->n = 0;
		h2_fields_add(f, ":status", digits);
		h2_fields_add(f, "content-type", "text/plain; charset=utf-8");
		if (status == 503)
			h2_fields_add(f, "retry-after", "1");
		if (ex->location != NULL)
			h2_fields_add(f, "location", ex->location);
		if (!ex->http.is_head)
			buf_printf(&st->to_client, "%s\n", line);
		h2_respond(st->client->link.h2, st->id, f, ex->http.is_head);
	}
	st->responded = st->response_done = true;
	h2_stream_end(st, H2_CANCEL);
	h2_link_touch(&st->client->link);
}

void
h2_stream_deny(struct h2_stream *st, const char *reason)
{
	access_log_end(st->ex, "PR");
	if (st->responded)
		stream_cut(st, H2_CANCEL);
	else
		st->ex->kind->refuse(st->ex, 403, reason);
}

/* --- to the endpoint ------------------------------------------------------------------------ */

static void
stream_ask(struct h2_stream *st)
{
	struct exchange *ex = st->ex;

	if (ex->state != EXCHANGE_CONNECTED) /* it may have waited for the endpoint's SETTINGS */
		exchange_go(ex, EXCHANGE_CONNECTED);
	if (ex->http.upgrade && !st->up->settled)
		return; /* whether the endpoint takes other protocols is not known yet */
	if (ex->http.upgrade && !h2_takes_protocols(st->up->link.h2)) {
		access_log_end(ex, "PR");
		ex->kind->refuse(ex, 501, "the endpoint takes no CONNECT with a protocol");
		return;
	}
	access_log_connected(ex);
	trace_connected(ex);
	if (worker_policy(stream_worker(st), ex->group) == LB_EWMA)
		ex->sent_us = answer_clock_us();
	exchange_go(ex, EXCHANGE_SENDING);
	if (h2_upstream_ask(st) < 0)
		h2_stream_lost(st, H2_LOST_UNPROCESSED, H2_REFUSED_STREAM);
}

/* Its own dial has succeeded, or a session was there. */
static void
stream_connected(struct exchange *ex)
{
	struct h2_stream *st = ex->h2;

	if (st->up == NULL)
		h2_upstream_adopt(ex->upstream);
	stream_ask(st);
}

void
h2_stream_dial_failed(struct exchange *ex)
{
	if (ex->h2->http1) {
		count(&stream_worker(ex->h2)->counters.bad_response, 1);
		access_log_end(ex, "PH");
		ex->kind->refuse(ex, 502, STREAM_HTTP1);
	} else {
		exchange_dial_failed(ex);
	}
}

static const struct exchange_kind exchange_http2 = {
	.connected = stream_connected,
	.dial_failed = h2_stream_dial_failed,
	.refuse = stream_refuse,
};

struct h2_stream *
h2_stream_new(struct h2_client *c, int32_t id)
{
	struct h2_stream *st = xcalloc(1, sizeof *st);

	st->client = c;
	st->id = id;
	st->kept = true;
	st->flow_up.window = st->flow_down.window = H2_WINDOW;
	buf_init(&st->to_endpoint, BUF_UNLIMITED);
	buf_init(&st->to_client, BUF_UNLIMITED);
	list_init(&st->up_node);
	list_add_before(&c->streams, &st->node);
	expiry_init(&st->expiry, on_expired, st);
	h2_client_count(c, 1);
	st->ex = exchange_new(c->downstream, &exchange_http2);
	st->ex->h2 = st;
	st->ex->expiry = &st->expiry;
	return st;
}

static void
stream_dial(struct h2_stream *st, enum dial d)
{
	if (d == DIAL_READY)
		st->ex->kind->connected(st->ex);
	else if (d == DIAL_FAILED)
		h2_stream_dial_failed(st->ex);
}

void
h2_stream_start(struct h2_stream *st, struct h2_section *section, bool last)
{
	struct worker *w = stream_worker(st);
	struct exchange *ex = st->ex;
	struct http1_head *h = &w->head;
	int status = h2_head_request(h, section, last);

	ex->http.request_done = last;
	ex->http.client_minor = 1;
	if (status != 0) {
		count(&w->counters.bad_request, 1);
		access_log_end(ex, "PR");
		ex->kind->refuse(ex, status, h->why);
		return;
	}
	ex->http.is_head = h->is_head;
	ex->http.upgrade = h->upgrade;
	st->secret = section->secret;
	st->grpc = grpc_is_call(h);
	if (!exchange_admit(ex, h))
		return;
	stream_heed_timeout(st, h);
	h2_stream_touch(st);
	stream_dial(st, dial_start(ex, true));
}

/* --- windows -------------------------------------------------------------------------------- */

/* A wide window costs memory when its reader stops: few streams of a connection have one. */
static void
stream_widen(struct h2_stream *st, struct h2_flow *flow, struct h2 *h2, int32_t id, uint64_t passed,
	const struct buf *waiting)
{
	if (st->widened || passed < WIDEN_BYTES || buf_len(waiting) > WIDEN_WAITING ||
		st->client->n_widened == WIDEN_STREAMS || flow->window < H2_WINDOW)
		return;
	st->client->n_widened++;
	st->widened = true;
	flow->window = memory_window(st->client->downstream, H2_WINDOW_MAX);
	h2_window(h2, id, flow->window);
}

/* n bytes of a body have gone to its receiver. */
static void
stream_passed(struct h2_stream *st, struct h2_flow *flow, struct h2 *h2, int32_t id, size_t n)
{
	bool wide = flow->window > H2_WINDOW;
	size_t most = memory_window(st->client->downstream, wide ? H2_WINDOW_MAX : H2_WINDOW), owed;

	if (most <= flow->window / 2) {
		flow->owed += flow->window - most;
		flow->window = most;
		h2_window(h2, id, most);
	}
	owed = MIN(n, flow->owed);
	flow->owed -= owed;
	h2_consume(h2, id, n - owed);
}

/* --- the request ---------------------------------------------------------------------------- */

void
h2_stream_from_client(struct h2_stream *st, const char *data, size_t n)
{
	struct exchange *ex = st->ex;

	if (ex == NULL) { /* nobody wants it */
		h2_consume(st->client->link.h2, st->id, n);
		return;
	}
	buf_add(&st->to_endpoint, data, n);
	ex->body_sent += n;
	count(&stream_worker(st)->counters.bytes_up, n);
	count(&ex->group->cell->bytes_up, n);
	if (buf_len(&st->to_endpoint) > STREAM_KEPT)
		stream_unkeep(st);
	if (ex->mirrors != NULL)
		mirror_body(ex, data, n);
	stream_widen(
		st, &st->flow_up, st->client->link.h2, st->id, ex->body_sent, &st->to_endpoint);
	h2_stream_touch(st);
	if (st->up_id != 0) {
		h2_resume(st->up->link.h2, st->up_id);
		h2_upstream_watch(st->up);
	}
}

void
h2_stream_client_trailers(struct h2_stream *st, struct h2_section *section)
{
	if (st->ex != NULL && section->too_large) {
		count(&stream_worker(st)->counters.bad_request, 1);
		access_log_end(st->ex, "PR");
		if (st->responded)
			stream_cut(st, H2_CANCEL);
		else
			st->ex->kind->refuse(st->ex, 431, "the trailers are too large");
		return;
	}
	if (st->ex != NULL)
		h2_section_keep(&st->trailers_up, section);
	h2_stream_client_done(st);
}

void
h2_stream_client_done(struct h2_stream *st)
{
	if (st->ex == NULL)
		return;
	st->ex->http.request_done = true;
	mirror_done(st->ex);
	h2_stream_touch(st);
	if (st->up_id != 0) {
		h2_resume(st->up->link.h2, st->up_id);
		h2_link_touch(&st->up->link);
	}
}

size_t
h2_stream_for_endpoint(struct h2_stream *st, const char **at, enum h2_rest *rest)
{
	size_t skip = st->kept ? st->kept_sent : 0;

	*at = buf_at(&st->to_endpoint) + skip;
	if (st->ex != NULL && st->ex->http.request_done)
		*rest = st->trailers_up.n > 0 ? H2_THEN_TRAILERS : H2_LAST;
	return buf_len(&st->to_endpoint) - skip;
}

void
h2_stream_endpoint_took(struct h2_stream *st, size_t n)
{
	if (st->kept) {
		st->kept_sent += (uint32_t)n;
		return;
	}
	buf_consume(&st->to_endpoint, n);
	if (buf_len(&st->to_endpoint) == 0)
		buf_release(&st->to_endpoint);
	stream_passed(st, &st->flow_up, st->client->link.h2, st->id, n);
	h2_link_touch(&st->client->link);
	if (st->ex != NULL)
		h2_stream_touch(st);
}

/* --- from the endpoint ---------------------------------------------------------------------- */

/* A call's own status, as HTTP would have it. */
static unsigned
stream_call_status(const struct h2_stream *st, struct http1_str value)
{
	int status = grpc_status_parse(value);

	trace_call(st->ex, status < 0 ? GRPC_UNKNOWN : (unsigned)status);
	return status < 0 ? 500 : grpc_http_of((unsigned)status);
}

/* The status as HTTP would have it: that of a call may come with the head alone. */
static unsigned
stream_status(const struct h2_stream *st, const struct http1_head *h)
{
	for (size_t i = 0; st->grpc && h->status == 200 && i < h->n_fields; i++)
		if (http1_is(h->fields[i].name, "grpc-status")) {
			return stream_call_status(st, h->fields[i].value);
		}
	return h->status;
}

static void
stream_count_call(struct h2_stream *st, unsigned http)
{
	struct counters *c = &stream_worker(st)->counters;

	if (st->grpc)
		count(http < 400             ? &c->grpc_ok
				: http < 500 ? &c->grpc_refused
					     : &c->grpc_failed,
			1);
}

void
h2_stream_bad_answer(struct h2_stream *st, const char *why)
{
	struct exchange *ex = st->ex;

	count(&stream_worker(st)->counters.bad_response, 1);
	access_log_end(ex, ex->state == EXCHANGE_ANSWERING ? "PD" : "PH");
	if (st->responded)
		stream_cut(st, H2_INTERNAL_ERROR);
	else
		ex->kind->refuse(ex, 502, why);
}

/* A client that does not read gets no more of them. */
static void
stream_inform(struct h2_stream *st, const struct http1_head *h)
{
	struct worker *w = stream_worker(st);
	char status[4];

	if (h2_held(st->client->link.h2) > INFORM_HELD_MAX)
		return;
	h2_fields_response(&w->fields, h, status);
	h2_inform(st->client->link.h2, st->id, &w->fields);
	answer_count_status(st->ex, h->status);
}

static void
stream_respond(struct h2_stream *st, const struct http1_head *h, unsigned as)
{
	struct worker *w = stream_worker(st);
	char status[4];

	stream_unkeep(st);
	answer_begins(st->ex, as);
	st->responded = true;
	h2_fields_response(&w->fields, h, status);
	h2_respond(st->client->link.h2, st->id, &w->fields, st->response_done);
	if (st->response_done)
		stream_count_call(st, as);
	h2_stream_touch(st);
}

static void
stream_response(struct h2_stream *st, struct h2_section *section, enum h2_part part)
{
	struct worker *w = stream_worker(st);
	struct http1_head *h = &w->head;
	unsigned as;

	if (h2_head_response(h, section, st->response_done) != 0) {
		h2_stream_bad_answer(st, h->why);
		return;
	}
	if (part == H2_INTERIM) {
		stream_inform(st, h);
		return;
	}
	as = stream_status(st, h);
	answer_judge(st->ex, as);
	if (h2_stream_may_ask_another(st, as)) {
		h2_stream_ask_another(st);
		return;
	}
	if (routing_edit_response(st->ex, h) < 0)
		h2_stream_bad_answer(
			st, "the endpoint's head has too many fields for its route's edits");
	else
		stream_respond(st, h, as);
}

void
h2_stream_head(struct h2_stream *st, enum h2_part part, struct h2_section *section)
{
	struct h2_field f;
	size_t at = 0;

	if (st->ex == NULL)
		return;
	h2_link_touch(&st->client->link);
	if (part != H2_TRAILERS) {
		stream_response(st, section, part);
		return;
	}
	if (section->too_large) {
		h2_stream_bad_answer(st, "the endpoint's trailers are too large");
		return;
	}
	while (h2_section_next(section, &at, &f))
		if (st->grpc && http1_is(f.name, "grpc-status")) {
			unsigned as = stream_call_status(st, f.value);

			answer_judge(st->ex, as);
			stream_count_call(st, as);
		}
	h2_section_keep(&st->trailers_down, section);
}

void
h2_stream_from_endpoint(struct h2_stream *st, const char *data, size_t n)
{
	struct exchange *ex = st->ex;

	buf_add(&st->to_client, data, n);
	answer_count_down(ex, n);
	stream_widen(
		st, &st->flow_down, st->up->link.h2, st->up_id, ex->body_received, &st->to_client);
	h2_stream_touch(st);
	h2_resume(st->client->link.h2, st->id);
	h2_link_touch(&st->client->link);
}

void
h2_stream_endpoint_done(struct h2_stream *st)
{
	st->response_done = true;
	h2_resume(st->client->link.h2, st->id);
	h2_link_touch(&st->client->link);
}

size_t
h2_stream_for_client(struct h2_stream *st, const char **at, enum h2_rest *rest)
{
	*at = buf_at(&st->to_client);
	if (st->response_done)
		*rest = st->trailers_down.n > 0 ? H2_THEN_TRAILERS : H2_LAST;
	return buf_len(&st->to_client);
}

void
h2_stream_client_took(struct h2_stream *st, size_t n)
{
	buf_consume(&st->to_client, n);
	if (buf_len(&st->to_client) == 0)
		buf_release(&st->to_client);
	if (st->up_id != 0) {
		stream_passed(st, &st->flow_down, st->up->link.h2, st->up_id, n);
		h2_link_touch(&st->up->link);
	}
	if (st->ex != NULL)
		h2_stream_touch(st);
}
