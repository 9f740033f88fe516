/*
 * Forwards HTTP/1 requests one by one instead of relaying the connection: each request of a client
 * connection may name another target, so each has a stream of its own.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/core/log.h"
#include "hub/ingress/client_conn.h"

enum { HEAD_ROOM = HTTP1_HEAD_MAX + 4096, PIECE = 16 * 1024, REPEATS_MOST = 2 };

struct exchange {
	struct stream *stream;
	struct stream_use *use; /* NULL: the stream serves this request alone */
	/* of the request, until it is written or, if it may be sent twice, until its response
	 * begins */
	char *head;
	size_t head_len;
	char *host, *dest; /* arguments of client_conn_reach; dest NULL: none */
	uint16_t port;
	uint8_t repeats;
	struct http1_exchange http;
	bool waits; /* for the rest of the response's header section, whatever part has come */
	struct buf in; /* of the response: a head in several pieces, and what follows it there */
	struct buf out; /* the framed request body, until the stream takes it */
	uint64_t sent, received; /* payload */
	size_t turn; /* bytes of the response that this turn has taken: see SESSION_TURN */
	unsigned status; /* of the response, once it has begun */
	bool repeatable;
};

void
exchange_free(struct client_conn *v)
{
	struct exchange *x = take_ptr(&v->exchange);

	if (x == NULL)
		return;
	if (x->stream != NULL)
		stream_close(&x->stream, STREAM_CANCELLED);
	stream_use_free(&x->use);
	free(x->head);
	free(x->host);
	free(x->dest);
	buf_fini(&x->in);
	buf_fini(&x->out);
	http1_exchange_fini(&x->http);
	free(x);
}

bool
exchange_request_done(const struct client_conn *v)
{
	return v->exchange != NULL && v->exchange->http.request_done;
}

bool
exchange_keeps(const struct client_conn *v)
{
	return exchange_request_done(v) && v->exchange->http.keep;
}

bool
exchange_is_head(const struct client_conn *v)
{
	return v->exchange != NULL && v->exchange->http.is_head;
}

void
exchange_begin(struct client_conn *v, const char *client, const char *host, uint16_t port,
	const char *dest)
{
	const struct http1_head *h = &v->ingress->head;
	struct exchange *x = xcalloc(1, sizeof *x);
	struct http1_forward forward = {
		.client = client,
		.via = "", /* many servers do not compress responses to a request with Via */
		.host = "",
		.request_id = "",
	};
	char *head = xmalloc(HEAD_ROOM), traceparent[TRACEPARENT_LEN + 1];
	ssize_t n;

	if (v->span != NULL) {
		traceparent_text(traceparent, &v->span->context);
		forward.traceparent = traceparent;
		forward.new_trace = !v->span->has_parent;
	}
	n = http1_emit_request(head, HEAD_ROOM, h, &forward);
	x->head = head;
	x->head_len = n > 0 ? (size_t)n : 0;
	x->host = xstrdup(host);
	x->port = port;
	x->dest = dest != NULL ? xstrdup(dest) : NULL;
	http1_exchange_begin(&x->http, h);
	x->http.keep = x->http.keep && !v->ingress->draining;
	buf_init(&x->in, BUF_UNLIMITED);
	buf_init(&x->out, BUF_UNLIMITED);
	x->repeatable = h->idempotent && x->http.request_done && !x->http.upgrade;
	v->exchange = x;
}

/* The server may close such a connection at any moment. */
static bool
exchange_is_reused(const struct exchange *x)
{
	return x->use != NULL && x->use->used;
}

/* The response's next bytes, as stream_peek. */
static size_t
exchange_peek(const struct exchange *x, const void **data)
{
	if (buf_len(&x->in) == 0)
		return stream_peek(x->stream, data);
	*data = buf_at(&x->in);
	return buf_len(&x->in);
}

static void
exchange_consume(struct exchange *x, size_t n)
{
	x->turn += n;
	if (buf_len(&x->in) == 0)
		stream_consume(x->stream, n);
	else
		buf_consume(&x->in, n);
}

/* Puts the pieces of a head together; at most a little more than a head may have. */
static void
exchange_collect(struct exchange *x)
{
	const void *data;
	size_t n;

	while (buf_len(&x->in) < HTTP1_HEAD_MAX && (n = stream_peek(x->stream, &data)) > 0) {
		buf_add(&x->in, data, n);
		stream_consume(x->stream, n);
	}
}

bool
exchange_may_reuse(const struct client_conn *v)
{
	return v->exchange != NULL && v->exchange->repeatable && v->exchange->repeats == 0;
}

/* The path of the request was lost before any byte of the response came, or the server has closed
 * its connection after the request before this one: sends the request again,
 * if that is allowed (RFC 9110 section 9.2.2). False: it is not. */
static bool
exchange_repeat(struct client_conn *v)
{
	struct exchange *x = v->exchange;
	uint64_t started_ms = v->started_ms;
	const void *data;

	if (!x->repeatable || x->status != 0 || x->repeats >= REPEATS_MOST ||
		exchange_peek(x, &data) > 0)
		return false;
	x->repeats++;
	stream_close(&x->stream, STREAM_CANCELLED);
	stream_use_free(&x->use);
	v->ingress->requests--; /* client_conn_reach counts it again */
	client_conn_reach(v, x->host, x->port, x->dest);
	v->started_ms = started_ms;
	client_conn_update(v);
	return true;
}

static void
exchange_on_fading(void *arg)
{
	struct client_conn *v = arg;

	if (stream_is_doubted(v->exchange->stream))
		exchange_repeat(v);
}

/* --- the request ---------------------------------------------------------------------------- */

void
exchange_audit(struct client_conn *v, unsigned status, const char *why)
{
	client_conn_audit(v, status, v->exchange->sent, v->exchange->received, why);
}

/* Ends the exchange with an error: by a response or, if a response has begun, by a reset. */
static void
client_conn_exchange_fail(struct client_conn *v, unsigned status, const char *why)
{
	struct exchange *x = v->exchange;

	if (x->status == 0) {
		client_conn_http_refuse(v, status, why, true);
		return;
	}
	exchange_audit(v, status, why);
	client_conn_abort(v);
}

/* False: the stream takes no more for now. */
static bool
flush_request(struct exchange *x)
{
	size_t n;

	while (buf_len(&x->out) > 0) {
		if ((n = MIN(stream_room(x->stream), buf_len(&x->out))) == 0)
			return false;
		stream_write(x->stream, buf_at(&x->out), n);
		buf_consume(&x->out, n);
	}
	buf_release(&x->out);
	return true;
}

/* True if bytes may pass now; if not, exchange_pump continues later. */
static bool
may_go(struct client_conn *v)
{
	if (grant_room(&v->grant) > 0)
		return true;
	if (!client_conn_timed(v))
		client_conn_timer(v, RATE_WAIT_MS);
	return false;
}

/* False: the connection is gone, or the request was refused. */
static bool
pump_request(struct client_conn *v)
{
	struct exchange *x = v->exchange;
	struct http1_body *up = &x->http.up;

	while (flush_request(x) && !http1_body_done(up) && buf_len(&v->in) > 0 && may_go(v)) {
		struct http1_str piece;
		size_t used;
		enum http1_got got = http1_body_pass(up,
			(struct http1_str){buf_at(&v->in), MIN(buf_len(&v->in), (size_t)PIECE)},
			&used, &piece, up->framing == HTTP1_CHUNKED, &x->out);

		if (got == HTTP1_BAD) {
			client_conn_exchange_fail(v, 400, "the request's body is malformed");
			return false;
		}
		if (got == HTTP1_DATA) {
			x->sent += piece.len;
			grant_spend(&v->grant, piece.len);
		}
		buf_consume(&v->in, used);
	}
	x->http.request_done = http1_body_done(up) && buf_len(&x->out) == 0;
	if (!http1_body_done(up) && v->eof && buf_len(&v->in) == 0) {
		exchange_audit(v, 499, "the caller went away within its request");
		client_conn_abort(v);
		return false;
	}
	return true;
}

/* --- the response --------------------------------------------------------------------------- */

/* Nothing follows the response, so that what comes next is that to another request, and all of the
 * request has left the stream, so that another one's header section fits. */
static bool
exchange_leaves_clean(const struct exchange *x)
{
	const void *data;

	return x->http.reusable && x->http.request_done && buf_len(&x->out) == 0 &&
		stream_queued(x->stream) == 0 && exchange_peek(x, &data) == 0 &&
		!stream_far_ended(x->stream);
}

static void
client_conn_exchange_finish(struct client_conn *v)
{
	struct exchange *x = v->exchange;
	bool keep = x->http.keep && x->http.request_done && !client_conn_over(v);

	exchange_audit(v, 200, "done");
	if (v->ingress->draining || !exchange_leaves_clean(x))
		stream_use_free(&x->use);
	connector_finish(v->ingress->config.reach, &x->stream, &x->use);
	exchange_free(v);
	grant_end(&v->grant);
	if (!keep) {
		client_conn_linger(v);
		return;
	}
	v->state = CLIENT_CONN_HEAD;
	client_conn_timer(v, CLIENT_CONN_IDLE_MS);
	client_conn_http_input(v);
}

/* 101: from here on, bytes are relayed as on any other connection. */
static void
switch_protocols(struct client_conn *v)
{
	struct stream *stream = take_ptr(&v->exchange->stream);

	stream_on_fading(stream, NULL, NULL);
	buf_add(&v->out, buf_at(&v->exchange->in), buf_len(&v->exchange->in));
	exchange_free(v);
	client_conn_greet(v, stream);
}

static bool
add_head(struct client_conn *v, const struct http1_head *h)
{
	auto_free char *head = xmalloc(HEAD_ROOM);
	ssize_t n = http1_exchange_emit(&v->exchange->http, h, head, HEAD_ROOM);

	return n >= 0 && buf_add(&v->out, head, (size_t)n) == 0;
}

/* How reading the response goes on. */
enum step {
	STEP_MORE,
	STEP_WAIT,
	STEP_OVER
}; /* STEP_OVER: the exchange is gone, and perhaps the connection */

static enum step
take_head(struct client_conn *v, const char *data, size_t len)
{
	struct exchange *x = v->exchange;
	struct http1_head *h = &v->ingress->head;
	auto_buf struct buf clean = {.limit = BUF_UNLIMITED};
	size_t used = 0;
	enum http1_answer answer =
		http1_exchange_read(&x->http, h, (struct http1_str){data, len}, &clean, &used);

	if (answer == HTTP1_ANSWER_INCOMPLETE) {
		exchange_collect(x);
		if (buf_len(&x->in) > len)
			return STEP_MORE;
		if (!stream_eof(x->stream))
			return STEP_WAIT;
	}
	if (answer == HTTP1_ANSWER_INCOMPLETE || answer == HTTP1_ANSWER_BAD) {
		client_conn_exchange_fail(v, 502, "the answer is not HTTP");
		return STEP_OVER;
	}
	if (answer != HTTP1_ANSWER_HIDDEN && !add_head(v, h)) {
		client_conn_exchange_fail(v, 502, "the answer's head is too large");
		return STEP_OVER;
	}
	exchange_consume(x, used);
	if (answer == HTTP1_ANSWER_HIDDEN || answer == HTTP1_ANSWER_INTERIM)
		return STEP_MORE;
	x->status = h->status;
	free(take_ptr(&x->head));
	if (v->span != NULL)
		v->span->status = h->status;
	if (answer == HTTP1_ANSWER_FINAL && !http1_body_done(&x->http.down))
		return STEP_MORE;
	if (answer == HTTP1_ANSWER_SWITCH)
		switch_protocols(v);
	else
		client_conn_exchange_finish(v);
	return STEP_OVER;
}

static enum step
take_body(struct client_conn *v, const char *data, size_t len)
{
	struct exchange *x = v->exchange;
	struct http1_str piece;
	size_t used;
	enum http1_got got = http1_body_pass(&x->http.down, (struct http1_str){data, len}, &used,
		&piece, x->http.chunked_down, &v->out);

	if (got == HTTP1_BAD) {
		client_conn_exchange_fail(v, 502, "the answer's body is malformed");
		return STEP_OVER;
	}
	if (got == HTTP1_DATA) {
		x->received += piece.len;
		grant_spend(&v->grant, piece.len);
	}
	exchange_consume(x, used);
	if (!http1_body_done(&x->http.down))
		return STEP_MORE;
	client_conn_exchange_finish(v);
	return STEP_OVER;
}

/* The far end has half-closed: that ends a response without a length, and breaks any other. */
static void
on_far_end(struct client_conn *v)
{
	struct exchange *x = v->exchange;

	if (exchange_is_reused(x) && exchange_repeat(v))
		return;
	if (x->status == 0 || x->http.down.framing != HTTP1_UNTIL_CLOSE) {
		client_conn_exchange_fail(v, 502, "the connection ended before the answer did");
		return;
	}
	if (x->http.chunked_down)
		buf_adds(&v->out, HTTP1_CHUNK_LAST);
	client_conn_exchange_finish(v);
}

/* False: the exchange is over. */
static bool
pump_answer(struct client_conn *v)
{
	struct exchange *x = v->exchange;
	enum step step = STEP_MORE;
	const void *data;
	size_t n;

	x->waits = false;
	while (step == STEP_MORE && x->turn < SESSION_TURN &&
		buf_len(&v->out) < CLIENT_CONN_OUT_FULL && (n = exchange_peek(x, &data)) > 0 &&
		may_go(v))
		step = x->status == 0 ? take_head(v, data, n) : take_body(v, data, n);
	if (step == STEP_OVER)
		return false;
	x->waits = step == STEP_WAIT;
	if (stream_spoilt(x->stream)) {
		client_conn_exchange_fail(v, 502, "what the node sent cannot be expanded");
		return false;
	}
	if (buf_len(&v->out) < CLIENT_CONN_OUT_FULL && buf_len(&x->in) == 0 &&
		stream_eof(x->stream)) {
		on_far_end(v);
		return false;
	}
	return true;
}

void
exchange_pump(struct client_conn *v)
{
	struct exchange *x = v->exchange;
	const void *data;
	bool more;

	/* The stream does not report waiting bytes again: continue until the client takes no
	 * more, or, as a compressed response may be of any size, in the next turn. */
	x->turn = 0;
	do {
		if (!pump_request(v) || !pump_answer(v) || !client_conn_flush(v))
			return;
		more = buf_len(&v->out) == 0 && exchange_peek(x, &data) > 0 &&
			!client_conn_timed(v) && !x->waits;
	} while (more && x->turn < SESSION_TURN);
	if (more)
		client_conn_timer(v, 0);
	/* Not client_conn_update: if it wrote the rest, because the client has just read, nobody
	 * would pump the stream again. */
	client_conn_wait(v);
}

static void
on_moved(void *arg)
{
	exchange_pump(arg);
}

static void
on_reset(void *arg, unsigned code)
{
	const struct client_conn *v = arg;

	if ((code == STREAM_LOST || exchange_is_reused(v->exchange)) && exchange_repeat(arg))
		return;
	client_conn_exchange_fail(arg, 502,
		code == STREAM_LOST ? "the node's tunnel broke" : "the connection was reset");
}

void
exchange_reached(struct client_conn *v, struct stream *stream, struct stream_use *use)
{
	static const struct stream_events events = {
		.readable = on_moved,
		.writable = on_moved,
		.reset = on_reset,
	};
	struct exchange *x = v->exchange;

	x->stream = stream;
	x->use = use;
	stream_use(stream, &events, v);
	if (x->head_len == 0) {
		client_conn_exchange_fail(v, 431, "the request's head is too large");
		return;
	}
	stream_write(stream, x->head, x->head_len);
	if (x->repeatable) {
		x->head = xrealloc(x->head, x->head_len);
		stream_on_fading(stream, exchange_on_fading, v);
	} else {
		free(take_ptr(&x->head));
	}
	exchange_pump(v);
}
