/*
 * What a rule does to a request: the backend it goes to, its path, its header fields, or where the
 * client is sent instead.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "model/http_route.h"

/* An even draw from 0 to n - 1. */
static uint32_t
route_scale(uint32_t drawn, uint32_t n)
{
	return (uint32_t)((uint64_t)drawn * n >> 32);
}

const struct http_route_backend *
http_route_pick(const struct http_route_rule *rule, uint32_t drawn)
{
	uint32_t point = route_scale(drawn, rule->weight);

	for (size_t i = 0; i < rule->n_backends && rule->weight > 0; i++) {
		const struct http_route_backend *b = &rule->backends[i];

		if (point < b->weight)
			return b;
		point -= b->weight;
	}
	return NULL;
}

bool
http_route_mirrors(const struct http_route_mirror *m, uint32_t drawn)
{
	return route_scale(drawn, m->denominator) < m->numerator;
}

bool
http_route_retries(const struct http_route_retry *r, unsigned status)
{
	for (size_t i = 0; i < r->n_codes; i++)
		if (r->codes[i] == status)
			return true;
	return false;
}

/* --- targets -------------------------------------------------------------------------------- */

/* Appends while there is room; `full` once there is none. */
struct route_writer {
	char *at, *end;
	bool full;
};

static void
filter_put(struct route_writer *w, const char *data, size_t len)
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
filter_put_text(struct route_writer *w, const char *text)
{
	filter_put(w, text, strlen(text));
}

static ssize_t
filter_written(const struct route_writer *w, const char *from)
{
	return w->full ? -ENOBUFS : w->at - from;
}

/* What is left of the path begins with "/" or is empty, since prefixes end with an element. */
static void
filter_put_prefix(struct route_writer *w, const struct http_route_rule *rule, const char *prefix,
	struct http1_str path)
{
	size_t skip = MIN((size_t)rule->prefix_len, path.len), len = strlen(prefix);

	len -= len > 0 && prefix[len - 1] == '/';
	filter_put(w, prefix, len);
	if (len == 0 && skip == path.len)
		filter_put_text(w, "/");
	else
		filter_put(w, path.at + skip, path.len - skip);
}

static void
filter_put_path(struct route_writer *w, const struct http_route_rule *rule,
	const struct http_route_modifier *to, const struct http_route_target *t)
{
	switch (to != NULL ? (enum http_route_path)to->kind : HTTP_ROUTE_PATH_KEPT) {
	case HTTP_ROUTE_PATH_KEPT:
		filter_put(w, t->path.at, t->path.len);
		break;
	case HTTP_ROUTE_PATH_FULL:
		filter_put_text(w, to->path);
		break;
	case HTTP_ROUTE_PATH_PREFIX:
		filter_put_prefix(w, rule, to->path, t->path);
		break;
	}
	if (t->query.at == NULL)
		return;
	filter_put_text(w, "?");
	filter_put(w, t->query.at, t->query.len);
}

ssize_t
http_route_rewrite(const struct http_route_rule *rule, const struct http_route_target *t, char *to,
	size_t size)
{
	struct route_writer w = {.at = to, .end = to + size};

	filter_put_path(&w, rule, rule->rewrite, t);
	return filter_written(&w, to);
}

/* The port is named unless it is the scheme's own. One that is not said is the scheme's where the
 * filter names a scheme, else that of the service. */
static void
filter_put_port(struct route_writer *w, const struct http_route_redirect *r, const char *scheme,
	uint16_t port)
{
	uint16_t usual = strcmp(scheme, "https") == 0 ? 443 : 80;
	char text[8];

	if (r->port != 0)
		port = r->port;
	else if (*r->scheme != '\0')
		port = usual;
	if (port == usual)
		return;
	snprintf(text, sizeof text, ":%u", port);
	filter_put_text(w, text);
}

ssize_t
http_route_location(const struct http_route_rule *rule, const struct http_route_target *t, char *to,
	size_t size)
{
	const struct http_route_redirect *r = rule->redirect;
	const char *scheme = *r->scheme != '\0' ? r->scheme : t->scheme;
	struct route_writer w = {.at = to, .end = to + size};

	filter_put_text(&w, scheme);
	filter_put_text(&w, "://");
	if (*r->to.host != '\0')
		filter_put_text(&w, r->to.host);
	else
		filter_put(&w, t->host.at, t->host.len);
	filter_put_port(&w, r, scheme, t->port);
	if (t->path.len > 0 &&
		t->path.at[0] == '/') /* "*" of OPTIONS is no path (RFC 9112 section 3.2.4) */
		filter_put_path(&w, rule, &r->to, t);
	return filter_written(&w, to);
}

/* --- header fields -------------------------------------------------------------------------- */

bool
http_route_may_edit(const char *name)
{
	switch (http1_name_of((struct http1_str){name, strlen(name)})) {
	case HTTP1_OTHER:
	case HTTP1_TRACEPARENT:
	case HTTP1_TRACESTATE:
	case HTTP1_X_FORWARDED_FOR:
	case HTTP1_X_REQUEST_ID:
		return true;
	case HTTP1_CDN_LOOP:
	case HTTP1_CLOSE:
	case HTTP1_CONNECTION:
	case HTTP1_CONTENT_LENGTH:
	case HTTP1_EXPECT:
	case HTTP1_HOST:
	case HTTP1_HTTP2_SETTINGS:
	case HTTP1_KEEP_ALIVE:
	case HTTP1_PROXY_CONNECTION:
	case HTTP1_TE:
	case HTTP1_TRAILER:
	case HTTP1_TRANSFER_ENCODING:
	case HTTP1_UPGRADE:
	case HTTP1_VIA:
		break;
	}
	return false;
}

/* Removes all fields of the name but those before `from`. */
static void
edit_remove(struct http1_head *h, struct http1_str name, size_t from)
{
	size_t n = from;

	for (size_t i = from; i < h->n_fields; i++) {
		struct http1_str own = h->fields[i].name;

		if (own.len != name.len || strncasecmp(own.at, name.at, name.len) != 0)
			h->fields[n++] = h->fields[i];
	}
	h->n_fields = n;
}

static size_t
edit_find(const struct http1_head *h, struct http1_str name)
{
	size_t i = 0;

	for (; i < h->n_fields; i++)
		if (h->fields[i].name.len == name.len &&
			strncasecmp(h->fields[i].name.at, name.at, name.len) == 0)
			break;
	return i;
}

/* Puts the field at this place of the list, which may be its end. */
static int
edit_put(struct http1_head *h, size_t at, const struct http_route_pair *p)
{
	struct http1_field f = {
		.name = {p->name, strlen(p->name)}, .value = {p->value, strlen(p->value)}};

	if (at == HTTP1_FIELDS_MAX)
		return -E2BIG;
	f.id = (uint8_t)http1_name_of(f.name);
	h->ids |= 1u << f.id;
	h->fields[at] = f;
	h->n_fields = MAX(h->n_fields, at + 1);
	return 0;
}

int
http_route_edit(const struct http_header_edits *edits, struct http1_head *h)
{
	int rc = 0;

	for (size_t i = 0; i < edits->n_set && rc == 0; i++) {
		struct http1_str name = {edits->set[i].name, strlen(edits->set[i].name)};
		size_t at = edit_find(h, name);

		if (at < h->n_fields)
			edit_remove(h, name, at + 1);
		rc = edit_put(h, at, &edits->set[i]);
	}
	for (size_t i = 0; i < edits->n_add && rc == 0; i++)
		rc = edit_put(h, h->n_fields, &edits->add[i]);
	for (size_t i = 0; i < edits->n_remove; i++)
		edit_remove(h, (struct http1_str){edits->remove[i], strlen(edits->remove[i])}, 0);
	return rc;
}
