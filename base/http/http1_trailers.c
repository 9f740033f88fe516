/* Forwarding of trailers (RFC 9110 section 6.5, RFC 9112 section 7.1.2). */
#include <assert.h>
#include <string.h>

#include "base/http/http1.h"

bool
http1_trailer_may_stand(struct http1_str name)
{
	static const char *const denied[] = {"age", "authorization", "cache-control", "cdn-loop",
		"connection", "content-encoding", "content-length", "content-location",
		"content-range", "content-type", "cookie", "date", "expect", "expires", "forwarded",
		"host", "http2-settings", "if-match", "if-modified-since", "if-none-match",
		"if-range", "if-unmodified-since", "keep-alive", "location", "max-forwards",
		"pragma", "proxy-authenticate", "proxy-authorization", "proxy-connection", "range",
		"retry-after", "set-cookie", "te", "trailer", "transfer-encoding", "upgrade",
		"vary", "via", "warning", "www-authenticate", "x-forwarded-for", "x-forwarded-host",
		"x-forwarded-proto", "x-request-id"};

	for (size_t i = 0; i < ARRAY_LEN(denied); i++) {
		if (http1_is(name, denied[i]))
			return false;
	}
	return true;
}

static struct http1_str
http1_trailers_trimmed(const char *at, const char *end)
{
	while (at < end && (*at == ' ' || *at == '\t'))
		at++;
	while (end > at && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	return (struct http1_str){at, (size_t)(end - at)};
}

static void
http1_trailers_close(struct buf *trailers)
{
	struct buf raw = *trailers;
	const char *at = buf_len(&raw) > 0 ? raw.data + raw.start : "", *all = at + buf_len(&raw);

	buf_init(trailers, BUF_UNLIMITED);
	buf_adds(trailers, "0\r\n");
	/* http1_body_next has checked each line: NAME ":" value CR LF. */
	while (at < all) {
		const char *colon = memchr(at, ':', (size_t)(all - at));
		const char *end = memchr(at, '\r', (size_t)(all - at));
		struct http1_str value;

		assert(colon != NULL && end != NULL && colon < end);
		value = http1_trailers_trimmed(colon + 1, end);
		if (http1_trailer_may_stand((struct http1_str){at, (size_t)(colon - at)})) {
			buf_add(trailers, at, (size_t)(colon - at));
			buf_adds(trailers, ": ");
			buf_add(trailers, value.at, value.len);
			buf_adds(trailers, "\r\n");
		}
		at = end + 2;
	}
	buf_adds(trailers, "\r\n");
	buf_fini(&raw);
}

struct http1_str
http1_last_chunk(struct http1_body *b)
{
	if (b->kept == NULL || buf_len(b->kept) == 0)
		return (struct http1_str){HTTP1_CHUNK_LAST, sizeof HTTP1_CHUNK_LAST - 1};
	http1_trailers_close(b->kept);
	return (struct http1_str){buf_at(b->kept), buf_len(b->kept)};
}
