#include "tracing/reply.h"

#include <string.h>
#include <time.h>

void
reply_init(struct reply *r)
{
	buf_init(&r->in, REPLY_MAX);
	buf_init(&r->body, REPLY_MAX);
	r->used = 0;
	r->status = 0;
	r->keep_alive = false;
	r->retry_after_s = 0;
	r->why = "";
}

void
reply_fini(struct reply *r)
{
	buf_fini(&r->in);
	buf_fini(&r->body);
}

/* RFC 9110 section 10.2.3: seconds, or a date. */
static unsigned
retry_after(const struct http1_head *h)
{
	char text[64];
	struct tm tm = {0};
	time_t s;

	for (size_t i = 0; i < h->n_fields; i++) {
		const struct http1_field *f = &h->fields[i];

		if (!http1_is(f->name, "retry-after") || f->value.len >= sizeof text)
			continue;
		memcpy(text, f->value.at, f->value.len);
		text[f->value.len] = '\0';
		if (strptime(text, "%a, %d %b %Y %H:%M:%S GMT", &tm) != NULL) {
			s = timegm(&tm);
			/* A 32-bit time_t cannot represent days after 2038. */
			s = s == -1 && tm.tm_year > 70 ? REPLY_RETRY_AFTER_MAX_S : s - time(NULL);
		} else {
			s = (time_t)MIN(
				strtoul(text, NULL, 10), (unsigned long)REPLY_RETRY_AFTER_MAX_S);
		}
		return (unsigned)MIN(MAX(s, 0), REPLY_RETRY_AFTER_MAX_S);
	}
	return 0;
}

static enum reply_got
reply_bad(struct reply *r, const char *why)
{
	r->why = why;
	return REPLY_BAD;
}

static void
reply_consume(struct reply *r, size_t n)
{
	buf_consume(&r->in, n);
	r->used += n;
}

static enum reply_got
take_head(struct reply *r)
{
	size_t from = 0;
	ssize_t n = http1_find_end(buf_at(&r->in), buf_len(&r->in), &from);

	if (n == 0)
		return buf_len(&r->in) < HTTP1_HEAD_MAX
			? REPLY_MORE
			: reply_bad(r, "the head of the answer is too long");
	if (n < 0 || http1_parse_response(&r->head, buf_at(&r->in), (size_t)n, false) != 0)
		return reply_bad(r, "what answers does not speak HTTP");
	r->retry_after_s = retry_after(&r->head);
	reply_consume(r, (size_t)n);
	if (r->head.status < 200)
		return REPLY_DONE; /* an interim response; another head follows */
	r->status = r->head.status;
	http1_body_init(&r->rest, r->head.framing, r->head.length);
	return REPLY_DONE;
}

static enum reply_got
take_body(struct reply *r)
{
	enum http1_got got = http1_body_done(&r->rest) ? HTTP1_DONE : HTTP1_DATA;
	struct http1_str piece;
	size_t used;

	while (got == HTTP1_DATA) {
		got = http1_body_next(&r->rest, buf_at(&r->in), buf_len(&r->in), &used, &piece);
		if (got == HTTP1_DATA && buf_add(&r->body, piece.at, piece.len) < 0)
			return reply_bad(r, "the answer is too long");
		reply_consume(r, used);
	}
	if (got == HTTP1_BAD)
		return reply_bad(r, "the answer's body is not HTTP");
	if (got == HTTP1_MORE)
		return REPLY_MORE;
	/* Bytes after the response belong to no request. */
	r->keep_alive = r->head.keep_alive && buf_len(&r->in) == 0;
	return REPLY_DONE;
}

enum reply_got
reply_take(struct reply *r)
{
	enum reply_got got = REPLY_DONE;

	while (got == REPLY_DONE && r->status == 0)
		got = take_head(r);
	if (got == REPLY_DONE)
		got = take_body(r);
	/* A server that keeps sending must not hold the connection for ever. */
	return got == REPLY_MORE && r->used > REPLY_ALL_MAX ? reply_bad(r, "the answer is too long")
							    : got;
}

bool
reply_end(const struct reply *r)
{
	return r->status != 0 && r->rest.framing == HTTP1_UNTIL_CLOSE;
}
