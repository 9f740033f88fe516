#include "base/http/http1.h"

#include <assert.h>
#include <errno.h>
#include <llhttp.h>
#include <string.h>

#include "base/http/http1_private.h"

/* Filled by llhttp's callbacks. llhttp may report a part in several pieces; within one call they
 * are adjacent. */
struct split {
	struct http1_head *head;
	struct http1_str url, status, name, value;
	bool overflow; /* too many fields */
	bool done;
};

size_t
http1_skip_blank(const char *data, size_t len)
{
	size_t n = 0;

	while (len - n >= 2 && data[n] == '\r' && data[n + 1] == '\n')
		n += 2;
	return n;
}

/* A CR without LF does not end a line (RFC 9112 section 2.2) and must not pass: llhttp takes one
 * before a value as the line's end, skips the next byte, and reads the rest as a separate field,
 * which no other parser sees (CVE-2023-30589). */
ssize_t
http1_find_end(const char *data, size_t len, size_t *from)
{
	const char *lf;

	while ((lf = memchr(data + *from, '\n', len - *from)) != NULL) {
		const char *line = data + *from;
		size_t n = (size_t)(lf - line);

		if (n == 0 || memchr(line, '\r', n) != lf - 1)
			return -EBADMSG;
		if (n == 1)
			return *from == 0 ? -EBADMSG : (ssize_t)(*from + 2);
		if (*from > 0 && (line[0] == ' ' || line[0] == '\t'))
			return -EBADMSG;
		*from += n + 1;
	}
	return 0;
}

/* Length of the line at s->line without its end, once its LF has come; -EAGAIN: not yet; -EBADMSG:
 * invalid in a head. */
static ssize_t
answer_line(const char *data, size_t len, struct http1_scan *s)
{
	const char *line = data + s->line, *lf = memchr(data + s->seen, '\n', len - s->seen);
	size_t n;

	s->seen = (uint32_t)len;
	if (lf == NULL)
		return -EAGAIN;
	s->seen = (uint32_t)(lf + 1 - data);
	n = (size_t)(lf - line);
	if (n > 0 && line[n - 1] == '\r')
		n--;
	else
		s->bare = true;
	if (memchr(line, '\r', n) != NULL || (n == 0 && s->line == 0) ||
		(n > 0 && s->line > 0 && (line[0] == ' ' || line[0] == '\t')))
		return -EBADMSG;
	return (ssize_t)n;
}

/* Copies the lines of a complete head, each with CRLF. */
static void
answer_clean(const char *data, size_t len, struct buf *clean)
{
	const char *lf;

	for (const char *at = data; at < data + len; at = lf + 1) {
		lf = memchr(at, '\n', (size_t)(data + len - at));
		assert(lf != NULL);
		buf_add(clean, at, (size_t)(lf - at) - (lf > at && lf[-1] == '\r'));
		buf_add(clean, "\r\n", 2);
	}
}

ssize_t
http1_find_answer_end(const char *data, size_t len, struct http1_scan *s, struct buf *clean,
	struct http1_str *head)
{
	ssize_t n;

	assert(s->seen <= len && len <= UINT32_MAX);
	*head = (struct http1_str){data, 0};
	while ((n = answer_line(data, len, s)) > 0) {
		s->line = s->seen;
		if (s->lines++ > HTTP1_FIELDS_MAX) /* the first line is not a field */
			return -E2BIG;
	}
	if (n < 0)
		return n == -EAGAIN ? 0 : n;
	head->len = s->seen;
	if (s->bare) {
		answer_clean(data, s->seen, clean);
		*head = (struct http1_str){buf_at(clean), buf_len(clean)};
	}
	return (ssize_t)s->seen;
}

enum http1_guess
http1_guess(const char *data, size_t len)
{
	static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

	if (len == 0)
		return HTTP1_LOOKS_SHORT;
	if (data[0] == 0x16) {
		if (len == 1)
			return HTTP1_LOOKS_SHORT;
		return data[1] == 0x03 ? HTTP1_LOOKS_OPAQUE : HTTP1_LOOKS_HTTP;
	}
	if (memcmp(data, preface, MIN(len, sizeof preface - 1)) == 0)
		return len >= sizeof preface - 1 ? HTTP1_LOOKS_HTTP2 : HTTP1_LOOKS_SHORT;
	return HTTP1_LOOKS_HTTP;
}

/* --- splitting, by llhttp ------------------------------------------------------------------- */

static void
http1_extend(struct http1_str *s, const char *at, size_t len)
{
	if (s->at == NULL)
		s->at = at;
	s->len = (size_t)(at + len - s->at);
}

static int
on_url(llhttp_t *p, const char *at, size_t len)
{
	http1_extend(&((struct split *)p->data)->url, at, len);
	return 0;
}

static int
on_status(llhttp_t *p, const char *at, size_t len)
{
	http1_extend(&((struct split *)p->data)->status, at, len);
	return 0;
}

static int
on_name(llhttp_t *p, const char *at, size_t len)
{
	http1_extend(&((struct split *)p->data)->name, at, len);
	return 0;
}

static int
on_value(llhttp_t *p, const char *at, size_t len)
{
	http1_extend(&((struct split *)p->data)->value, at, len);
	return 0;
}

static int
on_value_complete(llhttp_t *p)
{
	struct split *s = p->data;
	struct http1_head *h = s->head;

	if (h->n_fields == HTTP1_FIELDS_MAX) {
		s->overflow = true;
		return HPE_USER;
	}
	if (s->value.at == NULL)
		s->value = (struct http1_str){"", 0};
	h->fields[h->n_fields++] =
		(struct http1_field){.name = s->name, .value = http1_trim(s->value)};
	s->name = s->value = (struct http1_str){NULL, 0};
	return 0;
}

static int
on_headers_complete(llhttp_t *p)
{
	((struct split *)p->data)->done = true;
	return HPE_PAUSED; /* bodies are decoded by http1_body_next, which is stricter */
}

static const llhttp_settings_t settings = {
	.on_url = on_url,
	.on_status = on_status,
	.on_header_field = on_name,
	.on_header_value = on_value,
	.on_header_value_complete = on_value_complete,
	.on_headers_complete = on_headers_complete,
};

/* 0, or a status. A request's head is given without its method, since llhttp may not know it, and
 * is parsed with `method` instead; NULL: a response. */
static int
split_head(struct split *s, llhttp_t *p, const char *method, const char *data, size_t len)
{
	llhttp_errno_t rc = HPE_OK;

	p->data = s;
	if (method != NULL)
		rc = llhttp_execute(p, method, strlen(method));
	if (rc == HPE_OK)
		rc = llhttp_execute(p, data, len);
	if (s->overflow)
		return http1_refuse(s->head, 431, "too many fields");
	if (rc == HPE_INVALID_VERSION)
		return http1_refuse(s->head, 505, "unknown HTTP version");
	if (rc != HPE_PAUSED || !s->done)
		return http1_refuse(s->head, 400, "malformed head");
	return 0;
}

/* --- the first line ------------------------------------------------------------------------- */

void
http1_classify_method(struct http1_head *h)
{
	static const char *const idempotent[] = {
		"GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE"};

	h->is_head = h->method.len == 4 && memcmp(h->method.at, "HEAD", 4) == 0;
	h->idempotent = false;
	for (size_t i = 0; i < ARRAY_LEN(idempotent); i++)
		h->idempotent |= h->method.len == strlen(idempotent[i]) &&
			memcmp(h->method.at, idempotent[i], h->method.len) == 0;
}

static void
head_init(struct http1_head *h)
{
	memset(h, 0, offsetof(struct http1_head, fields));
}

/* The CR that ends the first line; NULL when a bare CR precedes it, which llhttp accepts in a
 * status line. */
static const char *
line_end(const char *data, size_t len)
{
	const char *cr = memchr(data, '\r', len);

	return cr != NULL && (size_t)(cr - data) + 1 < len && cr[1] == '\n' ? cr : NULL;
}

/* llhttp accepts several blanks and other versions: the line must be METHOD SP target SP
 * HTTP/1.x. */
static int
check_request_line(struct http1_head *h, const char *data, size_t len, struct http1_str url)
{
	const char *cr = line_end(data, len);
	const char *rest = url.at + url.len;

	if (url.at == NULL || url.at != h->method.at + h->method.len + 1)
		return http1_refuse(h, 400, "malformed request line");
	if (cr == NULL || cr - rest != 9 || memcmp(rest, " HTTP/", 6) != 0 || rest[7] != '.')
		return http1_refuse(h, 400, "malformed request line");
	if (rest[6] != '1' || (rest[8] != '0' && rest[8] != '1'))
		return http1_refuse(h, 505, "unknown HTTP version");
	if (url.len > HTTP1_TARGET_MAX)
		return http1_refuse(h, 414, "the target is too long");
	h->minor = (uint8_t)(rest[8] - '0');
	h->target = url;
	return 0;
}

static int
parse_request(struct http1_head *h, const char *data, size_t len, bool proxy)
{
	struct split s = {.head = h};
	const char *sp = memchr(data, ' ', MIN(len, (size_t)HTTP1_METHOD_MAX + 1));
	llhttp_t p;
	int rc;

	head_init(h);
	h->method = (struct http1_str){data, sp != NULL ? (size_t)(sp - data) : 0};
	if (!http1_valid_token(h->method))
		return http1_refuse(h, 400, "malformed method");
	h->is_connect = h->method.len == 7 && memcmp(h->method.at, "CONNECT", 7) == 0;
	if (h->is_connect && !proxy)
		return http1_refuse(h, 405, "CONNECT is not served here");
	llhttp_init(&p, HTTP_REQUEST, &settings);
	if ((rc = split_head(&s, &p, h->is_connect ? "CONNECT " : "GET ", sp + 1,
		     len - h->method.len - 1)) != 0 ||
		(rc = check_request_line(h, data, len, s.url)) != 0 ||
		(rc = http1_check_fields(h)) != 0 || (rc = http1_read_target(h)) != 0 ||
		(rc = http1_read_host(h)) != 0 || (rc = http1_read_framing(h)) != 0)
		return rc;
	http1_classify_method(h);
	if ((rc = http1_read_connection(h)) != 0)
		return rc;
	h->upgrade = h->upgrade && !http1_asks_http2(h);
	if (h->minor == 1) {
		const struct http1_field *f = http1_find(h, HTTP1_EXPECT);

		h->expects = f != NULL && http1_is(f->value, "100-continue");
	}
	return h->is_connect && (h->framing == HTTP1_CHUNKED || h->length > 0)
		? http1_refuse(h, 400, "CONNECT with a body")
		: 0;
}

int
http1_parse_request(struct http1_head *h, const char *data, size_t len)
{
	return parse_request(h, data, len, false);
}

int
http1_parse_proxy_request(struct http1_head *h, const char *data, size_t len)
{
	return parse_request(h, data, len, true);
}

ssize_t
http1_read_request(struct http1_head *h, const char *data, size_t len, size_t *from, bool to_proxy)
{
	ssize_t n = http1_find_end(data, len, from);
	int status;

	if (n == 0 && len < HTTP1_HEAD_MAX)
		return 0;
	*from = 0;
	if (n < 0)
		return -http1_refuse(h, 400, "malformed head");
	if (n == 0 && memchr(data, '\n', HTTP1_TARGET_MAX) == NULL)
		return -http1_refuse(h, 414, "the target is too long");
	if (n == 0 || n > HTTP1_HEAD_MAX)
		return -http1_refuse(h, 431, "the head is too large");
	status = parse_request(h, data, (size_t)n, to_proxy);
	return status == 0 ? n : -status;
}

static int
check_status_line(struct http1_head *h, const char *data, size_t len)
{
	const char *cr = line_end(data, len);

	if (cr == NULL || cr - data < 12 || memcmp(data, "HTTP/1.", 7) != 0 || data[8] != ' ' ||
		(data[7] != '0' && data[7] != '1') || (cr - data > 12 && data[12] != ' '))
		return http1_refuse(h, 502, "malformed status line");
	h->minor = (uint8_t)(data[7] - '0');
	for (int i = 9; i < 12; i++) {
		if (data[i] < '0' || data[i] > '9')
			return http1_refuse(h, 502, "malformed status line");
		h->status = (uint16_t)(h->status * 10 + data[i] - '0');
	}
	if (h->status < 100 || h->status > 599)
		return http1_refuse(h, 502, "unknown status");
	if (cr - data > 13)
		h->reason = (struct http1_str){data + 13, (size_t)(cr - data) - 13};
	if (!http1_valid_value(h->reason))
		return http1_refuse(h, 502, "the reason phrase holds a control character");
	return 0;
}

int
http1_parse_response(struct http1_head *h, const char *data, size_t len, bool to_head)
{
	struct split s = {.head = h};
	bool bodyless;
	llhttp_t p;

	head_init(h);
	llhttp_init(&p, HTTP_RESPONSE, &settings);
	if (check_status_line(h, data, len) != 0 || split_head(&s, &p, NULL, data, len) != 0 ||
		http1_check_fields(h) != 0 || http1_read_framing(h) != 0 ||
		http1_read_connection(h) != 0)
		return 502;
	/* 426 and protocol offers use Upgrade; some servers forget to list it in Connection. */
	if (h->status >= 200)
		h->upgrade = h->minor == 1 && http1_names_protocol(h);
	bodyless = h->status < 200 || h->status == 204 || h->status == 304;
	if (!to_head && !bodyless && h->framing == HTTP1_EMPTY) {
		h->framing = HTTP1_UNTIL_CLOSE;
		h->keep_alive = false;
	}
	return 0;
}
