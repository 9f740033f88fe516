/* Writes routes as JSON (doc/protocol.md, "Routes"); usual values are left out. */
#include <string.h>

#include "model/http_route.h"
#include "model/json.h"

/* Members are written with a leading comma; the bracket replaces the first one's. */
static void
route_build_open(struct buf *out, size_t at, char bracket)
{
	if (buf_len(out) == at)
		buf_add(out, &bracket, 1);
	else
		out->data[out->start + at] = bracket;
}

static void
route_build_text(struct buf *out, const char *name, const char *text)
{
	if (*text == '\0')
		return;
	buf_printf(out, ",\"%s\":", name);
	json_add_text(out, text);
}

static void
route_build_number(struct buf *out, const char *name, uint32_t value, uint32_t usual)
{
	if (value != usual)
		buf_printf(out, ",\"%s\":%u", name, value);
}

static void
route_build_true(struct buf *out, const char *name, bool value)
{
	if (value)
		buf_printf(out, ",\"%s\":true", name);
}

/* "name": and the bracket of a list; nothing for an empty one. */
static bool
route_build_list(struct buf *out, const char *name, size_t n)
{
	if (n > 0)
		buf_printf(out, ",\"%s\":[", name);
	return n > 0;
}

static void
route_build_pairs(struct buf *out, const char *name, const struct http_route_pair *pairs, size_t n)
{
	if (!route_build_list(out, name, n))
		return;
	for (size_t i = 0; i < n; i++) {
		buf_adds(out, i > 0 ? ",{\"name\":" : "{\"name\":");
		json_add_text(out, pairs[i].name);
		buf_adds(out, ",\"value\":");
		json_add_text(out, pairs[i].value);
		buf_adds(out, "}");
	}
	buf_adds(out, "]");
}

static void
route_build_edits(struct buf *out, const char *name, const struct http_header_edits *e)
{
	size_t at;

	if (e == NULL)
		return;
	buf_printf(out, ",\"%s\":", name);
	at = buf_len(out);
	route_build_pairs(out, "set", e->set, e->n_set);
	route_build_pairs(out, "add", e->add, e->n_add);
	if (route_build_list(out, "remove", e->n_remove)) {
		for (size_t i = 0; i < e->n_remove; i++) {
			if (i > 0)
				buf_adds(out, ",");
			json_add_text(out, e->remove[i]);
		}
		buf_adds(out, "]");
	}
	route_build_open(out, at, '{');
	buf_adds(out, "}");
}

static void
route_build_modifier(struct buf *out, const struct http_route_modifier *m)
{
	static const char *const names[] = {
		[HTTP_ROUTE_PATH_FULL] = "full", [HTTP_ROUTE_PATH_PREFIX] = "prefix"};

	route_build_text(out, "host", m->host);
	if (m->kind == HTTP_ROUTE_PATH_KEPT)
		return;
	buf_printf(out, ",\"%s\":", names[m->kind]);
	json_add_text(out, m->path);
}

static void
route_build_redirect(struct buf *out, const struct http_route_redirect *r)
{
	size_t at;

	buf_adds(out, ",\"redirect\":");
	at = buf_len(out);
	route_build_modifier(out, &r->to);
	route_build_text(out, "scheme", r->scheme);
	route_build_number(out, "port", r->port, 0);
	buf_printf(out, ",\"status\":%u", r->status);
	route_build_open(out, at, '{');
	buf_adds(out, "}");
}

static void
route_build_retry(struct buf *out, const struct http_route_retry *r)
{
	size_t at;

	buf_adds(out, ",\"retry\":");
	at = buf_len(out);
	if (route_build_list(out, "codes", r->n_codes)) {
		for (size_t i = 0; i < r->n_codes; i++)
			buf_printf(out, "%s%u", i > 0 ? "," : "", r->codes[i]);
		buf_adds(out, "]");
	}
	route_build_number(out, "attempts", r->attempts, 0);
	route_build_number(out, "backoffMs", r->backoff_ms, 0);
	route_build_open(out, at, '{');
	buf_adds(out, "}");
}

static void
route_build_session(struct buf *out, const struct http_route_session *s)
{
	size_t at;

	buf_adds(out, ",\"session\":");
	at = buf_len(out);
	route_build_true(out, "header", s->header);
	route_build_true(out, "permanent", s->permanent);
	route_build_text(out, "name", s->name);
	route_build_text(out, "path", s->path);
	route_build_number(out, "absoluteMs", s->absolute_ms, 0);
	route_build_number(out, "idleMs", s->idle_ms, 0);
	route_build_open(out, at, '{');
	buf_adds(out, "}");
}

static void
route_build_mirrors(struct buf *out, const struct http_route_rule *rule)
{
	if (!route_build_list(out, "mirrors", rule->n_mirrors))
		return;
	for (size_t i = 0; i < rule->n_mirrors; i++) {
		const struct http_route_mirror *m = &rule->mirrors[i];
		size_t at;

		if (i > 0)
			buf_adds(out, ",");
		at = buf_len(out);
		route_build_text(out, "ns", m->ns);
		route_build_text(out, "name", m->name);
		buf_printf(out, ",\"port\":%u,\"numerator\":%u,\"denominator\":%u}", m->port,
			m->numerator, m->denominator);
		route_build_open(out, at, '{');
	}
	buf_adds(out, "]");
}

static void
route_build_backends(struct buf *out, const struct http_route_rule *rule)
{
	if (!route_build_list(out, "backends", rule->n_backends))
		return;
	for (size_t i = 0; i < rule->n_backends; i++) {
		const struct http_route_backend *b = &rule->backends[i];
		size_t at;

		if (i > 0)
			buf_adds(out, ",");
		at = buf_len(out);
		route_build_text(out, "ns", b->ns);
		route_build_text(out, "name", b->name);
		route_build_number(out, "port", b->port, 0);
		route_build_true(out, "invalid", b->invalid);
		route_build_number(out, "weight", b->weight, 1);
		route_build_edits(out, "request", b->request);
		route_build_edits(out, "response", b->response);
		route_build_open(out, at, '{');
		buf_adds(out, "}");
	}
	buf_adds(out, "]");
}

void
http_route_build_rule(struct buf *out, const struct http_route_rule *rule)
{
	size_t at = buf_len(out);

	route_build_text(out, "route", rule->route);
	route_build_text(out, "name", rule->name);
	route_build_number(out, "index", rule->index, 0);
	route_build_number(out, "status", rule->status, 0);
	route_build_number(out, "prefixLen", rule->prefix_len, 0);
	route_build_number(out, "requestMs", rule->request_ms, HTTP_ROUTE_MS_DEFAULT);
	route_build_number(out, "backendMs", rule->backend_ms, HTTP_ROUTE_MS_DEFAULT);
	route_build_backends(out, rule);
	route_build_mirrors(out, rule);
	route_build_edits(out, "request", rule->request);
	route_build_edits(out, "response", rule->response);
	if (rule->rewrite != NULL) {
		size_t open;

		buf_adds(out, ",\"rewrite\":");
		open = buf_len(out);
		route_build_modifier(out, rule->rewrite);
		route_build_open(out, open, '{');
		buf_adds(out, "}");
	}
	if (rule->redirect != NULL)
		route_build_redirect(out, rule->redirect);
	if (rule->retry != NULL)
		route_build_retry(out, rule->retry);
	if (rule->session != NULL)
		route_build_session(out, rule->session);
	route_build_open(out, at, '{');
	buf_adds(out, "}");
}

/* --- tables --------------------------------------------------------------------------------- */

static void
route_build_conditions(
	struct buf *out, const char *name, const struct http_route_condition *list, size_t n)
{
	if (!route_build_list(out, name, n))
		return;
	for (size_t i = 0; i < n; i++) {
		buf_adds(out, i > 0 ? ",{\"name\":" : "{\"name\":");
		json_add_text(out, list[i].name);
		buf_adds(out, list[i].is_regex ? ",\"regex\":" : ",\"value\":");
		json_add_text(out, list[i].value);
		buf_adds(out, "}");
	}
	buf_adds(out, "]");
}

void
http_route_build_match(struct buf *out, const struct http_route_match *m)
{
	static const char *const kinds[] = {[HTTP_MATCH_EXACT] = "exact",
		[HTTP_MATCH_PREFIX] = "prefix",
		[HTTP_MATCH_REGEX] = "regex"};

	buf_printf(out, "{\"rule\":%u", m->rule);
	if (m->kind != HTTP_MATCH_ANY_PATH) {
		buf_printf(out, ",\"%s\":", kinds[m->kind]);
		json_add_text(out, m->path);
	}
	route_build_text(out, "method", m->method);
	route_build_conditions(out, "headers", m->headers, m->n_headers);
	route_build_conditions(out, "params", m->params, m->n_params);
	buf_adds(out, "}");
}

static void
route_build_table(struct buf *out, const struct http_route_table *t)
{
	size_t at = buf_len(out);

	route_build_text(out, "ns", t->ns);
	route_build_true(out, "grpc", t->grpc);
	buf_adds(out, ",\"ports\":[");
	for (size_t i = 0; i < t->n_ports; i++)
		buf_printf(out, "%s%u", i > 0 ? "," : "", t->ports[i]);
	buf_adds(out, "],\"matches\":[");
	for (size_t i = 0; i < t->n_matches; i++) {
		if (i > 0)
			buf_adds(out, ",");
		http_route_build_match(out, &t->matches[i]);
	}
	buf_adds(out, "]}");
	route_build_open(out, at, '{');
}

void
http_routes_build(struct buf *out, const struct http_routes *r)
{
	buf_adds(out, "{\"rules\":[");
	for (size_t i = 0; i < r->n_rules; i++) {
		if (i > 0)
			buf_adds(out, ",");
		http_route_build_rule(out, &r->rules[i]);
	}
	buf_adds(out, "],\"tables\":[");
	for (size_t i = 0; i < r->n_tables; i++) {
		if (i > 0)
			buf_adds(out, ",");
		route_build_table(out, &r->tables[i]);
	}
	buf_adds(out, "]}");
}
