/*
 * Matches of a route's rule. A GRPCRoute's are matches of the path /SERVICE/METHOD. A rule with a
 * match that cannot be understood matches nothing at all: which requests were meant is not known.
 */
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "model/kube_route_private.h"

static bool
match_is_word(const char *text, size_t len)
{
	(void)text;
	return len > 0 && len <= ROUTE_VALUE_MAX;
}

static bool
match_is_header_value(const char *text, size_t len)
{
	return route_parse_value(text, len);
}

/* Checks the expression where somebody reads what is wrong with it. */
static void
match_check_regex(struct route_reading *g, const struct tree_node *at, const char *text)
{
	struct err err = {0};
	struct route_regex *r = route_regex_new(text, &err);

	if (r == NULL)
		route_fault(g, at, KUBE_ROUTE_UNSUPPORTED, "'%.60s': %s", text, err.text);
	route_regex_free(&r);
}

/* True for RegularExpression, false for the usual type; a fault for others. */
static bool
match_is_regex(struct route_reading *g, const struct tree_node *n, const char *usual)
{
	const char *type = tree_text(tree_get(n, "type"), usual);

	if (strcmp(type, "RegularExpression") == 0)
		return true;
	if (strcmp(type, usual) != 0)
		route_fault(g, tree_get(n, "type"), KUBE_ROUTE_UNSUPPORTED,
			"match type '%.40s' is not supported", type);
	return false;
}

/* --- header fields and query parameters ----------------------------------------------------- */

/* Of several conditions on one name the first counts, as the API says. */
static bool
match_is_known(const struct http_route_condition *list, size_t n, const char *name, bool nocase)
{
	for (size_t i = 0; i < n; i++)
		if ((nocase ? strcasecmp(list[i].name, name) : strcmp(list[i].name, name)) == 0)
			return true;
	return false;
}

static uint8_t
match_read_conditions(struct route_reading *g, const struct tree_node *match, const char *key,
	const struct http_route_condition **to)
{
	bool headers = strcmp(key, "headers") == 0;
	const struct tree_node *list = route_list(g, match, key, ROUTE_CONDITIONS_MAX);
	struct http_route_condition *c =
		http_routes_alloc(g->parts, kube_count(list) + 1, sizeof *c);
	uint8_t n = 0;

	*to = c;
	tree_each(list, item) {
		const char *name = route_text(g, item, "name", "", route_parse_name);

		if (*name == '\0')
			route_fault(g, item, KUBE_ROUTE_UNSUPPORTED, "%s: a member without a name",
				key);
		if (match_is_known(c, n, name, headers))
			continue;
		if (tree_is_null(tree_get(item, "value")))
			route_fault(g, item, KUBE_ROUTE_UNSUPPORTED, "%s: '%.60s' has no value",
				key, name);
		c[n].name = name;
		c[n].value = route_text(
			g, item, "value", "", headers ? match_is_header_value : match_is_word);
		c[n].is_regex = match_is_regex(g, item, "Exact");
		c[n].name_len = (uint16_t)strlen(name);
		c[n].value_len = (uint16_t)strlen(c[n].value);
		if (c[n].is_regex)
			match_check_regex(g, item, c[n].value);
		n++;
	}
	return n;
}

/* --- paths ---------------------------------------------------------------------------------- */

static void
match_set_path(struct route_reading *g, struct http_route_match *m, enum http_match_path kind,
	const char *path)
{
	m->kind = (uint8_t)kind;
	m->path = http_routes_text(g->parts, path);
	m->path_len = (uint16_t)strlen(path);
}

static void
match_read_path(struct route_reading *g, const struct tree_node *match, struct http_route_match *m)
{
	const struct tree_node *path = tree_get(match, "path");
	const char *type = tree_text(tree_get(path, "type"), "PathPrefix");
	bool regex = strcmp(type, "RegularExpression") == 0;
	auto_free char *text = xstrdup(
		route_text(g, path, "value", "/", regex ? match_is_word : route_parse_path));
	size_t len = strlen(text);

	if (regex) {
		match_set_path(g, m, HTTP_MATCH_REGEX, text);
		match_check_regex(g, path, text);
	} else if (strcmp(type, "Exact") == 0) {
		match_set_path(g, m, HTTP_MATCH_EXACT, text);
	} else if (strcmp(type, "PathPrefix") == 0) {
		while (len > 0 && text[len - 1] == '/')
			text[--len] = '\0';
		match_set_path(g, m, HTTP_MATCH_PREFIX, text);
	} else {
		route_fault(g, path, KUBE_ROUTE_UNSUPPORTED, "path type '%.40s' is not supported",
			type);
	}
}

static bool
match_is_method(const char *text, size_t len)
{
	static const char *const methods[] = {
		"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"};

	for (size_t i = 0; i < ARRAY_LEN(methods); i++)
		if (strlen(methods[i]) == len && memcmp(methods[i], text, len) == 0)
			return true;
	return false;
}

/* --- gRPC ----------------------------------------------------------------------------------- */

static bool
match_is_grpc_name(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)text[i]) && text[i] != '_' && text[i] != '.')
			return false;
	return len > 0 && len <= ROUTE_PATH_MAX / 2 - 1;
}

static bool
match_is_grpc_regex(const char *text, size_t len)
{
	(void)text;
	return len > 0 && len <= ROUTE_PATH_MAX;
}

/* A service alone is the first element of the path, a method alone any service's. */
static void
match_set_grpc(struct route_reading *g, struct http_route_match *m, const char *service,
	const char *method, bool regex)
{
	auto_free char *path = NULL;

	if (regex || *service == '\0') {
		path = xasprintf("/%s%s%s/%s%s%s", *service != '\0' ? "(?:" : "",
			*service != '\0' ? service : "[^/]+", *service != '\0' ? ")" : "",
			*method != '\0' ? "(?:" : "", *method != '\0' ? method : "[^/]+",
			*method != '\0' ? ")" : "");
		match_set_path(g, m, HTTP_MATCH_REGEX, path);
	} else {
		path = xasprintf("/%s%s%s", service, *method != '\0' ? "/" : "", method);
		match_set_path(g, m, *method != '\0' ? HTTP_MATCH_EXACT : HTTP_MATCH_PREFIX, path);
	}
}

static void
match_read_grpc(struct route_reading *g, const struct tree_node *match, struct http_route_match *m)
{
	const struct tree_node *n = tree_get(match, "method");
	bool regex = match_is_regex(g, n, "Exact");
	bool (*check)(const char *, size_t) = regex ? match_is_grpc_regex : match_is_grpc_name;
	const char *service = route_text(g, n, "service", "", check);
	const char *method = route_text(g, n, "method", "", check);

	m->service_len = (uint16_t)strlen(service);
	m->method_len = (uint16_t)strlen(method);
	if (*service == '\0' && *method == '\0')
		match_set_path(g, m, HTTP_MATCH_PREFIX, "");
	else
		match_set_grpc(g, m, service, method, regex);
	if (m->kind == HTTP_MATCH_REGEX)
		match_check_regex(g, n, m->path);
}

/* --- a rule's matches ----------------------------------------------------------------------- */

static void
match_read(struct route_reading *g, const struct tree_node *match, struct http_route_match *m)
{
	m->method = m->path = "";
	if (g->grpc) {
		match_read_grpc(g, match, m);
	} else {
		match_read_path(g, match, m);
		m->method = route_text(g, match, "method", "", match_is_method);
		m->n_params = match_read_conditions(g, match, "queryParams", &m->params);
	}
	m->n_headers = match_read_conditions(g, match, "headers", &m->headers);
}

void
route_read_matches(struct route_reading *g, const struct tree_node *rule)
{
	const struct tree_node *list = route_list(g, rule, "matches", ROUTE_MATCHES_MAX);
	size_t room = kube_count(list) + 1;

	g->rule->matches = http_routes_alloc(g->parts, room, sizeof *g->rule->matches);
	tree_each(list, n)
		match_read(g, n, &g->rule->matches[g->rule->n_matches++]);
	/* No match is one for everything. */
	if (g->rule->n_matches == 0)
		match_read(g, NULL, &g->rule->matches[g->rule->n_matches++]);
}
