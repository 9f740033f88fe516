/* Messages of HTTP/2 in the terms of HTTP/1, and back: what a proxy does with a message does not
 * depend on which HTTP carries it. nghttp2 has checked RFC 9113 section 8 before: the order of
 * pseudo-header fields, that those which must be there are, no connection-specific fields, names in
 * lower case. */
#include "base/http/h2.h"

#include <string.h>

#include "base/http/http1_private.h"

bool
h2_section_next(const struct h2_section *section, size_t *at, struct h2_field *field)
{
	const char *text = buf_at(&section->text);
	uint32_t lens[2];

	if (*at >= buf_len(&section->text))
		return false;
	memcpy(lens, text + *at, sizeof lens);
	*at += sizeof lens;
	field->name = (struct http1_str){text + *at, lens[0]};
	field->value = (struct http1_str){text + *at + lens[0] + 1, lens[1]};
	field->secret = section->secret;
	*at += (size_t)lens[0] + lens[1] + 2;
	return true;
}

static bool
h2_head_is(struct http1_str s, const char *text)
{
	return s.len == strlen(text) && memcmp(s.at, text, s.len) == 0;
}

/* The pseudo-header fields that a message may have; NULL: of no use here. */
static struct http1_str *
h2_head_pseudo(struct http1_head *h, struct http1_str name, struct http1_str *protocol)
{
	if (h2_head_is(name, ":method"))
		return &h->method;
	if (h2_head_is(name, ":path"))
		return &h->target;
	if (h2_head_is(name, ":authority"))
		return &h->host;
	if (h2_head_is(name, ":protocol"))
		return protocol;
	return h2_head_is(name, ":status") ? &h->reason : NULL;
}

static int
h2_head_take(struct http1_head *h, const struct h2_section *section, struct http1_str *protocol)
{
	struct h2_field f;
	size_t at = 0;

	memset(h, 0, offsetof(struct http1_head, fields));
	h->minor = 1;
	h->keep_alive = true;
	if (section->too_large)
		return http1_refuse(h, 431, "the head is too large");
	while (h2_section_next(section, &at, &f)) {
		struct http1_str *pseudo;

		if (f.name.len == 0 || f.name.at[0] != ':') {
			if (h->n_fields == HTTP1_FIELDS_MAX)
				return http1_refuse(h, 431, "too many fields");
			h->fields[h->n_fields++] =
				(struct http1_field){.name = f.name, .value = http1_trim(f.value)};
		} else if ((pseudo = h2_head_pseudo(h, f.name, protocol)) != NULL) {
			*pseudo = f.value;
		}
	}
	return http1_check_fields(h);
}

/* Section 8.3.1: Host and :authority must not name different hosts. */
static int
h2_head_host(struct http1_head *h)
{
	struct http1_str authority = h->host;
	int rc;

	h->minor = authority.len > 0 ? 0 : 1; /* one of both is enough */
	rc = http1_read_host(h);
	h->minor = 1;
	if (rc != 0)
		return rc;
	for (size_t i = 0; i < h->n_fields && authority.len > 0; i++)
		if (h->fields[i].id == HTTP1_HOST &&
			(h->fields[i].value.len != authority.len ||
				strncasecmp(h->fields[i].value.at, authority.at, authority.len) !=
					0))
			return http1_refuse(h, 400, "Host is not :authority");
	return http1_valid_host(h->host) ? 0 : http1_refuse(h, 400, ":authority is not a host");
}

/* Extended CONNECT (RFC 8441) asks for another protocol, as Upgrade does in HTTP/1. */
static int
h2_head_protocol(struct http1_head *h, struct http1_str protocol)
{
	if (!http1_valid_token(protocol) || h->n_fields == HTTP1_FIELDS_MAX)
		return http1_refuse(h, 400, "malformed :protocol");
	h->fields[h->n_fields++] = (struct http1_field){
		.name = {"upgrade", 7}, .value = protocol, .id = HTTP1_UPGRADE, .hop = true};
	h->ids |= 1u << HTTP1_UPGRADE;
	h->upgrade = true;
	return 0;
}

int
h2_head_request(struct http1_head *h, const struct h2_section *section, bool last)
{
	struct http1_str protocol = {NULL, 0};
	int rc = h2_head_take(h, section, &protocol);
	const struct http1_field *te;

	if (rc != 0)
		return rc;
	if (!http1_valid_token(h->method) || h->method.len > HTTP1_METHOD_MAX)
		return http1_refuse(h, 400, "malformed method");
	if (h2_head_is(h->method, "CONNECT") && protocol.len == 0)
		return http1_refuse(h, 405, "CONNECT is not served here");
	if (h->target.len > HTTP1_TARGET_MAX)
		return http1_refuse(h, 414, "the target is too long");
	if (h->target.len == 0 || (h->target.at[0] != '/' && h->target.at[0] != '*'))
		return http1_refuse(h, 400, "malformed :path");
	if ((rc = http1_read_target(h)) != 0 || (rc = h2_head_host(h)) != 0 ||
		(rc = http1_read_framing(h)) != 0)
		return rc;
	if (!h->has_length)
		h->framing = last ? HTTP1_EMPTY : HTTP1_CHUNKED;
	http1_classify_method(h);
	te = http1_find(h, HTTP1_TE);
	h->takes_trailers = te != NULL && http1_is(te->value, "trailers");
	return protocol.len > 0 ? h2_head_protocol(h, protocol) : 0;
}

int
h2_head_response(struct http1_head *h, const struct h2_section *section, bool last)
{
	struct http1_str protocol = {NULL, 0};

	if (h2_head_take(h, section, &protocol) != 0 || h->reason.len != 3) {
		h->why = section->too_large ? "the endpoint's head is too large"
					    : "the endpoint's answer is not HTTP";
		return 502;
	}
	for (int i = 0; i < 3; i++)
		h->status = (uint16_t)(h->status * 10 + h->reason.at[i] - '0');
	h->reason = (struct http1_str){NULL, 0};
	h->framing = last ? HTTP1_EMPTY : HTTP1_CHUNKED;
	return h->status >= 100 && h->status <= 599
		? 0
		: http1_refuse(h, 502, "the endpoint's answer is not HTTP");
}

/* --- to send -------------------------------------------------------------------------------- */

static void
h2_fields_put(struct h2_fields *to, struct http1_str name, struct http1_str value, bool secret)
{
	if (to->n < H2_FIELDS_MAX)
		to->list[to->n++] = (struct h2_field){name, value, secret};
}

void
h2_fields_add(struct h2_fields *to, const char *name, const char *value)
{
	h2_fields_put(to, (struct http1_str){name, strlen(name)},
		(struct http1_str){value, strlen(value)}, false);
}

/* The next line without its end. */
static bool
h2_line(struct http1_str *text, struct http1_str *line)
{
	const char *cr = memchr(text->at, '\r', text->len);

	if (cr == NULL || cr == text->at || (size_t)(cr - text->at) + 2 > text->len)
		return false;
	*line = (struct http1_str){text->at, (size_t)(cr - text->at)};
	text->at = cr + 2;
	text->len -= line->len + 2;
	return true;
}

/* "METHOD target HTTP/1.1" */
static int
h2_request_line(struct h2_fields *to, struct http1_str line)
{
	const char *sp = memchr(line.at, ' ', line.len);
	size_t version = sizeof " HTTP/1.1" - 1, method;

	if (sp == NULL || line.len < version + (size_t)(sp - line.at) + 1)
		return -1;
	method = (size_t)(sp - line.at);
	h2_fields_put(
		to, (struct http1_str){":method", 7}, (struct http1_str){line.at, method}, false);
	h2_fields_add(to, ":scheme", "http");
	h2_fields_put(to, (struct http1_str){":path", 5},
		(struct http1_str){sp + 1, line.len - method - 1 - version}, false);
	return 0;
}

static bool
h2_split(struct http1_str line, struct h2_field *f)
{
	char *colon = memchr(line.at, ':', line.len);

	if (colon == NULL || (size_t)(colon - line.at) + 2 > line.len)
		return false;
	for (char *c = (char *)(uintptr_t)line.at; c < colon; c++)
		*c = (char)(*c >= 'A' && *c <= 'Z' ? *c | 0x20 : *c);
	f->name = (struct http1_str){line.at, (size_t)(colon - line.at)};
	f->value = (struct http1_str){colon + 2, line.len - f->name.len - 2};
	return true;
}

/* Those of HTTP/1 that HTTP/2 has otherwise. */
static void
h2_request_field(struct h2_fields *to, struct h2_field *f)
{
	if (h2_head_is(f->name, "host"))
		f->name = (struct http1_str){":authority", 10};
	else if (h2_head_is(f->name, "upgrade"))
		f->name = (struct http1_str){":protocol", 9};
	else if (h2_head_is(f->name, "connection") || h2_head_is(f->name, "transfer-encoding"))
		return;
	/* Each request has others: they would push all else out of the table. */
	f->secret |= h2_head_is(f->name, "x-request-id") || h2_head_is(f->name, "traceparent");
	h2_fields_put(to, f->name, f->value, f->secret);
}

/* Pseudo-header fields come first (section 8.3): ":protocol" stands last in the text. */
static void
h2_pseudo_first(struct h2_fields *to)
{
	struct h2_field last = to->list[to->n - 1];

	if (to->n < 2 || last.name.at[0] != ':' || last.name.len != 9)
		return;
	memmove(to->list + 1, to->list, (to->n - 1) * sizeof last);
	to->list[0] = last;
}

int
h2_fields_request(struct h2_fields *to, char *head, size_t len, bool secret)
{
	struct http1_str text = {head, len}, line;
	struct h2_field f;

	to->n = 0;
	if (!h2_line(&text, &line) || h2_request_line(to, line) < 0)
		return -1;
	while (h2_line(&text, &line)) {
		f.secret = secret;
		if (!h2_split(line, &f))
			return -1;
		h2_request_field(to, &f);
		h2_pseudo_first(to);
	}
	return 0;
}

void
h2_fields_response(struct h2_fields *to, const struct http1_head *h, char status[4])
{
	status[0] = (char)('0' + h->status / 100);
	status[1] = (char)('0' + h->status / 10 % 10);
	status[2] = (char)('0' + h->status % 10);
	status[3] = '\0';
	to->n = 0;
	h2_fields_add(to, ":status", status);
	for (size_t i = 0; i < h->n_fields; i++)
		h2_fields_put(to, h->fields[i].name, h->fields[i].value, false);
}

void
h2_section_keep(struct h2_section *to, const struct h2_section *section)
{
	struct h2_field f;
	size_t at = 0, from = 0;

	buf_init(&to->text, BUF_UNLIMITED);
	to->secret = section->secret;
	for (; h2_section_next(section, &at, &f); from = at)
		if (http1_trailer_may_stand(f.name)) {
			buf_add(&to->text, buf_at(&section->text) + from, at - from);
			to->n++;
		}
}

void
h2_fields_trailers(struct h2_fields *to, const struct h2_section *section)
{
	struct h2_field f;
	size_t at = 0;

	to->n = 0;
	while (h2_section_next(section, &at, &f))
		h2_fields_put(to, f.name, f.value, f.secret);
}

bool
h2_is_settings(const char *data, size_t len)
{
	static const char type_flags_stream[] = {4, 0, 0, 0, 0, 0};

	return len >= 9 && data[0] == 0 && data[1] == 0 &&
		memcmp(data + 3, type_flags_stream, sizeof type_flags_stream) == 0;
}
