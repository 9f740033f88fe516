/*
 * Does one match fit a request? Paths are compared as they came, byte by byte: an endpoint may mean
 * different things by "/a" and "/%61". Values of query parameters are decoded, since clients differ
 * in what they encode.
 */
#include <string.h>
#include <strings.h>

#include "model/http_route_private.h"

static bool
match_same_name(struct http1_str a, struct http1_str b)
{
	return a.len == b.len && strncasecmp(a.at, b.at, a.len) == 0;
}

static bool
match_same(struct http1_str a, const char *text, size_t len)
{
	return a.len == len && memcmp(a.at, text, len) == 0;
}

static bool
match_value(const struct http_route_condition *c, struct http1_str value,
	struct route_regex_scratch *scratch)
{
	if (c->is_regex)
		return route_regex_matches(c->regex, scratch, value.at, value.len);
	return match_same(value, c->value, c->value_len);
}

/* --- header fields -------------------------------------------------------------------------- */

/* Appends a member to the list; false: it is too long. */
static bool
match_join(char joined[ROUTE_VALUE_MAX], size_t *len, struct http1_str value)
{
	bool comma = *len > 0;

	if (value.len + comma > ROUTE_VALUE_MAX - *len)
		return false;
	if (comma)
		joined[(*len)++] = ',';
	memcpy(joined + *len, value.at, value.len);
	*len += value.len;
	return true;
}

struct http1_str
http_route_field(const struct http1_head *h, struct http1_str name, char joined[ROUTE_VALUE_MAX])
{
	struct http1_str found = {NULL, 0};
	size_t len = 0;

	/* The authority of absolute-form replaces Host (RFC 9112 section 3.2.2). */
	if (http1_is(name, "host"))
		return h->host;
	for (size_t i = 0; i < h->n_fields; i++) {
		const struct http1_field *f = &h->fields[i];

		if (!match_same_name(f->name, name))
			continue;
		if (found.at == NULL) {
			found = f->value;
			continue;
		}
		if ((len == 0 && !match_join(joined, &len, found)) ||
			!match_join(joined, &len, f->value))
			return (struct http1_str){NULL, 0};
	}
	return len > 0 ? (struct http1_str){joined, len} : found;
}

static bool
match_headers(const struct http_route_match *m, const struct http_route_query *q)
{
	char joined[ROUTE_VALUE_MAX];

	for (size_t i = 0; i < m->n_headers; i++) {
		const struct http_route_condition *c = &m->headers[i];
		struct http1_str value =
			http_route_field(q->head, (struct http1_str){c->name, c->name_len}, joined);

		if (value.at == NULL || !match_value(c, value, q->scratch))
			return false;
	}
	return true;
}

/* --- query parameters ----------------------------------------------------------------------- */

static int
match_hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes percent signs (RFC 3986 section 2.1); those that encode nothing stay. False: longer than
 * any value that is asked for. */
static bool
match_decode(struct http1_str from, char to[ROUTE_VALUE_MAX], struct http1_str *value)
{
	size_t n = 0;

	if (memchr(from.at, '%', from.len) == NULL) {
		*value = from;
		return true;
	}
	for (size_t i = 0; i < from.len; i++) {
		bool coded = from.at[i] == '%' && from.len - i > 2 &&
			match_hex(from.at[i + 1]) >= 0 && match_hex(from.at[i + 2]) >= 0;

		if (n == ROUTE_VALUE_MAX)
			return false;
		to[n++] = coded ? (char)(match_hex(from.at[i + 1]) << 4 | match_hex(from.at[i + 2]))
				: from.at[i];
		i += coded ? 2 : 0;
	}
	*value = (struct http1_str){to, n};
	return true;
}

/* Takes the next "name=value" off the query; false at its end. */
static bool
match_next_param(struct http1_str *query, struct http1_str *name, struct http1_str *value)
{
	const char *end, *equals;
	size_t len;

	if (query->len == 0)
		return false;
	end = memchr(query->at, '&', query->len);
	len = end != NULL ? (size_t)(end - query->at) : query->len;
	equals = memchr(query->at, '=', len);
	name->at = query->at;
	name->len = equals != NULL ? (size_t)(equals - query->at) : len;
	value->at = equals != NULL ? equals + 1 : query->at + len;
	value->len = (size_t)(query->at + len - value->at);
	query->at += MIN(len + 1, query->len);
	query->len -= MIN(len + 1, query->len);
	return true;
}

/* Of several parameters of one name the first counts, as the API recommends. */
static bool
match_param(const struct http_route_condition *c, const struct http_route_query *q)
{
	char decoded[ROUTE_VALUE_MAX];
	struct http1_str rest = q->query, name, value, plain;

	while (match_next_param(&rest, &name, &value)) {
		if (!match_decode(name, decoded, &plain) ||
			!match_same(plain, c->name, c->name_len))
			continue;
		return match_decode(value, decoded, &plain) && match_value(c, plain, q->scratch);
	}
	return false;
}

static bool
match_params(const struct http_route_match *m, const struct http_route_query *q)
{
	for (size_t i = 0; i < m->n_params; i++)
		if (!match_param(&m->params[i], q))
			return false;
	return true;
}

/* --- the whole ------------------------------------------------------------------------------ */

static bool
match_path(const struct http_route_match *m, const struct http_route_query *q)
{
	switch ((enum http_match_path)m->kind) {
	case HTTP_MATCH_ANY_PATH:
		return true;
	case HTTP_MATCH_EXACT:
		return match_same(q->path, m->path, m->path_len);
	case HTTP_MATCH_PREFIX:
		return q->path.len >= m->path_len &&
			memcmp(q->path.at, m->path, m->path_len) == 0 &&
			(q->path.len > m->path_len ? q->path.at[m->path_len] == '/'
						   : m->path_len > 0);
	case HTTP_MATCH_REGEX:
		return route_regex_matches(m->regex, q->scratch, q->path.at, q->path.len);
	}
	return false;
}

bool
http_route_fits(const struct http_route_match *m, const struct http_route_query *q)
{
	if (*m->method != '\0' && !match_same(q->head->method, m->method, strlen(m->method)))
		return false;
	/* An expression costs most, so it comes last. */
	if (m->kind != HTTP_MATCH_REGEX && !match_path(m, q))
		return false;
	return (m->n_headers == 0 || match_headers(m, q)) &&
		(m->n_params == 0 || match_params(m, q)) &&
		(m->kind != HTTP_MATCH_REGEX || match_path(m, q));
}
