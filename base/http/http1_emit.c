/* Writes clean heads from parsed ones (RFC 9110 section 7.6, RFC 9112 section 6). */
#include <errno.h>
#include <string.h>

#include "base/core/hops.h"
#include "base/http/http1.h"

/* Appends while there is room; `full` once there is none. */
struct writer {
	char *at, *end;
	bool full;
};

static void
http1_emit_put(struct writer *w, const char *data, size_t len)
{
	if ((size_t)(w->end - w->at) < len) {
		w->full = true;
		return;
	}
	if (len > 0)
		memcpy(w->at, data, len);
	w->at += len;
}

static void
put_str(struct writer *w, struct http1_str s)
{
	http1_emit_put(w, s.at, s.len);
}

#define put_lit(w, s) http1_emit_put(w, s, sizeof(s) - 1)

static void
put_text(struct writer *w, const char *text)
{
	http1_emit_put(w, text, strlen(text));
}

static void
put_number(struct writer *w, uint64_t n)
{
	char digits[20];
	size_t at = sizeof digits;

	do
		digits[--at] = (char)('0' + n % 10);
	while ((n /= 10) > 0);
	http1_emit_put(w, digits + at, sizeof digits - at);
}

static void
put_field(struct writer *w, const struct http1_field *f)
{
	put_str(w, f->name);
	put_lit(w, ": ");
	put_str(w, f->value);
	put_lit(w, "\r\n");
}

/* Writes all fields with this id as one list, left open for more members; true when there was none
 * and nothing is written. */
static bool
put_members(struct writer *w, const struct http1_head *h, enum http1_name id, const char *name)
{
	bool none = true;

	for (size_t i = 0; i < h->n_fields && h->ids >> id & 1; i++) {
		if (h->fields[i].id != id || h->fields[i].value.len == 0)
			continue;
		put_text(w, none ? name : ", ");
		put_str(w, h->fields[i].value);
		none = false;
	}
	return none;
}

/* Writes the list with our own member, given in two parts, at its end; no field at all if the list
 * is empty. */
static void
put_list(struct writer *w, const struct http1_head *h, enum http1_name id, const char *name,
	const char *ours[2])
{
	bool none = put_members(w, h, id, name);

	if (ours[1][0] != '\0') {
		put_text(w, none ? name : ", ");
		put_text(w, ours[0]);
		put_text(w, ours[1]);
	} else if (none) {
		return;
	}
	put_lit(w, "\r\n");
}

/* Writes Trailer: which trailers will follow, if announced. */
static void
put_trailer(struct writer *w, const struct http1_head *h)
{
	if (!h->names_fields && !put_members(w, h, HTTP1_TRAILER, "Trailer: "))
		put_lit(w, "\r\n");
}

static void
put_upgrade(struct writer *w, const struct http1_head *h)
{
	put_lit(w, "Connection: upgrade\r\n");
	if (!put_members(w, h, HTTP1_UPGRADE, "Upgrade: "))
		put_lit(w, "\r\n");
}

static ssize_t
http1_emit_finish(struct writer *w, char *to)
{
	put_lit(w, "\r\n");
	return w->full ? -ENOBUFS : w->at - to;
}

static bool
emitted_apart(const struct http1_head *h, const struct http1_field *f,
	const struct http1_forward *forward)
{
	switch (f->id) {
	case HTTP1_HOST:
	case HTTP1_CONTENT_LENGTH:
	case HTTP1_TRANSFER_ENCODING:
	case HTTP1_VIA:
	case HTTP1_X_FORWARDED_FOR:
	case HTTP1_CDN_LOOP:
		return true;
	case HTTP1_EXPECT: /* a 1.0 client cannot be sent 100 */
		return h->minor == 0;
	case HTTP1_TRACEPARENT:
		return f->hop || forward->traceparent != NULL;
	case HTTP1_TRACESTATE:
		return f->hop || (forward->traceparent != NULL && forward->new_trace);
	default:
		return f->hop;
	}
}

ssize_t
http1_emit_request(char *to, size_t size, const struct http1_head *h, const struct http1_forward *f)
{
	struct writer w = {to, to + size, false};

	put_str(&w, h->method);
	put_text(&w, h->target.at[0] == '?' ? " /" : " ");
	put_str(&w, h->target);
	put_lit(&w, " HTTP/1.1\r\nHost: ");
	if (h->host.len > 0)
		put_str(&w, h->host);
	else
		put_text(&w, f->host);
	put_lit(&w, "\r\n");
	for (size_t i = 0; i < h->n_fields; i++) {
		if (!emitted_apart(h, &h->fields[i], f))
			put_field(&w, &h->fields[i]);
	}
	if (h->framing == HTTP1_CHUNKED) {
		put_lit(&w, "Transfer-Encoding: chunked\r\n");
		put_trailer(&w, h);
	} else if (h->framing == HTTP1_LENGTH) {
		put_lit(&w, "Content-Length: ");
		put_number(&w, h->length);
		put_lit(&w, "\r\n");
	}
	put_list(&w, h, HTTP1_X_FORWARDED_FOR,
		"X-Forwarded-For: ", (const char *[2]){"", f->client});
	put_list(&w, h, HTTP1_VIA,
		"Via: ", (const char *[2]){h->minor == 0 ? "1.0 " : "1.1 ", f->via});
	put_text(&w, put_members(&w, h, HTTP1_CDN_LOOP, "CDN-Loop: ") ? "CDN-Loop: " : ", ");
	put_lit(&w, HOPS_CDN_ID "\r\n");
	if (f->request_id[0] != '\0' && http1_find(h, HTTP1_X_REQUEST_ID) == NULL) {
		put_lit(&w, "X-Request-Id: ");
		put_text(&w, f->request_id);
		put_lit(&w, "\r\n");
	}
	if (f->traceparent != NULL) {
		put_lit(&w, "traceparent: ");
		put_text(&w, f->traceparent);
		put_lit(&w, "\r\n");
	}
	if (h->upgrade)
		put_upgrade(&w, h);
	else if (h->takes_trailers)
		put_lit(&w, "Connection: TE\r\nTE: trailers\r\n");
	return http1_emit_finish(&w, to);
}

static void
put_connection(struct writer *w, const struct http1_reply *r)
{
	if (r->close)
		put_lit(w, "Connection: close\r\n");
	else if (r->keep_alive)
		put_lit(w, "Connection: keep-alive\r\n");
}

/* Writes Upgrade: the protocols that the server offers (RFC 9110 section 7.8), or demands (426,
 * section 15.5.22). */
static void
put_offer(struct writer *w, const struct http1_head *h, const struct http1_reply *r)
{
	put_text(w, r->close ? "Connection: close, upgrade\r\n" : "Connection: upgrade\r\n");
	if (!put_members(w, h, HTTP1_UPGRADE, "Upgrade: "))
		put_lit(w, "\r\n");
}

/* Fields of a response that this file writes itself. A Host in a response has no meaning and passes
 * through. */
static bool
framing_field(const struct http1_field *f)
{
	return f->hop || f->id == HTTP1_CONTENT_LENGTH || f->id == HTTP1_TRANSFER_ENCODING;
}

ssize_t
http1_emit_response(char *to, size_t size, const struct http1_head *h, const struct http1_reply *r)
{
	struct writer w = {to, to + size, false};
	char status[3] = {(char)('0' + h->status / 100), (char)('0' + h->status / 10 % 10),
		(char)('0' + h->status % 10)};
	bool switching = h->status == 101;

	put_lit(&w, "HTTP/1.1 ");
	http1_emit_put(&w, status, sizeof status);
	put_lit(&w, " ");
	put_str(&w, h->reason);
	put_lit(&w, "\r\n");
	for (size_t i = 0; i < h->n_fields; i++) {
		if (!framing_field(&h->fields[i]))
			put_field(&w, &h->fields[i]);
	}
	if (h->status >= 200 && h->status != 204) {
		if (r->framing == HTTP1_CHUNKED) {
			put_lit(&w, "Transfer-Encoding: chunked\r\n");
			if (h->framing == HTTP1_CHUNKED)
				put_trailer(&w, h);
		} else if (h->has_length) {
			put_lit(&w, "Content-Length: ");
			put_number(&w, h->length);
			put_lit(&w, "\r\n");
		}
	}
	if (switching)
		put_upgrade(&w, h);
	else if (h->status >= 200 && h->upgrade && r->upgrade)
		put_offer(&w, h, r);
	else if (h->status >= 200)
		put_connection(&w, r);
	return http1_emit_finish(&w, to);
}

const char *
http1_reason(int status)
{
	switch (status) {
	case 200:
		return "OK";
	case 301:
		return "Moved Permanently";
	case 302:
		return "Found";
	case 303:
		return "See Other";
	case 307:
		return "Temporary Redirect";
	case 308:
		return "Permanent Redirect";
	case 400:
		return "Bad Request";
	case 403:
		return "Forbidden";
	case 404:
		return "Not Found";
	case 405:
		return "Method Not Allowed";
	case 408:
		return "Request Timeout";
	case 413:
		return "Content Too Large";
	case 414:
		return "URI Too Long";
	case 421:
		return "Misdirected Request";
	case 426:
		return "Upgrade Required";
	case 429:
		return "Too Many Requests";
	case 431:
		return "Request Header Fields Too Large";
	case 500:
		return "Internal Server Error";
	case 501:
		return "Not Implemented";
	case 502:
		return "Bad Gateway";
	case 503:
		return "Service Unavailable";
	case 504:
		return "Gateway Timeout";
	case 505:
		return "HTTP Version Not Supported";
	case 508:
		return "Loop Detected";
	default:
		return "Error";
	}
}

ssize_t
http1_emit_error(char *to, size_t size, const struct http1_error *e, const struct http1_reply *r)
{
	struct writer w = {to, to + size, false};
	ssize_t n;

	put_lit(&w, "HTTP/1.1 ");
	put_number(&w, (uint64_t)e->status);
	put_lit(&w, " ");
	put_text(&w, http1_reason(e->status));
	put_lit(&w, "\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: ");
	put_number(&w, strlen(e->line) + 1);
	put_lit(&w, "\r\n");
	if (e->status == 405)
		put_lit(&w, "Allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\n");
	if (e->location != NULL) {
		put_lit(&w, "Location: ");
		put_text(&w, e->location);
		put_lit(&w, "\r\n");
	}
	if (e->retry_after > 0) {
		put_lit(&w, "Retry-After: ");
		put_number(&w, e->retry_after);
		put_lit(&w, "\r\n");
	}
	put_connection(&w, r);
	n = http1_emit_finish(&w, to);
	if (e->to_head || n < 0)
		return n;
	put_text(&w, e->line);
	put_lit(&w, "\n");
	return w.full ? -ENOBUFS : w.at - to;
}
