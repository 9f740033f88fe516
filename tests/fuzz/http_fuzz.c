/*
 * HTTP/1.x heads and bodies. First byte: '>' a request, '<' a response, '^' a response to HEAD, 'c'
 * a chunked body; behind a head a chunked body may follow. Whatever is accepted must be read alike
 * by an origin that forgives nothing (http1_strict.h) and, once emitted, be read again as the same
 * message with nothing hop-by-hop in it; and a body must not depend on how it was cut.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/core/buf.h"
#include "base/http/http1.h"
#include "tests/unit/base/http/http1_strict.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static struct http1_head one, two;
static struct strict_head strict;
static char emitted[2 * HTTP1_HEAD_MAX];

static bool
same(struct http1_str a, struct http1_str b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

/* `one` is what was read of these bytes. */
static void
check_strict(const char *data, size_t len, bool request)
{
	assert(strict_head(&strict, data, len, request) && strict.n == one.n_fields);
	for (size_t i = 0; i < strict.n; i++)
		assert(strict.names[i].at == one.fields[i].name.at &&
			strict.values[i].len == one.fields[i].value.len);
}

static void
check_clean(const struct http1_head *h, bool switching)
{
	for (size_t i = 0; i < h->n_fields; i++) {
		const struct http1_field *f = &h->fields[i];

		if (f->hop && !switching && f->id != HTTP1_CONNECTION)
			assert((f->id == HTTP1_TRAILER && h->framing == HTTP1_CHUNKED) ||
				(f->id == HTTP1_TE && h->takes_trailers) ||
				(f->id == HTTP1_UPGRADE && h->upgrade)); /* offered */
	}
}

static void
parse_again(size_t len, bool request, bool to_head)
{
	size_t from = 0;

	assert(http1_find_end(emitted, len, &from) == (ssize_t)len);
	assert(strict_head(&strict, emitted, len, request));
	assert((request ? http1_parse_request(&two, emitted, len)
			: http1_parse_response(&two, emitted, len, to_head)) == 0);
	assert(two.minor == 1);
}

static void
request_again(void)
{
	const struct http1_forward forward = {
		"192.0.2.1", "edgeway", "9.251.0.1:80", "0123", NULL, false};
	ssize_t n = http1_emit_request(emitted, sizeof emitted, &one, &forward);
	const struct http1_str standard = {"9.251.0.1:80", 12};

	assert(n > 0);
	/* Fields are added: a request at the limit may go over it. */
	if (one.n_fields + 5 > HTTP1_FIELDS_MAX || one.target.len + 1 > HTTP1_TARGET_MAX)
		return;
	parse_again((size_t)n, true, false);
	assert(same(one.method, two.method));
	if (one.target.at[0] == '?')
		assert(two.target.at[0] == '/' && two.target.len == one.target.len + 1);
	else
		assert(same(one.target, two.target));
	assert(same(one.host.len > 0 ? one.host : standard, two.host));
	assert(one.framing == two.framing && one.length == two.length &&
		one.upgrade == two.upgrade);
	assert(two.takes_trailers == (one.takes_trailers && !one.upgrade));
	assert(one.idempotent == two.idempotent && one.is_head == two.is_head);
	assert(two.keep_alive);
	check_clean(&two, two.upgrade);
}

static void
response_again(bool to_head)
{
	struct http1_exchange x = {.client_minor = 1,
		.is_head = to_head,
		.request_done = true,
		.keep = one.keep_alive};
	uint8_t framing = one.framing == HTTP1_UNTIL_CLOSE ? HTTP1_CHUNKED : one.framing;
	ssize_t n = http1_exchange_emit(&x, &one, emitted, sizeof emitted);

	assert(n > 0);
	if (one.n_fields + 2 > HTTP1_FIELDS_MAX)
		return;
	parse_again((size_t)n, false, to_head);
	assert(one.status == two.status && same(one.reason, two.reason));
	if (one.status >= 200 && one.status != 204)
		assert(two.framing == framing && two.length == one.length);
	else
		assert(two.framing == HTTP1_EMPTY);
	assert(two.status < 200 || two.keep_alive == x.keep);
	assert(!x.chunked_down || two.framing == HTTP1_CHUNKED);
	assert(!two.upgrade || one.upgrade || one.status == 101);
	check_clean(&two, one.status == 101);
}

/* Decodes in pieces of `step` bytes; payload behind what is in out, whole frames in reframed. */
static enum http1_got
decode(const char *data, size_t len, size_t step, struct buf *out, struct buf *reframed,
	size_t *consumed)
{
	auto_buf struct buf trailers;
	enum http1_got got = HTTP1_MORE;
	struct http1_body body;

	buf_init(&trailers, 0);
	http1_body_init(&body, HTTP1_CHUNKED, 0);
	if (reframed != NULL)
		http1_body_keep(&body, &trailers);
	*consumed = 0;
	while (*consumed < len && (got == HTTP1_MORE || got == HTTP1_DATA)) {
		struct http1_str part = {data + *consumed, MIN(step, len - *consumed)}, piece;
		size_t used;

		got = reframed != NULL ? http1_body_pass(&body, part, &used, &piece, true, reframed)
				       : http1_body_next(&body, part.at, part.len, &used, &piece);
		assert(used <= part.len);
		*consumed += used;
		if (got == HTTP1_DATA)
			buf_add(out, piece.at, piece.len);
	}
	return http1_body_done(&body) ? HTTP1_DONE : got;
}

static void
body_again(const char *data, size_t len)
{
	auto_buf struct buf whole, bytewise, framed, third;
	size_t a, b, c;
	enum http1_got got;

	buf_init(&whole, 0);
	buf_init(&bytewise, 0);
	buf_init(&framed, 0);
	buf_init(&third, 0);
	got = decode(data, len, len + 1, &whole, &framed, &a);
	assert(decode(data, len, 1, &bytewise, NULL, &b) == got || got == HTTP1_DATA);
	assert(a == b && buf_len(&whole) == buf_len(&bytewise));
	assert(buf_len(&whole) == 0 ||
		memcmp(buf_at(&whole), buf_at(&bytewise), buf_len(&whole)) == 0);
	if (got != HTTP1_DONE)
		return;
	buf_consume(&bytewise, buf_len(&bytewise));
	assert(strict_chunks(data, len, &bytewise) == a && buf_len(&bytewise) == buf_len(&whole));
	assert(decode(buf_at(&framed), buf_len(&framed), 7, &third, NULL, &c) == HTTP1_DONE);
	assert(c == buf_len(&framed) && buf_len(&third) == buf_len(&whole));
	assert(buf_len(&whole) == 0 ||
		memcmp(buf_at(&whole), buf_at(&third), buf_len(&whole)) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	const char *at = (const char *)data + 1;
	auto_buf struct buf clean = {.limit = BUF_UNLIMITED};
	struct http1_str text = {NULL, 0};
	struct http1_scan scan = {0};
	size_t from = 0, left;
	ssize_t n = 0;

	if (len == 0)
		return 0;
	left = len - 1;
	if (data[0] != 'c') {
		size_t blank = data[0] == '>' ? http1_skip_blank(at, left) : 0;

		at += blank;
		left -= blank;
		(void)http1_guess(at, left);
		n = data[0] == '>' ? http1_find_end(at, left, &from)
				   : http1_find_answer_end(at, left, &scan, &clean, &text);
		if (n <= 0 || MAX((size_t)n, text.len) > HTTP1_HEAD_MAX)
			return 0;
	}
	if (data[0] == '>' && http1_parse_request(&one, at, (size_t)n) == 0) {
		check_strict(at, (size_t)n, true);
		request_again();
	} else if ((data[0] == '<' || data[0] == '^') &&
		http1_parse_response(&one, text.at, text.len, data[0] == '^') == 0) {
		check_strict(text.at, text.len, false);
		response_again(data[0] == '^');
	}
	body_again(at + n, left - (size_t)n);
	return 0;
}
