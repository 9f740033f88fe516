#include "base/http/http1_private.h"

#include <string.h>
#include <strings.h>

#include "base/core/hops.h"

enum { CONNECTION_OPTIONS = 100 }; /* each costs one pass over the fields */

struct http1_str
http1_trim(struct http1_str s)
{
	while (s.len > 0 && (s.at[0] == ' ' || s.at[0] == '\t')) {
		s.at++;
		s.len--;
	}
	while (s.len > 0 && (s.at[s.len - 1] == ' ' || s.at[s.len - 1] == '\t'))
		s.len--;
	return s;
}

bool
http1_is(struct http1_str s, const char *lowercase)
{
	return strlen(lowercase) == s.len && strncasecmp(s.at, lowercase, s.len) == 0;
}

const struct http1_field *
http1_find(const struct http1_head *h, enum http1_name id)
{
	for (size_t i = 0; i < h->n_fields && h->ids >> id & 1; i++) {
		if (h->fields[i].id == id)
			return &h->fields[i];
	}
	return NULL;
}

enum http1_name
http1_name_of(struct http1_str n)
{
	static const struct {
		const char *name;
		uint8_t len;
		enum http1_name id;
	} known[] = {
		{"te", 2, HTTP1_TE},
		{"via", 3, HTTP1_VIA},
		{"host", 4, HTTP1_HOST},
		{"close", 5, HTTP1_CLOSE},
		{"expect", 6, HTTP1_EXPECT},
		{"upgrade", 7, HTTP1_UPGRADE},
		{"trailer", 7, HTTP1_TRAILER},
		{"cdn-loop", 8, HTTP1_CDN_LOOP},
		{"connection", 10, HTTP1_CONNECTION},
		{"keep-alive", 10, HTTP1_KEEP_ALIVE},
		{"tracestate", 10, HTTP1_TRACESTATE},
		{"traceparent", 11, HTTP1_TRACEPARENT},
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

int
http1_check_fields(struct http1_head *h)
{
	for (size_t i = 0; i < h->n_fields; i++) {
		struct http1_field *f = &h->fields[i];

		if (!http1_valid_token(f->name))
			return http1_refuse(h, 400, "a field name is not a token");
		if (!http1_valid_value(f->value))
			return http1_refuse(h, 400, "a field value holds a control character");
		f->id = (uint8_t)http1_name_of(f->name);
		h->ids |= 1u << f->id;
		f->hop = f->id == HTTP1_CONNECTION || f->id == HTTP1_CLOSE ||
			f->id == HTTP1_KEEP_ALIVE || f->id == HTTP1_PROXY_CONNECTION ||
			f->id == HTTP1_TE || f->id == HTTP1_UPGRADE || f->id == HTTP1_TRAILER ||
			f->id == HTTP1_HTTP2_SETTINGS;
	}
	return 0;
}

/* RFC 9110 section 7.6.1: fields that Connection names are not forwarded, except those for framing,
 * routing and tracing the path. */
static void
mark_hop(struct http1_head *h, struct http1_str option)
{
	for (size_t i = 0; i < h->n_fields; i++) {
		struct http1_field *f = &h->fields[i];

		if (f->hop || f->name.len != option.len ||
			strncasecmp(f->name.at, option.at, option.len) != 0)
			continue;
		f->hop = f->id == HTTP1_OTHER || f->id == HTTP1_EXPECT ||
			f->id == HTTP1_TRACEPARENT || f->id == HTTP1_TRACESTATE;
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
	*item = http1_trim(*item);
	return true;
}

/* RFC 8586 section 2: cdn-id, then parameters after semicolons, which are ignored. A comma in a
 * quoted parameter splits here too, which can only raise the count. */
unsigned
http1_passes(const struct http1_head *h)
{
	unsigned n = 0;

	for (size_t i = 0; i < h->n_fields && h->ids >> HTTP1_CDN_LOOP & 1; i++) {
		struct http1_str list = h->fields[i].value, item;

		if (h->fields[i].id != HTTP1_CDN_LOOP)
			continue;
		while (next_item(&list, &item)) {
			const char *end = memchr(item.at, ';', item.len);

			if (end != NULL)
				item.len = (size_t)(end - item.at);
			n += http1_is(http1_trim(item), HOPS_CDN_ID);
		}
	}
	return n;
}

/* Does a member of Upgrade name HTTP/2? RFC 9113 section 3.1 has dropped that way to it; requests
 * in such a connection would pass unseen. */
bool
http1_asks_http2(const struct http1_head *h)
{
	for (size_t i = 0; i < h->n_fields && h->ids >> HTTP1_UPGRADE & 1; i++) {
		struct http1_str list = h->fields[i].value, item;

		if (h->fields[i].id != HTTP1_UPGRADE)
			continue;
		while (next_item(&list, &item))
			if (item.len >= 3 && strncasecmp(item.at, "h2c", 3) == 0)
				return true;
	}
	return false;
}

/* An Upgrade without a protocol counts as absent. */
bool
http1_names_protocol(const struct http1_head *h)
{
	for (size_t i = 0; i < h->n_fields && h->ids >> HTTP1_UPGRADE & 1; i++) {
		if (h->fields[i].id == HTTP1_UPGRADE && h->fields[i].value.len > 0)
			return true;
	}
	return false;
}

/* A Connection option that may name a field besides those that are never forwarded anyway. */
static bool
is_other(struct http1_str option)
{
	return option.len > 0 && !http1_is(option, "close") && !http1_is(option, "keep-alive") &&
		!http1_is(option, "upgrade") && !http1_is(option, "te");
}

int
http1_read_connection(struct http1_head *h)
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
				return http1_refuse(h, 400, "too many options in Connection");
			close |= http1_is(item, "close");
			keep |= http1_is(item, "keep-alive");
			upgrade |= http1_is(item, "upgrade");
			te |= http1_is(item, "te");
			h->names_fields |= is_other(item);
			mark_hop(h, item);
		}
	}
	h->keep_alive = !close && (h->minor == 1 || keep);
	h->upgrade = upgrade && h->minor == 1 && http1_names_protocol(h);
	h->takes_trailers =
		te && h->minor == 1 && codings != NULL && http1_is(codings->value, "trailers");
	return 0;
}

static int
read_length(struct http1_head *h, struct http1_str v)
{
	uint64_t n = 0;

	if (h->has_length)
		return http1_refuse(h, 400, "more than one Content-Length");
	if (v.len == 0 || v.len > 19)
		return http1_refuse(h, 400, "Content-Length is not a number");
	for (size_t i = 0; i < v.len; i++) {
		if (v.at[i] < '0' || v.at[i] > '9')
			return http1_refuse(h, 400, "Content-Length is not a number");
		n = n * 10 + (uint64_t)(v.at[i] - '0'); /* 19 digits fit */
	}
	/* The length must not overflow in peers that use signed 64-bit numbers. */
	if (n > INT64_MAX)
		return http1_refuse(h, 400, "Content-Length is too large");
	h->has_length = true;
	h->length = n;
	return 0;
}

/* RFC 9112 section 6: one Content-Length, or one Transfer-Encoding that is "chunked", in HTTP/1.1,
 * never both. */
int
http1_read_framing(struct http1_head *h)
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
			return http1_refuse(h, 400, "more than one Transfer-Encoding");
		if (!http1_is(f->value, "chunked"))
			return http1_refuse(h, 501, "Transfer-Encoding is not \"chunked\"");
		chunked = true;
	}
	if (chunked && h->has_length)
		return http1_refuse(h, 400, "both Content-Length and Transfer-Encoding");
	if (chunked && h->minor == 0)
		return http1_refuse(h, 400, "Transfer-Encoding in HTTP/1.0");
	h->framing = chunked ? HTTP1_CHUNKED : h->has_length ? HTTP1_LENGTH : HTTP1_EMPTY;
	return 0;
}

int
http1_read_host(struct http1_head *h)
{
	const struct http1_field *host = NULL;

	for (size_t i = 0; i < h->n_fields; i++) {
		if (h->fields[i].id != HTTP1_HOST)
			continue;
		if (host != NULL)
			return http1_refuse(h, 400, "more than one Host");
		host = &h->fields[i];
	}
	if (host == NULL && h->minor == 1)
		return http1_refuse(h, 400, "no Host");
	if (host != NULL && !http1_valid_host(host->value))
		return http1_refuse(h, 400, "Host is not a host");
	if (h->host.len == 0 && host != NULL) /* absolute-form wins, RFC 9112 section 3.2.2 */
		h->host = host->value;
	return 0;
}
