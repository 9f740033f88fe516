/* What a proxy decides about one request and its response (RFC 9110 sections 7.6, 7.8, 15.2). */
#include <errno.h>
#include <strings.h>

#include "base/http/http1.h"

/* RFC 4559, section 6: these schemes authenticate the connection, not the request. */
static bool
exchange_binds(const struct http1_head *h, const char *name)
{
	for (size_t i = 0; i < h->n_fields; i++) {
		const struct http1_str *v = &h->fields[i].value;

		if (http1_is(h->fields[i].name, name) &&
			((v->len >= 4 && strncasecmp(v->at, "NTLM", 4) == 0) ||
				(v->len >= 9 && strncasecmp(v->at, "Negotiate", 9) == 0)))
			return true;
	}
	return false;
}

void
http1_exchange_begin(struct http1_exchange *x, const struct http1_head *request)
{
	http1_body_init(&x->up, request->framing, request->length);
	if (!request->names_fields)
		http1_body_keep(&x->up, &x->trailers_up);
	x->client_minor = request->minor;
	x->is_head = request->is_head;
	x->upgrade = request->upgrade;
	x->keep = request->keep_alive;
	x->last = !request->keep_alive;
	x->request_done = http1_body_done(&x->up);
	x->bound = exchange_binds(request, "authorization");
}

void
http1_exchange_fini(struct http1_exchange *x)
{
	buf_fini(&x->trailers_up);
	buf_fini(&x->trailers_down);
}

enum http1_answer
http1_exchange_read(struct http1_exchange *x, struct http1_head *h, struct http1_str data,
	struct buf *clean, size_t *used)
{
	struct http1_str text;
	ssize_t n = http1_find_answer_end(data.at, data.len, &x->scan, clean, &text);

	if (n == 0 && data.len < HTTP1_HEAD_MAX)
		return HTTP1_ANSWER_INCOMPLETE;
	x->scan = (struct http1_scan){0};
	*used = (size_t)n;
	if (n == 0 || n == -E2BIG || text.len > HTTP1_HEAD_MAX)
		h->why = "the endpoint's head is too large";
	else if (n < 0 || http1_parse_response(h, text.at, text.len, x->is_head) != 0)
		h->why = "the endpoint's answer is not HTTP";
	else if (h->status >= 200)
		return HTTP1_ANSWER_FINAL;
	else if (h->status != 101)
		return x->client_minor == 0 ? HTTP1_ANSWER_HIDDEN : HTTP1_ANSWER_INTERIM;
	else if (x->upgrade && h->upgrade && x->request_done)
		return HTTP1_ANSWER_SWITCH;
	else
		h->why = "the endpoint switched protocols without being asked";
	return HTTP1_ANSWER_BAD;
}

/* Chunks stand for an unknown length, but not to HTTP/1.0, where the end of the connection does. */
static struct http1_reply
exchange_plan(struct http1_exchange *x, const struct http1_head *h)
{
	struct http1_reply r = {.framing = h->framing, .upgrade = x->client_minor == 1};
	bool bodyless = x->is_head || h->status == 204 || h->status == 304;

	http1_body_init(&x->down, bodyless ? HTTP1_EMPTY : h->framing, h->length);
	if (!h->names_fields && x->client_minor == 1)
		http1_body_keep(&x->down, &x->trailers_down);
	if (r.framing == HTTP1_UNTIL_CLOSE)
		r.framing = HTTP1_CHUNKED;
	if (x->client_minor == 0 && r.framing == HTTP1_CHUNKED) {
		r.framing = HTTP1_UNTIL_CLOSE;
		x->keep = x->keep && bodyless;
	}
	x->chunked_down = !bodyless && r.framing == HTTP1_CHUNKED;
	/* A response before the end of the request: the rest of the request may never arrive. */
	x->keep = x->keep && x->request_done;
	r.close = !x->keep;
	r.keep_alive = x->keep && x->client_minor == 0;
	return r;
}

/* A 204 has no body: a server that announces one (RFC 9110 section 8.6) may send it as well. */
static bool
exchange_may_overrun(const struct http1_head *h)
{
	return h->status == 204 && (h->framing == HTTP1_CHUNKED || h->length > 0);
}

ssize_t
http1_exchange_emit(struct http1_exchange *x, const struct http1_head *h, char *to, size_t size)
{
	struct http1_reply reply = {.framing = HTTP1_EMPTY};

	if (h->status >= 200) {
		reply = exchange_plan(x, h);
		x->reusable = h->keep_alive && !x->bound && !exchange_may_overrun(h) &&
			!(h->status == 401 && exchange_binds(h, "www-authenticate"));
	}
	return http1_emit_response(to, size, h, &reply);
}
