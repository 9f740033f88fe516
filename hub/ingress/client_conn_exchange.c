/*
 * Forwards HTTP/1 requests one by one instead of relaying the connection: each request of a client
 * connection may name another target, so each has a stream of its own.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/core/log.h"
#include "hub/ingress/client_conn.h"

enum { HEAD_ROOM = HTTP1_HEAD_MAX + 4096, FAREWELL_MS = 5000, PIECE = 16 * 1024, REPEATS_MOST = 2 };

struct exchange {
	struct stream *stream;
	/* of the request, until it is written or, if it may be sent twice, until its response
	 * begins */
	char *head;
	size_t head_len;
	char *host, *dest; /* arguments of client_conn_reach; dest NULL: none */
	uint16_t port;
	uint8_t repeats;
	struct http1_scan scan; /* for the response's header section */
	bool waits; /* for the rest of that header section, whatever part of it has come */
	struct http1_body up, down;
	struct buf trailers_up, trailers_down;
	struct buf out; /* the framed request body, until the stream takes it */
	uint64_t sent, received; /* payload */
	unsigned status; /* of the response, once it has begun */
	uint8_t client_minor;
	bool repeatable, is_head, upgrade, expects, up_chunked, down_chunked, up_done, keep;
};

void
exchange_free(struct client_conn *v)
{
	struct exchange *x = take_ptr(&v->exchange);

	if (x == NULL)
		return;
	if (x->stream != NULL)
		stream_close(&x->stream, STREAM_CANCELLED);
	free(x->head);
	free(x->host);
	free(x->dest);
	buf_fini(&x->out);
	buf_fini(&x->trailers_up);
	buf_fini(&x->trailers_down);
	free(x);
}

bool
exchange_request_done(const struct client_conn *v)
{
	return v->exchange != NULL && v->exchange->up_done;
}

bool
exchange_keeps(const struct client_conn *v)
{
	return exchange_request_done(v) && v->exchange->keep;
}

bool
exchange_is_head(const struct client_conn *v)
{
	return v->exchange != NULL && v->exchange->is_head;
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
	x->client_minor = h->minor;
	x->is_head = h->is_head;
	x->upgrade = h->upgrade;
	x->expects = h->expects;
	x->keep = h->keep_alive && !v->ingress->draining;
	x->up_chunked = h->framing == HTTP1_CHUNKED;
	http1_body_init(&x->up, (enum http1_framing)h->framing, h->length);
	buf_init(&x->out, BUF_UNLIMITED);
	buf_init(&x->trailers_up, HTTP1_TRAILERS_MAX);
	buf_init(&x->trailers_down, HTTP1_TRAILERS_MAX);
	if (!h->names_fields)
		http1_body_keep(&x->up, &x->trailers_up);
	x->up_done = http1_body_done(&x->up);
	x->repeatable = h->idempotent && x->up_done && !x->upgrade;
	v->exchange = x;
}

/* The path of the request was lost before any byte of the response came: sends the request again,
 * if that is allowed (RFC 9110 section 9.2.2). False: it is not. */
static bool
exchange_repeat(struct client_conn *v)
{
	struct exchange *x = v->exchange;
	uint64_t started_ms = v->started_ms;
	const void *data;

	if (!x->repeatable || x->status != 0 || x->repeats >= REPEATS_MOST ||
		stream_peek(x->stream, &data) > 0)
		return false;
	x->repeats++;
	stream_close(&x->stream, STREAM_CANCELLED);
	v->ingress->repeated++;
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

/* --- closing a finished stream -------------------------------------------------------------- */

/* Half-closes, so that the far end can close cleanly; if it does not, the stream is reset. */
struct farewell {
	struct stream *stream;
	struct timer *timer;
};

static void
end_farewell(struct farewell *f, unsigned code)
{
	stream_close(&f->stream, code);
	timer_free(&f->timer);
	free(f);
}

static void
on_farewell_readable(void *arg)
{
	struct farewell *f = arg;
	const void *data;
	size_t n = stream_peek(f->stream, &data);

	if (n > 0)
		stream_consume(f->stream, n);
	if (stream_eof(f->stream))
		end_farewell(f, STREAM_DONE);
}

static void
on_farewell_reset(void *arg, unsigned code)
{
	(void)code;
	end_farewell(arg, STREAM_CANCELLED);
}

static void
on_farewell_late(void *arg)
{
	end_farewell(arg, STREAM_CANCELLED);
}

static void
client_conn_exchange_ignore(void *arg)
{
	(void)arg;
}

static void
bid_farewell(struct loop *loop, struct stream *stream)
{
	static const struct stream_events events = {
		.readable = on_farewell_readable,
		.writable = client_conn_exchange_ignore,
		.reset = on_farewell_reset,
	};
	struct farewell *f = xcalloc(1, sizeof *f);

	f->stream = stream;
	stream_on_fading(stream, NULL, NULL);
	f->timer = timer_new(loop, on_farewell_late, f);
	timer_start(f->timer, FAREWELL_MS, 0);
	stream_use(stream, &events, f);
	stream_end(stream);
	if (stream_eof(stream))
		end_farewell(f, STREAM_DONE);
}

/* --- the request ---------------------------------------------------------------------------- */

/* Ends the exchange with an error: by a response or, if a response has begun, by a reset. */
static void
client_conn_exchange_fail(struct client_conn *v, unsigned status, const char *why)
{
	struct exchange *x = v->exchange;

	if (x->status == 0) {
		client_conn_http_refuse(v, status, why, true);
		return;
	}
	client_conn_audit(v, status, x->sent, x->received, why);
	client_conn_abort(v);
}

static void
add_framed(struct buf *to, bool chunked, struct http1_str piece)
{
	char frame[HTTP1_CHUNK_HEAD];

	if (chunked)
		buf_add(to, frame, http1_chunk_head(frame, piece.len));
	buf_add(to, piece.at, piece.len);
	if (chunked)
		buf_adds(to, HTTP1_CHUNK_TAIL);
}

static void
end_chunks(struct buf *to, struct buf *trailers)
{
	http1_close_chunks(trailers);
	buf_add(to, buf_at(trailers), buf_len(trailers));
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
	if (client_conn_allowed(v) > 0)
		return true;
	if (!timer_active(v->timer))
		timer_start(v->timer, RATE_WAIT_MS, 0);
	return false;
}

/* False: the connection is gone, or the request was refused. */
static bool
pump_request(struct client_conn *v)
{
	struct exchange *x = v->exchange;

	while (flush_request(x) && !http1_body_done(&x->up) && buf_len(&v->in) > 0 && may_go(v)) {
		struct http1_str piece;
		size_t used;
		enum http1_got got = http1_body_next(
			&x->up, buf_at(&v->in), MIN(buf_len(&v->in), (size_t)PIECE), &used, &piece);

		if (got == HTTP1_BAD) {
			client_conn_exchange_fail(v, 400, "the request's body is malformed");
			return false;
		}
		if (got == HTTP1_DATA) {
			add_framed(&x->out, x->up_chunked, piece);
			x->sent += piece.len;
			client_conn_spend(v, piece.len);
		}
		buf_consume(&v->in, used);
		if (http1_body_done(&x->up) && x->up_chunked)
			end_chunks(&x->out, &x->trailers_up);
	}
	x->up_done = http1_body_done(&x->up) && buf_len(&x->out) == 0;
	if (!http1_body_done(&x->up) && v->eof && buf_len(&v->in) == 0) {
		client_conn_audit(
			v, 499, x->sent, x->received, "the caller went away within its request");
		client_conn_abort(v);
		return false;
	}
	return true;
}

/* --- the response --------------------------------------------------------------------------- */

static void
client_conn_exchange_finish(struct client_conn *v)
{
	struct exchange *x = v->exchange;
	bool keep = x->keep && x->up_done && !v->eof;

	client_conn_audit(v, 200, x->sent, x->received, "done");
	bid_farewell(v->ingress->config.loop, take_ptr(&x->stream));
	exchange_free(v);
	client_conn_forget_target(v);
	client_conn_settle(v);
	if (!keep) {
		client_conn_linger(v);
		return;
	}
	v->state = CLIENT_CONN_HEAD;
	timer_start(v->timer, CLIENT_CONN_IDLE_MS, 0);
	client_conn_http_input(v);
}

static void
end_answer(struct client_conn *v)
{
	struct exchange *x = v->exchange;

	if (x->down_chunked)
		end_chunks(&v->out, &x->trailers_down);
	client_conn_exchange_finish(v);
}

static struct http1_reply
client_conn_exchange_plan(struct exchange *x, const struct http1_head *h)
{
	struct http1_reply r = {.framing = h->framing};
	bool bodyless = x->is_head || h->status == 204 || h->status == 304;

	if (bodyless)
		http1_body_init(&x->down, HTTP1_EMPTY, 0);
	else
		http1_body_init(&x->down, (enum http1_framing)h->framing, h->length);
	if (!h->names_fields && x->client_minor == 1)
		http1_body_keep(&x->down, &x->trailers_down);
	if (r.framing == HTTP1_UNTIL_CLOSE)
		r.framing = HTTP1_CHUNKED;
	if (x->client_minor == 0 && r.framing == HTTP1_CHUNKED) {
		r.framing = HTTP1_UNTIL_CLOSE;
		x->keep = x->keep && bodyless;
	}
	x->down_chunked = !bodyless && r.framing == HTTP1_CHUNKED;
	x->keep = x->keep && x->up_done;
	r.close = !x->keep;
	r.keep_alive = x->keep && x->client_minor == 0;
	r.upgrade = x->client_minor == 1;
	return r;
}

/* 101: from here on, bytes are relayed as on any other connection. */
static void
switch_protocols(struct client_conn *v)
{
	struct stream *stream = take_ptr(&v->exchange->stream);

	stream_on_fading(stream, NULL, NULL);
	exchange_free(v);
	client_conn_greet(v, stream);
}

static bool
add_head(struct client_conn *v, const struct http1_head *h, const struct http1_reply *reply)
{
	auto_free char *head = xmalloc(HEAD_ROOM);
	ssize_t n = http1_emit_response(head, HEAD_ROOM, h, reply);

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
	struct http1_str text;
	ssize_t n = http1_find_answer_end(data, len, &x->scan, &clean, &text);
	struct http1_reply reply = {.framing = HTTP1_EMPTY};
	bool last;

	if (n == 0 && len < HTTP1_HEAD_MAX && !stream_far_ended(x->stream))
		return STEP_WAIT;
	if (n <= 0 || text.len > HTTP1_HEAD_MAX ||
		http1_parse_response(h, text.at, text.len, x->is_head) != 0 ||
		(h->status == 101 && (!x->upgrade || !h->upgrade || !x->up_done))) {
		client_conn_exchange_fail(v, 502, "the answer is not HTTP");
		return STEP_OVER;
	}
	x->scan = (struct http1_scan){0};
	last = h->status >= 200 || h->status == 101;
	if (h->status >= 200)
		reply = client_conn_exchange_plan(x, h);
	if ((last || x->client_minor == 1) && !add_head(v, h, &reply)) {
		client_conn_exchange_fail(v, 502, "the answer's head is too large");
		return STEP_OVER;
	}
	if (last) {
		x->status = h->status;
		free(take_ptr(&x->head));
	}
	if (last && v->span != NULL)
		v->span->status = h->status;
	stream_consume(x->stream, (size_t)n);
	if (x->status == 101)
		switch_protocols(v);
	else if (last && http1_body_done(&x->down))
		end_answer(v);
	else
		return STEP_MORE;
	return STEP_OVER;
}

static enum step
take_body(struct client_conn *v, const char *data, size_t len)
{
	struct exchange *x = v->exchange;
	struct http1_str piece;
	size_t used;
	enum http1_got got = http1_body_next(&x->down, data, len, &used, &piece);

	if (got == HTTP1_BAD) {
		client_conn_exchange_fail(v, 502, "the answer's body is malformed");
		return STEP_OVER;
	}
	if (got == HTTP1_DATA) {
		add_framed(&v->out, x->down_chunked, piece);
		x->received += piece.len;
		client_conn_spend(v, piece.len);
	}
	stream_consume(x->stream, used);
	if (!http1_body_done(&x->down))
		return STEP_MORE;
	end_answer(v);
	return STEP_OVER;
}

/* The far end has half-closed: that ends a response without a length, and breaks any other. */
static void
on_far_end(struct client_conn *v)
{
	struct exchange *x = v->exchange;

	if (x->status != 0 && x->down.framing == HTTP1_UNTIL_CLOSE)
		end_answer(v);
	else
		client_conn_exchange_fail(v, 502, "the connection ended before the answer did");
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
	while (step == STEP_MORE && buf_len(&v->out) < CLIENT_CONN_OUT_FULL &&
		(n = stream_peek(x->stream, &data)) > 0 && may_go(v))
		step = x->status == 0 ? take_head(v, data, n) : take_body(v, data, n);
	if (step == STEP_OVER)
		return false;
	x->waits = step == STEP_WAIT;
	if (stream_spoilt(x->stream)) {
		client_conn_exchange_fail(v, 502, "what the node sent cannot be expanded");
		return false;
	}
	if (buf_len(&v->out) < CLIENT_CONN_OUT_FULL && stream_eof(x->stream)) {
		on_far_end(v);
		return false;
	}
	return true;
}

void
exchange_pump(struct client_conn *v)
{
	const struct exchange *x = v->exchange;
	const void *data;

	/* The stream does not report waiting bytes again: continue until the client takes no
	 * more. */
	do {
		if (!pump_request(v) || !pump_answer(v) || !client_conn_flush(v))
			return;
	} while (buf_len(&v->out) == 0 && stream_peek(x->stream, &data) > 0 &&
		!timer_active(v->timer) && !x->waits);
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
	if (code == STREAM_LOST && exchange_repeat(arg))
		return;
	client_conn_exchange_fail(arg, 502,
		code == STREAM_LOST ? "the node's tunnel broke" : "the connection was reset");
}

void
exchange_reached(struct client_conn *v, struct stream *stream)
{
	static const struct stream_events events = {
		.readable = on_moved,
		.writable = on_moved,
		.reset = on_reset,
	};
	struct exchange *x = v->exchange;

	x->stream = stream;
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
