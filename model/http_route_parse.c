/*
 * Reads routes from a hub: every bound is checked, every index leads somewhere. A word or member of
 * a later version is ignored only where a request then still goes where the hub wants it.
 */
#include <string.h>

#include "model/check.h"
#include "model/http_route_parse_private.h"

/* --- lists and texts ------------------------------------------------------------------------ */

struct list_parsing {
	struct http_routes *routes;
	const struct route_parse_kind *kind;
	char *list;
	uint32_t n;
};

static void
route_parse_count(struct json *j, void *to)
{
	uint32_t *n = to;

	(void)j;
	(*n)++;
}

static void
route_parse_member(struct json *j, void *to)
{
	struct list_parsing *p = to;

	p->kind->fn(j, p->routes, p->list + p->kind->size * p->n++);
}

void *
route_parse_list(
	struct json *j, struct http_routes *r, const struct route_parse_kind *kind, uint32_t *n)
{
	struct list_parsing p = {.routes = r, .kind = kind};

	*n = 0;
	json_list(j, route_parse_count, n);
	if (*n > kind->max)
		json_wrong(j, "%u members, at most %u are allowed", *n, kind->max);
	if (!json_ok(j)) {
		*n = 0;
		return NULL;
	}
	p.list = http_routes_alloc(r, *n + 1, kind->size);
	json_list(j, route_parse_member, &p);
	return p.list;
}

const char *
route_parse_take(struct http_routes *r, char *text)
{
	const char *kept = text != NULL ? http_routes_text(r, text) : "";

	free(text);
	return kept;
}

const char *
route_parse_need(struct json *j, struct http_routes *r, char *text,
	bool (*check)(const char *text, size_t len), const char *what)
{
	const char *kept = route_parse_take(r, text);

	if (!check(kept, strlen(kept)))
		json_wrong(j, "'%.60s' is no %s", kept, what);
	return kept;
}

bool
route_parse_name(const char *text, size_t len)
{
	return len <= ROUTE_NAME_MAX && http1_valid_token((struct http1_str){text, len});
}

bool
route_parse_value(const char *text, size_t len)
{
	return len > 0 && len <= ROUTE_VALUE_MAX &&
		http1_valid_value((struct http1_str){text, len});
}

bool
route_parse_path(const char *text, size_t len)
{
	if (len == 0 || len > ROUTE_PATH_MAX || *text != '/')
		return false;
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c <= ' ' || c >= 0x7f || c == '?' || c == '#')
			return false;
	}
	return true;
}

/* --- matches -------------------------------------------------------------------------------- */

struct condition_texts {
	char *name, *value, *regex;
};

static void
route_parse_condition(struct json *j, struct http_routes *r, void *to)
{
	static const struct field fields[] = {
		{"name", FIELD_TEXT, offsetof(struct condition_texts, name), ROUTE_NAME_MAX, NULL,
			NULL},
		{"value", FIELD_TEXT, offsetof(struct condition_texts, value), ROUTE_VALUE_MAX,
			NULL, NULL},
		{"regex", FIELD_TEXT, offsetof(struct condition_texts, regex), ROUTE_REGEX_TEXT_MAX,
			NULL, NULL},
	};
	struct http_route_condition *c = to;
	struct condition_texts t = {0};

	json_fields(j, fields, ARRAY_LEN(fields), &t);
	if ((t.value != NULL) == (t.regex != NULL))
		json_wrong(j, "either value or regex expected");
	c->is_regex = t.regex != NULL;
	c->name = route_parse_need(j, r, t.name, route_parse_name, "name");
	c->value = route_parse_take(r, c->is_regex ? t.regex : t.value);
	if (c->is_regex)
		free(t.value);
	c->name_len = (uint16_t)strlen(c->name);
	c->value_len = (uint16_t)strlen(c->value);
}

struct match_parsing {
	struct http_routes *routes;
	struct http_route_match *match;
	char *method, *exact, *prefix, *regex;
	uint32_t rule;
};

static const struct route_parse_kind conditions = {
	route_parse_condition, sizeof(struct http_route_condition), ROUTE_CONDITIONS_MAX};

static void
route_parse_headers(struct json *j, void *to)
{
	struct match_parsing *p = to;
	uint32_t n;

	p->match->headers = route_parse_list(j, p->routes, &conditions, &n);
	p->match->n_headers = (uint8_t)n;
}

static void
route_parse_params(struct json *j, void *to)
{
	struct match_parsing *p = to;
	uint32_t n;

	p->match->params = route_parse_list(j, p->routes, &conditions, &n);
	p->match->n_params = (uint8_t)n;
}

static bool
route_parse_method(const char *text, size_t len)
{
	return len == 0 ||
		(len <= HTTP1_METHOD_MAX && http1_valid_token((struct http1_str){text, len}));
}

/* "" or a path without "/" at its end. */
static bool
route_parse_prefix(const char *text, size_t len)
{
	return len == 0 || (route_parse_path(text, len) && text[len - 1] != '/');
}

static bool
route_parse_regex(const char *text, size_t len)
{
	(void)text;
	return len > 0; /* http_routes_seal checks the rest */
}

static void
route_parse_match_path(struct json *j, struct match_parsing *p)
{
	struct http_route_match *m = p->match;

	if ((p->exact != NULL) + (p->prefix != NULL) + (p->regex != NULL) > 1)
		json_wrong(j, "a match with more than one path");
	if (p->exact != NULL) {
		m->kind = HTTP_MATCH_EXACT;
		m->path = route_parse_need(
			j, p->routes, take_ptr(&p->exact), route_parse_path, "path");
	} else if (p->prefix != NULL) {
		m->kind = HTTP_MATCH_PREFIX;
		m->path = route_parse_need(
			j, p->routes, take_ptr(&p->prefix), route_parse_prefix, "prefix");
	} else if (p->regex != NULL) {
		m->kind = HTTP_MATCH_REGEX;
		m->path = route_parse_need(
			j, p->routes, take_ptr(&p->regex), route_parse_regex, "expression");
	} else {
		m->path = "";
	}
	m->path_len = (uint16_t)strlen(m->path);
	free(p->exact);
	free(p->prefix);
	free(p->regex);
}

static void
route_parse_match(struct json *j, struct http_routes *r, void *to)
{
	static const struct field fields[] = {
		{"rule", FIELD_UINT32, offsetof(struct match_parsing, rule), ROUTES_RULES_MAX, NULL,
			NULL},
		{"exact", FIELD_TEXT, offsetof(struct match_parsing, exact), ROUTE_PATH_MAX, NULL,
			NULL},
		{"prefix", FIELD_TEXT, offsetof(struct match_parsing, prefix), ROUTE_PATH_MAX, NULL,
			NULL},
		{"regex", FIELD_TEXT, offsetof(struct match_parsing, regex), ROUTE_REGEX_TEXT_MAX,
			NULL, NULL},
		{"method", FIELD_TEXT, offsetof(struct match_parsing, method), HTTP1_METHOD_MAX,
			NULL, NULL},
		{"headers", FIELD_CUSTOM, 0, 0, NULL, route_parse_headers},
		{"params", FIELD_CUSTOM, 0, 0, NULL, route_parse_params},
	};
	struct match_parsing p = {.routes = r, .match = to, .rule = UINT32_MAX};

	json_fields(j, fields, ARRAY_LEN(fields), &p);
	if (p.rule >= r->n_rules)
		json_wrong(j, "a rule that is not there");
	p.match->rule = p.rule;
	p.match->method = route_parse_need(j, r, p.method, route_parse_method, "method");
	route_parse_match_path(j, &p);
}

/* --- tables --------------------------------------------------------------------------------- */

struct table_parsing {
	struct http_routes *routes;
	struct http_route_table *table;
	char *ns;
	bool grpc;
};

static void
route_parse_port(struct json *j, struct http_routes *r, void *to)
{
	uint16_t *port = to;
	uint64_t v;

	(void)r;
	if (json_uint(j, UINT16_MAX, &v) && v > 0)
		*port = (uint16_t)v;
	else
		json_wrong(j, "a port from 1 to 65535 expected");
}

static void
route_parse_ports(struct json *j, void *to)
{
	static const struct route_parse_kind kind = {
		route_parse_port, sizeof(uint16_t), MESH_PORTS_MAX};
	struct table_parsing *p = to;
	uint32_t n;

	p->table->ports = route_parse_list(j, p->routes, &kind, &n);
	p->table->n_ports = (uint16_t)n;
}

static void
route_parse_matches(struct json *j, void *to)
{
	static const struct route_parse_kind kind = {
		route_parse_match, sizeof(struct http_route_match), ROUTES_MATCHES_MAX};
	struct table_parsing *p = to;

	p->table->matches = route_parse_list(j, p->routes, &kind, &p->table->n_matches);
}

static void
route_parse_table(struct json *j, struct http_routes *r, void *to)
{
	static const struct field fields[] = {
		{"ns", FIELD_TEXT, offsetof(struct table_parsing, ns), MESH_NAME_MAX,
			check_label_or_empty, NULL},
		{"grpc", FIELD_BOOL, offsetof(struct table_parsing, grpc), 0, NULL, NULL},
		{"ports", FIELD_CUSTOM, 0, 0, NULL, route_parse_ports},
		{"matches", FIELD_CUSTOM, 0, 0, NULL, route_parse_matches},
	};
	struct table_parsing p = {.routes = r, .table = to};

	json_fields(j, fields, ARRAY_LEN(fields), &p);
	p.table->ns = route_parse_take(r, p.ns);
	p.table->grpc = p.grpc;
}

/* --- the whole ------------------------------------------------------------------------------ */

static void
route_parse_rules(struct json *j, void *to)
{
	static const struct route_parse_kind kind = {
		route_parse_rule, sizeof(struct http_route_rule), ROUTES_RULES_MAX};
	struct http_routes *r = to;

	r->rules = route_parse_list(j, r, &kind, &r->n_rules);
}

static void
route_parse_tables(struct json *j, void *to)
{
	static const struct route_parse_kind kind = {
		route_parse_table, sizeof(struct http_route_table), ROUTES_TABLES_MAX};
	struct http_routes *r = to;

	r->tables = route_parse_list(j, r, &kind, &r->n_tables);
}

/* Each table alone is within its bounds; together they must be, too. */
static void
route_parse_sums(struct json *j, const struct http_routes *r)
{
	size_t matches = 0, regexes = 0, ports = 0;

	for (size_t i = 0; i < r->n_tables && json_ok(j); i++) {
		const struct http_route_table *t = &r->tables[i];

		ports += t->n_ports;
		matches += t->n_matches;
		for (size_t k = 0; k < t->n_matches; k++)
			regexes += http_match_regexes(&t->matches[k]);
	}
	if (matches > ROUTES_MATCHES_MAX)
		json_wrong(j, "%zu matches, at most %d are allowed", matches, ROUTES_MATCHES_MAX);
	if (regexes > ROUTES_REGEX_MAX)
		json_wrong(j, "%zu regular expressions, at most %d are allowed", regexes,
			ROUTES_REGEX_MAX);
	if (ports > ROUTES_MATCHES_MAX)
		json_wrong(j, "%zu ports of tables, at most %d are allowed", ports,
			ROUTES_MATCHES_MAX);
}

struct http_routes *
http_routes_parse(struct json *j)
{
	/* Rules come first, so that a match can be checked against them. */
	static const struct field fields[] = {
		{"rules", FIELD_CUSTOM, 0, 0, NULL, route_parse_rules},
		{"tables", FIELD_CUSTOM, 0, 0, NULL, route_parse_tables},
	};
	struct http_routes *r = http_routes_new();

	json_fields(j, fields, ARRAY_LEN(fields), r);
	route_parse_sums(j, r);
	if (json_ok(j))
		http_routes_seal(r);
	else
		http_routes_unref(&r);
	return r;
}
