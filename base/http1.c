#include "base/http1.h"

#include <errno.h>
#include <llhttp.h>
#include <string.h>
#include <strings.h>

enum { CONNECTION_OPTIONS = 100 }; /* each costs a walk over the fields */

/* What llhttp's callbacks fill. llhttp may tell a part in several pieces; within one call they are
 * adjacent. */
struct split {
	struct http1_head *head;
	struct http1_str url, status, name, value;
	bool overflow; /* too many fields */
	bool done;
};

bool
http1_is(struct http1_str s, const char *lowercase)
{
	return strlen(lowercase) == s.len && strncasecmp(s.at, lowercase, s.len) == 0;
}

const struct http1_field *
http1_find(const struct http1_head *h, enum http1_name id)
{
	for (size_t i = 0; i < h->n_fields; i++) {
		if (h->fields[i].id == id)
			return &h->fields[i];
	}
	return NULL;
}

size_t
http1_skip_blank(const char *data, size_t len)
{
	size_t n = 0;

	while (len - n >= 2 && data[n] == '\r' && data[n + 1] == '\n')
		n += 2;
	return n;
}

ssize_t
http1_find_end(const char *data, size_t len, size_t *from)
{
	const char *lf;

	while ((lf = memchr(data + *from, '\n', len - *from)) != NULL) {
		size_t at = (size_t)(lf - data);

		if (at == *from || lf[-1] != '\r')
			return -EBADMSG;
		if (at == *from + 1)
			return *from == 0 ? -EBADMSG : (ssize_t)(at + 1);
		/* CR CR LF: llhttp would end the head at the first CR. */
		if (*from > 0 && (data[*from] == ' ' || data[*from] == '\t' || data[*from] == '\r'))
			return -EBADMSG;
		*from = at + 1;
	}
	return 0;
}

int
http1_too_large(const char *data, size_t len)
{
	return memchr(data, '\n', MIN(len, (size_t)HTTP1_TARGET_MAX)) == NULL ? 414 : 431;
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
		return len >= sizeof preface - 1 ? HTTP1_LOOKS_OPAQUE : HTTP1_LOOKS_SHORT;
	return HTTP1_LOOKS_HTTP;
}

/* --- splitting, by llhttp ------------------------------------------------- */

static void
extend(struct http1_str *s, const char *at, size_t len)
{
	if (s->at == NULL)
		s->at = at;
	s->len = (size_t)(at + len - s->at);
}

static int
on_url(llhttp_t *p, const char *at, size_t len)
{
	extend(&((struct split *)p->data)->url, at, len);
	return 0;
}

static int
on_status(llhttp_t *p, const char *at, size_t len)
{
	extend(&((struct split *)p->data)->status, at, len);
	return 0;
}

static int
on_name(llhttp_t *p, const char *at, size_t len)
{
	extend(&((struct split *)p->data)->name, at, len);
	return 0;
}

static int
on_value(llhttp_t *p, const char *at, size_t len)
{
	extend(&((struct split *)p->data)->value, at, len);
	return 0;
}

static struct http1_str
trimmed(struct http1_str s)
{
	while (s.len > 0 && (s.at[0] == ' ' || s.at[0] == '\t')) {
		s.at++;
		s.len--;
	}
	while (s.len > 0 && (s.at[s.len - 1] == ' ' || s.at[s.len - 1] == '\t'))
		s.len--;
	return s;
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
		(struct http1_field){.name = s->name, .value = trimmed(s->value)};
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

static int
refuse(struct http1_head *h, int status, const char *why)
{
	h->why = why;
	return status;
}

/* 0, or a status. A request's head comes without its method, which may be one that llhttp does not know, and
 * goes in with `method`; NULL: a response. */
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
		return refuse(s->head, 431, "too many fields");
	if (rc == HPE_INVALID_VERSION)
		return refuse(s->head, 505, "unknown HTTP version");
	if (rc != HPE_PAUSED || !s->done)
		return refuse(s->head, 400, "malformed head");
	return 0;
}

/* --- checks on top -------------------------------------------------------- */

static uint8_t
name_id(struct http1_str n)
{
	static const struct {
		const char *name;
		uint8_t len, id;
	} known[] = {
		{"te", 2, HTTP1_TE},
		{"via", 3, HTTP1_VIA},
		{"host", 4, HTTP1_HOST},
		{"expect", 6, HTTP1_EXPECT},
		{"upgrade", 7, HTTP1_UPGRADE},
		{"trailer", 7, HTTP1_TRAILER},
		{"connection", 10, HTTP1_CONNECTION},
		{"keep-alive", 10, HTTP1_KEEP_ALIVE},
		{"x-request-id", 12, HTTP1_X_REQUEST_ID},
		{"content-length", 14, HTTP1_CONTENT_LENGTH},
		{"http2-settings", 14, HTTP1_HTTP2_SETTINGS},
		{"x-forwarded-for", 15, HTTP1_X_FORWARDED_FOR},
		{"proxy-connection", 16, HTTP1_PROXY_CONNECTION},
		{"transfer-encoding", 17, HTTP1_TRANSFER_ENCODING},
	};

	for (size_t i = 0; i < ARRAY_LEN(known) && known[i].len <= n.len; i++) {
		if (known[i].len == n.len && known[i].name[0] == (n.at[0] | 0x20) &&
			strncasecmp(known[i].name, n.at, n.len) == 0)
			return known[i].id;
	}
	return HTTP1_OTHER;
}

static int
check_fields(struct http1_head *h)
{
	for (size_t i = 0; i < h->n_fields; i++) {
		struct http1_field *f = &h->fields[i];

		if (!http1_valid_token(f->name))
			return refuse(h, 400, "a field name is not a token");
		if (!http1_valid_value(f->value))
			return refuse(h, 400, "a field value holds a control character");
		f->id = name_id(f->name);
		f->hop = f->id == HTTP1_CONNECTION || f->id == HTTP1_KEEP_ALIVE ||
			f->id == HTTP1_PROXY_CONNECTION || f->id == HTTP1_TE ||
			f->id == HTTP1_UPGRADE || f->id == HTTP1_TRAILER ||
			f->id == HTTP1_HTTP2_SETTINGS;
	}
	return 0;
}

/* RFC 9110 section 7.6.1: what Connection names goes no further; framing, routing and trace fields
 * stay. */
static void
mark_hop(struct http1_head *h, struct http1_str option)
{
	for (size_t i = 0; i < h->n_fields; i++) {
		struct http1_field *f = &h->fields[i];

		if (f->hop || f->name.len != option.len ||
			strncasecmp(f->name.at, option.at, option.len) != 0)
			continue;
		f->hop = f->id == HTTP1_OTHER || f->id == HTTP1_EXPECT;
	}
}

static bool
next_item(struct http1_str *list, struct http1_str *item)
{
	const char *comma;

	if (list->len == 0)
		return false;
	comma = memchr(list->at, ',', list->len);
	item->at = list->at;
	item->len = comma != NULL ? (size_t)(comma - list->at) : list->len;
	list->at += MIN(item->len + 1, list->len);
	list->len -= MIN(item->len + 1, list->len);
	*item = trimmed(*item);
	return true;
}

/* An Upgrade that names no protocol is none. */
static bool
names_protocol(const struct http1_head *h)
{
	for (size_t i = 0; i < h->n_fields; i++) {
		if (h->fields[i].id == HTTP1_UPGRADE && h->fields[i].value.len > 0)
			return true;
	}
	return false;
}

/* An option of Connection that may name a field other than those that never go further anyway. */
static bool
is_other(struct http1_str option)
{
	return option.len > 0 && !http1_is(option, "close") && !http1_is(option, "keep-alive") &&
		!http1_is(option, "upgrade") && !http1_is(option, "te");
}

static int
read_connection(struct http1_head *h)
{
	bool close = false, keep = false, upgrade = false, te = false;
	const struct http1_field *codings = http1_find(h, HTTP1_TE);
	unsigned options = 0;

	for (size_t i = 0; i < h->n_fields; i++) {
		struct http1_str list = h->fields[i].value, item;

		if (h->fields[i].id != HTTP1_CONNECTION)
			continue;
		while (next_item(&list, &item)) {
			if (++options > CONNECTION_OPTIONS)
				return refuse(h, 400, "too many options in Connection");
			close |= http1_is(item, "close");
			keep |= http1_is(item, "keep-alive");
			upgrade |= http1_is(item, "upgrade");
			te |= http1_is(item, "te");
			h->names_fields |= is_other(item);
			mark_hop(h, item);
		}
	}
	h->keep_alive = !close && (h->minor == 1 || keep);
	h->upgrade = upgrade && h->minor == 1 && names_protocol(h);
	h->takes_trailers =
		te && h->minor == 1 && codings != NULL && http1_is(codings->value, "trailers");
	return 0;
}

static int
read_length(struct http1_head *h, struct http1_str v)
{
	uint64_t n = 0;

	if (h->has_length)
		return refuse(h, 400, "more than one Content-Length");
	if (v.len == 0 || v.len > 19)
		return refuse(h, 400, "Content-Length is not a number");
	for (size_t i = 0; i < v.len; i++) {
		if (v.at[i] < '0' || v.at[i] > '9')
			return refuse(h, 400, "Content-Length is not a number");
		n = n * 10 + (uint64_t)(v.at[i] - '0'); /* 19 digits fit */
	}
	/* What others count in signed numbers must not turn negative there. */
	if (n > INT64_MAX)
		return refuse(h, 400, "Content-Length is too large");
	h->has_length = true;
	h->length = n;
	return 0;
}

/* RFC 9112 section 6: one Content-Length, or one Transfer-Encoding that is "chunked", in HTTP/1.1,
 * never both. */
static int
read_framing(struct http1_head *h)
{
	bool chunked = false;

	h->has_length = false;
	h->length = 0;
	for (size_t i = 0; i < h->n_fields; i++) {
		const struct http1_field *f = &h->fields[i];
		int rc;

		if (f->id == HTTP1_CONTENT_LENGTH && (rc = read_length(h, f->value)) != 0)
			return rc;
		if (f->id != HTTP1_TRANSFER_ENCODING)
			continue;
		if (chunked)
			return refuse(h, 400, "more than one Transfer-Encoding");
		if (!http1_is(f->value, "chunked"))
			return refuse(h, 501, "Transfer-Encoding is not \"chunked\"");
		chunked = true;
	}
	if (chunked && h->has_length)
		return refuse(h, 400, "both Content-Length and Transfer-Encoding");
	if (chunked && h->minor == 0)
		return refuse(h, 400, "Transfer-Encoding in HTTP/1.0");
	h->framing = chunked ? HTTP1_CHUNKED : h->has_length ? HTTP1_LENGTH : HTTP1_EMPTY;
	return 0;
}

static int
read_host(struct http1_head *h)
{
	const struct http1_field *host = NULL;

	for (size_t i = 0; i < h->n_fields; i++) {
		if (h->fields[i].id != HTTP1_HOST)
			continue;
		if (host != NULL)
			return refuse(h, 400, "more than one Host");
		host = &h->fields[i];
	}
	if (host == NULL && h->minor == 1)
		return refuse(h, 400, "no Host");
	if (host != NULL && !http1_valid_host(host->value))
		return refuse(h, 400, "Host is not a host");
	if (h->host.len == 0 && host != NULL) /* absolute-form wins, RFC 9112 section 3.2.2 */
		h->host = host->value;
	return 0;
}

/* http_target.c: checks h->target and takes absolute-form apart. */
int http1_read_target(struct http1_head *h);

static void
classify_method(struct http1_head *h)
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

/* The CR that ends the first line; NULL when a bare CR stands before it, which llhttp lets through in a
 * status line. */
static const char *
line_end(const char *data, size_t len)
{
	const char *cr = memchr(data, '\r', len);

	return cr != NULL && (size_t)(cr - data) + 1 < len && cr[1] == '\n' ? cr : NULL;
}

/* llhttp tolerates more than one blank and other versions: the line must be METHOD SP target SP
 * HTTP/1.x. */
static int
check_request_line(struct http1_head *h, const char *data, size_t len, struct http1_str url)
{
	const char *cr = line_end(data, len);
	const char *rest = url.at + url.len;

	if (url.at == NULL || url.at != h->method.at + h->method.len + 1)
		return refuse(h, 400, "malformed request line");
	if (cr == NULL || cr - rest != 9 || memcmp(rest, " HTTP/", 6) != 0 || rest[7] != '.')
		return refuse(h, 400, "malformed request line");
	if (rest[6] != '1' || (rest[8] != '0' && rest[8] != '1'))
		return refuse(h, 505, "unknown HTTP version");
	if (url.len > HTTP1_TARGET_MAX)
		return refuse(h, 414, "the target is too long");
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
		return refuse(h, 400, "malformed method");
	h->is_connect = h->method.len == 7 && memcmp(h->method.at, "CONNECT", 7) == 0;
	if (h->is_connect && !proxy)
		return refuse(h, 405, "CONNECT is not served here");
	llhttp_init(&p, HTTP_REQUEST, &settings);
	if ((rc = split_head(&s, &p, h->is_connect ? "CONNECT " : "GET ", sp + 1,
		     len - h->method.len - 1)) != 0 ||
		(rc = check_request_line(h, data, len, s.url)) != 0 ||
		(rc = check_fields(h)) != 0 || (rc = http1_read_target(h)) != 0 ||
		(rc = read_host(h)) != 0 || (rc = read_framing(h)) != 0)
		return rc;
	classify_method(h);
	if ((rc = read_connection(h)) != 0)
		return rc;
	if (h->minor == 1) {
		const struct http1_field *f = http1_find(h, HTTP1_EXPECT);

		h->expects = f != NULL && http1_is(f->value, "100-continue");
	}
	return h->is_connect && (h->framing == HTTP1_CHUNKED || h->length > 0)
		? refuse(h, 400, "CONNECT with a body")
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

static int
check_status_line(struct http1_head *h, const char *data, size_t len)
{
	const char *cr = line_end(data, len);

	if (cr == NULL || cr - data < 12 || memcmp(data, "HTTP/1.", 7) != 0 || data[8] != ' ' ||
		(data[7] != '0' && data[7] != '1') || (cr - data > 12 && data[12] != ' '))
		return refuse(h, 502, "malformed status line");
	h->minor = (uint8_t)(data[7] - '0');
	for (int i = 9; i < 12; i++) {
		if (data[i] < '0' || data[i] > '9')
			return refuse(h, 502, "malformed status line");
		h->status = (uint16_t)(h->status * 10 + data[i] - '0');
	}
	if (h->status < 100 || h->status > 599)
		return refuse(h, 502, "unknown status");
	if (cr - data > 13)
		h->reason = (struct http1_str){data + 13, (size_t)(cr - data) - 13};
	if (!http1_valid_value(h->reason))
		return refuse(h, 502, "the reason phrase holds a control character");
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
		check_fields(h) != 0 || read_framing(h) != 0 || read_connection(h) != 0)
		return 502;
	bodyless = h->status < 200 || h->status == 204 || h->status == 304;
	if (!to_head && !bodyless && h->framing == HTTP1_EMPTY) {
		h->framing = HTTP1_UNTIL_CLOSE;
		h->keep_alive = false;
	}
	return 0;
}
