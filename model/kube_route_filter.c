/*
 * Filters, timeouts, retries and sessions of a route's rule. What is not known or not supported
 * must not be skipped: its rule answers 500.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/core/hash.h"
#include "model/check.h"
#include "model/kube_route_private.h"
#include "model/mesh.h"

/* --- header fields -------------------------------------------------------------------------- */

static bool
filter_is_editable(const char *text, size_t len)
{
	return route_parse_name(text, len) && http_route_may_edit(text);
}

/* Of several members of one name the first counts, as the API says. */
static uint8_t
filter_read_pairs(struct route_reading *g, const struct tree_node *edits, const char *key,
	const struct http_route_pair **to)
{
	const struct tree_node *list = route_list(g, edits, key, ROUTE_EDITS_MAX);
	struct http_route_pair *p = http_routes_alloc(g->parts, kube_count(list) + 1, sizeof *p);
	uint8_t n = 0;

	*to = p;
	tree_each(list, item) {
		const char *name = route_text(g, item, "name", "", filter_is_editable);
		size_t i = 0;

		while (i < n && strcasecmp(p[i].name, name) != 0)
			i++;
		if (i < n || *name == '\0')
			continue;
		p[n].name = name;
		p[n].value = route_text(g, item, "value", "", route_parse_value);
		if (*p[n++].value == '\0')
			route_fault(g, item, KUBE_ROUTE_UNSUPPORTED, "%s: '%.60s' has no value",
				key, name);
	}
	return n;
}

static const struct http_header_edits *
filter_read_edits(struct route_reading *g, const struct tree_node *edits)
{
	struct http_header_edits *e = http_routes_alloc(g->parts, 1, sizeof *e);
	const struct tree_node *removed = route_list(g, edits, "remove", ROUTE_EDITS_MAX);
	const char **names =
		http_routes_alloc(g->parts, kube_count(removed) + 1, sizeof(const char *));

	e->n_set = filter_read_pairs(g, edits, "set", &e->set);
	e->n_add = filter_read_pairs(g, edits, "add", &e->add);
	e->remove = names;
	tree_each(removed, n) {
		const char *name = tree_text(n, "");

		if (filter_is_editable(name, strlen(name)))
			names[e->n_remove++] = http_routes_text(g->parts, name);
		else
			route_fault(g, n, KUBE_ROUTE_UNSUPPORTED,
				"remove: '%.60s' is not allowed here", name);
	}
	return e;
}

/* --- paths and redirects -------------------------------------------------------------------- */

/* The empty text replaces a prefix by nothing. */
static bool
filter_is_path(const char *text, size_t len)
{
	return len == 0 || route_parse_path(text, len);
}

static void
filter_need_prefix(struct route_reading *g, const struct tree_node *at)
{
	if (g->rule->n_matches == 1 && g->rule->matches[0].kind == HTTP_MATCH_PREFIX)
		g->rule->rule.prefix_len = g->rule->matches[0].path_len;
	else
		route_fault(g, at, KUBE_ROUTE_UNSUPPORTED,
			"ReplacePrefixMatch needs a rule with exactly one match, a PathPrefix");
}

static void
filter_read_modifier(
	struct route_reading *g, const struct tree_node *filter, struct http_route_modifier *m)
{
	const struct tree_node *path = tree_get(filter, "path");
	const char *type = tree_text(tree_get(path, "type"), "");

	m->host = route_text(g, filter, "hostname", "", check_subdomain);
	m->path = "";
	if (tree_is_null(path))
		return;
	if (strcmp(type, "ReplaceFullPath") == 0) {
		m->kind = HTTP_ROUTE_PATH_FULL;
		m->path = route_text(g, path, "replaceFullPath", "/", filter_is_path);
		if (*m->path == '\0')
			m->path = "/";
	} else if (strcmp(type, "ReplacePrefixMatch") == 0) {
		m->kind = HTTP_ROUTE_PATH_PREFIX;
		m->path = route_text(g, path, "replacePrefixMatch", "", filter_is_path);
		filter_need_prefix(g, path);
	} else {
		route_fault(g, path, KUBE_ROUTE_UNSUPPORTED, "path type '%.40s' is not supported",
			type);
	}
}

static bool
filter_is_scheme(const char *text, size_t len)
{
	return (len == 4 && memcmp(text, "http", 4) == 0) ||
		(len == 5 && memcmp(text, "https", 5) == 0);
}

static void
filter_read_redirect(struct route_reading *g, const struct tree_node *filter)
{
	struct http_route_redirect *r = http_routes_alloc(g->parts, 1, sizeof *r);

	filter_read_modifier(g, filter, &r->to);
	r->scheme = route_text(g, filter, "scheme", "", filter_is_scheme);
	r->port = (uint16_t)route_number(g, filter, "port", UINT16_MAX, 0);
	r->status = (uint16_t)route_number(g, filter, "statusCode", 308, 302);
	if (r->status < 301 || (r->status > 303 && r->status < 307))
		route_fault(g, filter, KUBE_ROUTE_UNSUPPORTED,
			"statusCode: 301, 302, 303, 307 or 308 expected");
	g->rule->rule.redirect = r;
}

static void
filter_read_rewrite(struct route_reading *g, const struct tree_node *filter)
{
	struct http_route_modifier *m = http_routes_alloc(g->parts, 1, sizeof *m);

	filter_read_modifier(g, filter, m);
	g->rule->rule.rewrite = m;
}

/* --- mirrors -------------------------------------------------------------------------------- */

static void
filter_read_mirror(
	struct route_reading *g, const struct tree_node *filter, struct http_route_mirror *m)
{
	const struct tree_node *fraction = tree_get(filter, "fraction");
	struct route_ref ref = route_read_ref(g, tree_get(filter, "backendRef"));

	*m = (struct http_route_mirror){.ns = ref.ns, .name = ref.name, .port = ref.port};
	m->numerator = m->denominator = 1;
	if (!tree_is_null(tree_get(filter, "percent"))) {
		m->numerator = route_number(g, filter, "percent", 100, 100);
		m->denominator = 100;
	} else if (!tree_is_null(fraction)) {
		m->numerator = route_number(g, fraction, "numerator", INT32_MAX, 0);
		m->denominator = route_number(g, fraction, "denominator", INT32_MAX, 100);
	}
	if (m->denominator == 0 || m->numerator > m->denominator)
		route_fault(g, filter, KUBE_ROUTE_UNSUPPORTED,
			"fraction: a numerator up to the denominator, which is not 0, expected");
	g->rule->mirror_kinds[g->rule->rule.n_mirrors++] = ref.kind;
}

/* --- the list ------------------------------------------------------------------------------- */

static void
filter_once(struct route_reading *g, const struct tree_node *n, const void *before)
{
	if (before != NULL)
		route_fault(g, n, KUBE_ROUTE_INCOMPATIBLE, "filter %.40s comes twice",
			tree_text(tree_get(n, "type"), ""));
}

static void
filter_read(struct route_reading *g, const struct tree_node *n, struct http_route_mirror *mirrors)
{
	const char *type = tree_text(tree_get(n, "type"), "");
	struct http_route_rule *rule = &g->rule->rule;

	if (strcmp(type, "RequestHeaderModifier") == 0) {
		filter_once(g, n, rule->request);
		rule->request = filter_read_edits(g, tree_get(n, "requestHeaderModifier"));
	} else if (strcmp(type, "ResponseHeaderModifier") == 0) {
		filter_once(g, n, rule->response);
		rule->response = filter_read_edits(g, tree_get(n, "responseHeaderModifier"));
	} else if (strcmp(type, "RequestMirror") == 0) {
		filter_read_mirror(g, tree_get(n, "requestMirror"), &mirrors[rule->n_mirrors]);
	} else if (strcmp(type, "RequestRedirect") == 0 && !g->grpc) {
		filter_once(g, n, rule->redirect);
		filter_read_redirect(g, tree_get(n, "requestRedirect"));
	} else if (strcmp(type, "URLRewrite") == 0 && !g->grpc) {
		filter_once(g, n, rule->rewrite);
		filter_read_rewrite(g, tree_get(n, "urlRewrite"));
	} else {
		route_fault(g, n, KUBE_ROUTE_UNSUPPORTED, "filter %.60s is not supported", type);
	}
}

void
route_read_filters(struct route_reading *g, const struct tree_node *rule)
{
	const struct tree_node *list = route_list(g, rule, "filters", ROUTE_FILTERS_MAX);
	size_t room = kube_count(list) + 1;
	struct http_route_mirror *mirrors = http_routes_alloc(g->parts, room, sizeof *mirrors);

	g->rule->rule.mirrors = mirrors;
	g->rule->mirror_kinds = http_routes_alloc(g->parts, room, sizeof(const char *));
	tree_each(list, n)
		filter_read(g, n, mirrors);
	if (g->rule->rule.redirect != NULL && g->rule->rule.rewrite != NULL)
		route_fault(g, list, KUBE_ROUTE_INCOMPATIBLE,
			"RequestRedirect and URLRewrite exclude each other");
}

void
route_read_backend_filters(
	struct route_reading *g, const struct tree_node *ref, struct http_route_backend *b)
{
	tree_each(route_list(g, ref, "filters", ROUTE_FILTERS_MAX), n) {
		const char *type = tree_text(tree_get(n, "type"), "");

		if (strcmp(type, "RequestHeaderModifier") == 0 && b->request == NULL)
			b->request = filter_read_edits(g, tree_get(n, "requestHeaderModifier"));
		else if (strcmp(type, "ResponseHeaderModifier") == 0 && b->response == NULL)
			b->response = filter_read_edits(g, tree_get(n, "responseHeaderModifier"));
		else
			route_fault(g, n, KUBE_ROUTE_UNSUPPORTED,
				"filter %.60s of a backendRef is not supported", type);
	}
}

/* --- timeouts and retries ------------------------------------------------------------------- */

static void
filter_read_timeouts(struct route_reading *g, const struct tree_node *n)
{
	struct http_route_rule *rule = &g->rule->rule;

	rule->request_ms = route_duration(g, n, "request", HTTP_ROUTE_MS_DEFAULT);
	rule->backend_ms = route_duration(g, n, "backendRequest", HTTP_ROUTE_MS_DEFAULT);
	if (rule->request_ms > 0 && rule->backend_ms != HTTP_ROUTE_MS_DEFAULT &&
		rule->backend_ms > rule->request_ms)
		route_fault(g, n, KUBE_ROUTE_UNSUPPORTED,
			"timeouts: backendRequest is longer than request");
}

static void
filter_read_retry(struct route_reading *g, const struct tree_node *n)
{
	const struct tree_node *codes = route_list(g, n, "codes", ROUTE_CODES_MAX);
	struct http_route_retry *r = http_routes_alloc(g->parts, 1, sizeof *r);
	uint16_t *to = http_routes_alloc(g->parts, kube_count(codes) + 1, sizeof *to);

	r->codes = to;
	tree_each(codes, c) {
		int64_t v;

		if (tree_int(c, 400, 599, &v) == 0)
			to[r->n_codes++] = (uint16_t)v;
		else
			route_fault(g, c, KUBE_ROUTE_UNSUPPORTED,
				"retry.codes: a status from 400 to 599 expected");
	}
	r->attempts = (uint8_t)route_number(g, n, "attempts", ROUTE_ATTEMPTS_MAX, 0);
	r->backoff_ms = route_duration(g, n, "backoff", 0);
	if (r->backoff_ms > ROUTE_BACKOFF_MAX_MS)
		route_fault(g, n, KUBE_ROUTE_UNSUPPORTED, "retry.backoff: at most 1m is supported");
	g->rule->rule.retry = r;
}

/* --- sessions (GEP-1619) -------------------------------------------------------------------- */

static bool
filter_is_session_name(const char *text, size_t len)
{
	return len <= ROUTE_SESSION_NAME_MAX && filter_is_editable(text, len);
}

static uint32_t
filter_read_lifetime(struct route_reading *g, const struct tree_node *n, const char *key)
{
	uint64_t ms = 0;
	const struct tree_node *at = tree_get(n, key);

	if (tree_is_null(at))
		return 0;
	if (route_parse_duration(tree_text(at, ""), &ms) < 0 || ms > ROUTE_SESSION_MAX_MS)
		route_fault(g, at, KUBE_ROUTE_UNSUPPORTED,
			"sessionPersistence.%s: '%.20s', a duration of at most 576h expected", key,
			tree_text(at, ""));
	return (uint32_t)MIN(ms, (uint64_t)ROUTE_SESSION_MAX_MS);
}

/* A cookie is sent back for the paths of the rule, where one path says which these are. */
static const char *
filter_session_path(const struct kube_route_rule *rule)
{
	const struct http_route_match *m = rule->matches;

	if (rule->n_matches != 1 || m->path_len == 0 || strchr(m->path, ';') != NULL ||
		(m->kind != HTTP_MATCH_PREFIX && m->kind != HTTP_MATCH_EXACT))
		return "/";
	return m->path;
}

/* The name of a session that has none: the same at every node. */
static const char *
filter_session_name(struct route_reading *g)
{
	const struct http_route_rule *rule = &g->rule->rule;
	char name[32];

	snprintf(name, sizeof name, "edgeway-%08x-%u",
		(unsigned)hash64(rule->route, strlen(rule->route), 0), rule->index);
	return http_routes_text(g->parts, name);
}

static void
filter_read_session(struct route_reading *g, const struct tree_node *n)
{
	struct http_route_session *s = http_routes_alloc(g->parts, 1, sizeof *s);
	const struct tree_node *cookie = tree_get(n, "cookieConfig");
	const char *type = tree_text(tree_get(n, "type"), "Cookie");
	const char *lifetime = tree_text(tree_get(cookie, "lifetimeType"), "Session");

	s->name = route_text(g, n, "sessionName", filter_session_name(g), filter_is_session_name);
	s->absolute_ms = filter_read_lifetime(g, n, "absoluteTimeout");
	s->idle_ms = filter_read_lifetime(g, n, "idleTimeout");
	s->header = strcmp(type, "Header") == 0;
	s->permanent = strcmp(lifetime, "Permanent") == 0;
	s->path = s->header ? "" : filter_session_path(g->rule);
	if (!s->header && strcmp(type, "Cookie") != 0)
		route_fault(g, n, KUBE_ROUTE_UNSUPPORTED,
			"sessionPersistence: type '%.40s' is not supported", type);
	if (!s->permanent && strcmp(lifetime, "Session") != 0)
		route_fault(g, n, KUBE_ROUTE_UNSUPPORTED,
			"sessionPersistence: lifetimeType '%.40s' is not supported", lifetime);
	if (s->header && !tree_is_null(cookie))
		route_fault(g, n, KUBE_ROUTE_UNSUPPORTED,
			"sessionPersistence: cookieConfig is for type Cookie alone");
	if (s->permanent && s->absolute_ms == 0)
		route_fault(g, n, KUBE_ROUTE_UNSUPPORTED,
			"sessionPersistence: lifetimeType Permanent needs absoluteTimeout");
	g->rule->rule.session = s;
}

void
route_read_policies(struct route_reading *g, const struct tree_node *rule)
{
	const struct tree_node *timeouts = tree_get(rule, "timeouts");
	const struct tree_node *retry = tree_get(rule, "retry");
	const struct tree_node *session = tree_get(rule, "sessionPersistence");

	if (!tree_is_null(timeouts))
		filter_read_timeouts(g, timeouts);
	if (!tree_is_null(retry))
		filter_read_retry(g, retry);
	if (!tree_is_null(session))
		filter_read_session(g, session);
}
