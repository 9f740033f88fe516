/* Reads the rules of a hub's routes: see http_route_parse.c. */
#include <string.h>

#include "model/check.h"
#include "model/http_route_parse_private.h"

struct rule_parsing {
	struct http_routes *routes;
	struct http_route_rule *rule;
	char *route, *name;
};

/* --- header fields -------------------------------------------------------------------------- */

/* In lower case: HTTP/2 has no other names (RFC 9113 section 8.2), and HTTP/1 does not care. */
static const char *
rule_parse_name(struct json *j, struct http_routes *r, char *text)
{
	for (char *c = text; c != NULL && *c != '\0'; c++)
		*c = (char)(*c >= 'A' && *c <= 'Z' ? *c | 0x20 : *c);
	return route_parse_need(j, r, text, route_parse_name, "name");
}

static void
rule_parse_pair(struct json *j, struct http_routes *r, void *to)
{
	struct pair {
		char *name, *value;
	};
	static const struct field fields[] = {
		{"name", FIELD_TEXT, offsetof(struct pair, name), ROUTE_NAME_MAX, NULL, NULL},
		{"value", FIELD_TEXT, offsetof(struct pair, value), ROUTE_VALUE_MAX, NULL, NULL},
	};
	struct http_route_pair *p = to;
	struct pair t = {0};

	json_fields(j, fields, ARRAY_LEN(fields), &t);
	p->name = rule_parse_name(j, r, t.name);
	p->value = route_parse_need(j, r, t.value, route_parse_value, "value");
	if (!http_route_may_edit(p->name))
		json_wrong(j, "the field '%.60s' may not be edited", p->name);
}

static void
rule_parse_removed(struct json *j, struct http_routes *r, void *to)
{
	const char **name = to;
	char *text = NULL;

	if (!json_text(j, &text, ROUTE_NAME_MAX))
		return;
	*name = rule_parse_name(j, r, text);
	if (!http_route_may_edit(*name))
		json_wrong(j, "the field '%.60s' may not be edited", *name);
}

struct edits_parsing {
	struct http_routes *routes;
	struct http_header_edits *edits;
};

static const struct route_parse_kind pairs = {
	rule_parse_pair, sizeof(struct http_route_pair), ROUTE_EDITS_MAX};

static void
rule_parse_set(struct json *j, void *to)
{
	struct edits_parsing *p = to;
	uint32_t n;

	p->edits->set = route_parse_list(j, p->routes, &pairs, &n);
	p->edits->n_set = (uint8_t)n;
}

static void
rule_parse_add(struct json *j, void *to)
{
	struct edits_parsing *p = to;
	uint32_t n;

	p->edits->add = route_parse_list(j, p->routes, &pairs, &n);
	p->edits->n_add = (uint8_t)n;
}

static void
rule_parse_remove(struct json *j, void *to)
{
	static const struct route_parse_kind names = {
		rule_parse_removed, sizeof(const char *), ROUTE_EDITS_MAX};
	struct edits_parsing *p = to;
	uint32_t n;

	p->edits->remove = route_parse_list(j, p->routes, &names, &n);
	p->edits->n_remove = (uint8_t)n;
}

static const struct http_header_edits *
rule_parse_edits(struct json *j, struct http_routes *r)
{
	static const struct field fields[] = {
		{"set", FIELD_CUSTOM, 0, 0, NULL, rule_parse_set},
		{"add", FIELD_CUSTOM, 0, 0, NULL, rule_parse_add},
		{"remove", FIELD_CUSTOM, 0, 0, NULL, rule_parse_remove},
	};
	struct edits_parsing p = {r, http_routes_alloc(r, 1, sizeof *p.edits)};

	json_fields(j, fields, ARRAY_LEN(fields), &p);
	return p.edits;
}

static void
rule_parse_request(struct json *j, void *to)
{
	struct rule_parsing *p = to;

	p->rule->request = rule_parse_edits(j, p->routes);
}

static void
rule_parse_response(struct json *j, void *to)
{
	struct rule_parsing *p = to;

	p->rule->response = rule_parse_edits(j, p->routes);
}

/* --- rewrites and redirects ----------------------------------------------------------------- */

struct modifier_texts {
	char *host, *full, *prefix, *scheme;
	uint16_t port, status;
};

static void
rule_parse_modifier(struct json *j, struct http_routes *r, struct modifier_texts *t,
	struct http_route_modifier *to)
{
	if (t->full != NULL && t->prefix != NULL)
		json_wrong(j, "a rewrite of the whole path and of its prefix");
	to->host = route_parse_take(r, t->host);
	to->kind = t->full != NULL  ? HTTP_ROUTE_PATH_FULL
		: t->prefix != NULL ? HTTP_ROUTE_PATH_PREFIX
				    : HTTP_ROUTE_PATH_KEPT;
	to->path = "";
	if (t->full != NULL)
		to->path = route_parse_need(j, r, take_ptr(&t->full), route_parse_path, "path");
	else if (t->prefix != NULL && *t->prefix != '\0')
		to->path = route_parse_need(j, r, take_ptr(&t->prefix), route_parse_path, "path");
	free(t->full);
	free(t->prefix);
}

#define MODIFIER_FIELDS                                                                            \
	{"host", FIELD_TEXT, offsetof(struct modifier_texts, host), MESH_NODE_MAX,                 \
		check_subdomain_or_empty, NULL},                                                   \
		{"full", FIELD_TEXT, offsetof(struct modifier_texts, full), ROUTE_PATH_MAX, NULL,  \
			NULL},                                                                     \
	{                                                                                          \
		"prefix", FIELD_TEXT, offsetof(struct modifier_texts, prefix), ROUTE_PATH_MAX,     \
			NULL, NULL                                                                 \
	}

static void
rule_parse_rewrite(struct json *j, void *to)
{
	static const struct field fields[] = {MODIFIER_FIELDS};
	struct rule_parsing *p = to;
	struct http_route_modifier *m = http_routes_alloc(p->routes, 1, sizeof *m);
	struct modifier_texts t = {0};

	json_fields(j, fields, ARRAY_LEN(fields), &t);
	rule_parse_modifier(j, p->routes, &t, m);
	p->rule->rewrite = m;
}

static void
rule_parse_redirect(struct json *j, void *to)
{
	static const struct field fields[] = {
		MODIFIER_FIELDS,
		{"scheme", FIELD_TEXT, offsetof(struct modifier_texts, scheme), MESH_NAME_MAX, NULL,
			NULL},
		{"port", FIELD_UINT16, offsetof(struct modifier_texts, port), UINT16_MAX, NULL,
			NULL},
		{"status", FIELD_UINT16, offsetof(struct modifier_texts, status), 308, NULL, NULL},
	};
	struct rule_parsing *p = to;
	struct http_route_redirect *r = http_routes_alloc(p->routes, 1, sizeof *r);
	struct modifier_texts t = {.status = 302};

	json_fields(j, fields, ARRAY_LEN(fields), &t);
	rule_parse_modifier(j, p->routes, &t, &r->to);
	r->scheme = route_parse_take(p->routes, t.scheme);
	r->port = t.port;
	r->status = t.status;
	if (*r->scheme != '\0' && strcmp(r->scheme, "http") != 0 && strcmp(r->scheme, "https") != 0)
		json_wrong(j, "scheme '%.20s' is not http or https", r->scheme);
	if (r->status < 301 || (r->status > 303 && r->status < 307))
		json_wrong(j, "a redirect with status %u", r->status);
	p->rule->redirect = r;
}

/* --- backends and mirrors ------------------------------------------------------------------- */

struct backend_parsing {
	struct http_routes *routes;
	const struct http_header_edits *request, *response;
	char *ns, *name;
	bool invalid;
	uint16_t port;
	uint32_t weight, numerator, denominator;
};

static void
rule_parse_backend_request(struct json *j, void *to)
{
	struct backend_parsing *p = to;

	p->request = rule_parse_edits(j, p->routes);
}

static void
rule_parse_backend_response(struct json *j, void *to)
{
	struct backend_parsing *p = to;

	p->response = rule_parse_edits(j, p->routes);
}

#define BACKEND_NUMBER(name, kind, member, max)                                                    \
	{                                                                                          \
		name, kind, offsetof(struct backend_parsing, member), max, NULL, NULL              \
	}

static void
rule_parse_backend_fields(struct json *j, struct backend_parsing *p)
{
	static const struct field fields[] = {
		{"ns", FIELD_TEXT, offsetof(struct backend_parsing, ns), MESH_NAME_MAX, check_label,
			NULL},
		{"name", FIELD_TEXT, offsetof(struct backend_parsing, name), MESH_NODE_MAX,
			check_subdomain, NULL},
		BACKEND_NUMBER("port", FIELD_UINT16, port, UINT16_MAX),
		{"invalid", FIELD_BOOL, offsetof(struct backend_parsing, invalid), 0, NULL, NULL},
		BACKEND_NUMBER("weight", FIELD_UINT32, weight, ROUTE_WEIGHT_MAX),
		BACKEND_NUMBER("numerator", FIELD_UINT32, numerator, INT32_MAX),
		BACKEND_NUMBER("denominator", FIELD_UINT32, denominator, INT32_MAX),
		{"request", FIELD_CUSTOM, 0, 0, NULL, rule_parse_backend_request},
		{"response", FIELD_CUSTOM, 0, 0, NULL, rule_parse_backend_response},
	};

	json_fields(j, fields, ARRAY_LEN(fields), p);
	if (!p->invalid && (p->ns == NULL || p->name == NULL || p->port == 0))
		json_wrong(j, "a backend without namespace, name or port");
}

static void
rule_parse_backend(struct json *j, struct http_routes *r, void *to)
{
	struct backend_parsing p = {.routes = r, .weight = 1};
	struct http_route_backend *b = to;

	rule_parse_backend_fields(j, &p);
	*b = (struct http_route_backend){
		.ns = route_parse_take(r, p.ns),
		.name = route_parse_take(r, p.name),
		.port = p.port,
		.invalid = p.invalid,
		.weight = p.weight,
		.request = p.request,
		.response = p.response,
	};
}

static void
rule_parse_mirror(struct json *j, struct http_routes *r, void *to)
{
	struct backend_parsing p = {.routes = r, .numerator = 1, .denominator = 1};
	struct http_route_mirror *m = to;

	rule_parse_backend_fields(j, &p);
	if (p.denominator == 0 || p.invalid)
		json_wrong(j, "a mirror that gets nothing");
	*m = (struct http_route_mirror){
		.ns = route_parse_take(r, p.ns),
		.name = route_parse_take(r, p.name),
		.port = p.port,
		.numerator = p.numerator,
		.denominator = p.denominator,
	};
}

static void
rule_parse_backends(struct json *j, void *to)
{
	static const struct route_parse_kind kind = {
		rule_parse_backend, sizeof(struct http_route_backend), ROUTE_BACKENDS_MAX};
	struct rule_parsing *p = to;
	uint32_t n;

	p->rule->backends = route_parse_list(j, p->routes, &kind, &n);
	p->rule->n_backends = (uint8_t)n;
	for (size_t i = 0; i < n; i++)
		p->rule->weight += p->rule->backends[i].weight;
}

static void
rule_parse_mirrors(struct json *j, void *to)
{
	static const struct route_parse_kind kind = {
		rule_parse_mirror, sizeof(struct http_route_mirror), ROUTE_FILTERS_MAX};
	struct rule_parsing *p = to;
	uint32_t n;

	p->rule->mirrors = route_parse_list(j, p->routes, &kind, &n);
	p->rule->n_mirrors = (uint8_t)n;
}

/* --- retries and sessions ------------------------------------------------------------------- */

static void
rule_parse_code(struct json *j, struct http_routes *r, void *to)
{
	uint16_t *code = to;
	uint64_t v;

	(void)r;
	if (json_uint(j, 599, &v) && v >= 400)
		*code = (uint16_t)v;
	else
		json_wrong(j, "a status from 400 to 599 expected");
}

struct retry_parsing {
	struct http_routes *routes;
	struct http_route_retry *retry;
	uint8_t attempts;
	uint32_t backoff_ms;
};

static void
rule_parse_codes(struct json *j, void *to)
{
	static const struct route_parse_kind kind = {
		rule_parse_code, sizeof(uint16_t), ROUTE_CODES_MAX};
	struct retry_parsing *p = to;
	uint32_t n;

	p->retry->codes = route_parse_list(j, p->routes, &kind, &n);
	p->retry->n_codes = (uint8_t)n;
}

static void
rule_parse_retry(struct json *j, void *to)
{
	static const struct field fields[] = {
		{"codes", FIELD_CUSTOM, 0, 0, NULL, rule_parse_codes},
		{"attempts", FIELD_UINT8, offsetof(struct retry_parsing, attempts),
			ROUTE_ATTEMPTS_MAX, NULL, NULL},
		{"backoffMs", FIELD_UINT32, offsetof(struct retry_parsing, backoff_ms),
			MESH_TIMEOUT_MAX_MS, NULL, NULL},
	};
	struct rule_parsing *p = to;
	struct retry_parsing r = {
		.routes = p->routes, .retry = http_routes_alloc(p->routes, 1, sizeof *r.retry)};

	json_fields(j, fields, ARRAY_LEN(fields), &r);
	r.retry->attempts = r.attempts;
	r.retry->backoff_ms = r.backoff_ms;
	p->rule->retry = r.retry;
}

static bool
rule_parse_cookie_path(const char *text, size_t len)
{
	return len == 0 || (route_parse_path(text, len) && strchr(text, ';') == NULL);
}

static bool
rule_parse_session_name(const char *text, size_t len)
{
	return route_parse_name(text, len);
}

static void
rule_parse_session(struct json *j, void *to)
{
	struct session {
		char *name, *path;
		bool header, permanent;
		uint32_t absolute_ms, idle_ms;
	};
	static const struct field fields[] = {
		{"header", FIELD_BOOL, offsetof(struct session, header), 0, NULL, NULL},
		{"permanent", FIELD_BOOL, offsetof(struct session, permanent), 0, NULL, NULL},
		{"name", FIELD_TEXT, offsetof(struct session, name), ROUTE_SESSION_NAME_MAX, NULL,
			NULL},
		{"path", FIELD_TEXT, offsetof(struct session, path), ROUTE_PATH_MAX, NULL, NULL},
		{"absoluteMs", FIELD_UINT32, offsetof(struct session, absolute_ms),
			ROUTE_SESSION_MAX_MS, NULL, NULL},
		{"idleMs", FIELD_UINT32, offsetof(struct session, idle_ms), ROUTE_SESSION_MAX_MS,
			NULL, NULL},
	};
	struct rule_parsing *p = to;
	struct http_route_session *s = http_routes_alloc(p->routes, 1, sizeof *s);
	struct session t = {0};

	json_fields(j, fields, ARRAY_LEN(fields), &t);
	*s = (struct http_route_session){
		.header = t.header,
		.permanent = t.permanent,
		.name = route_parse_need(j, p->routes, t.name, rule_parse_session_name, "name"),
		.path = route_parse_need(j, p->routes, t.path, rule_parse_cookie_path, "path"),
		.absolute_ms = t.absolute_ms,
		.idle_ms = t.idle_ms,
	};
	p->rule->session = s;
}

/* --- a rule --------------------------------------------------------------------------------- */

/* "namespace/name": it goes into headers of no one, but into access logs. */
static bool
rule_parse_route(const char *text, size_t len)
{
	const char *slash = memchr(text, '/', len);

	return slash != NULL && check_label(text, (size_t)(slash - text)) &&
		check_subdomain(slash + 1, len - (size_t)(slash + 1 - text));
}

#define RULE_NUMBER(name, kind, member, max)                                                       \
	{                                                                                          \
		name, kind, offsetof(struct http_route_rule, member), max, NULL, NULL              \
	}
#define RULE_PART(name, fn)                                                                        \
	{                                                                                          \
		name, FIELD_CUSTOM, 0, 0, NULL, fn                                                 \
	}

/* Numbers have fields of their own, so two passes: json_fields fills one structure. */
static void
rule_parse_numbers(struct json *j, struct http_route_rule *rule)
{
	static const struct field fields[] = {
		RULE_NUMBER("index", FIELD_UINT8, index, ROUTE_RULES_MAX - 1),
		RULE_NUMBER("status", FIELD_UINT16, status, 599),
		RULE_NUMBER("prefixLen", FIELD_UINT16, prefix_len, ROUTE_PATH_MAX),
		RULE_NUMBER("requestMs", FIELD_UINT32, request_ms, MESH_TIMEOUT_MAX_MS),
		RULE_NUMBER("backendMs", FIELD_UINT32, backend_ms, MESH_TIMEOUT_MAX_MS),
	};

	rule->request_ms = rule->backend_ms = HTTP_ROUTE_MS_DEFAULT;
	json_fields(j, fields, ARRAY_LEN(fields), rule);
	if (rule->status != 0 && rule->status < 400)
		json_wrong(j, "a rule that answers %u", rule->status);
}

void
route_parse_rule(struct json *j, struct http_routes *r, void *to)
{
	static const struct field fields[] = {
		{"route", FIELD_TEXT, offsetof(struct rule_parsing, route), ROUTE_NAMESPACED_MAX,
			rule_parse_route, NULL},
		{"name", FIELD_TEXT, offsetof(struct rule_parsing, name), MESH_NODE_MAX,
			check_subdomain_or_empty, NULL},
		RULE_PART("backends", rule_parse_backends),
		RULE_PART("mirrors", rule_parse_mirrors),
		RULE_PART("request", rule_parse_request),
		RULE_PART("response", rule_parse_response),
		RULE_PART("rewrite", rule_parse_rewrite),
		RULE_PART("redirect", rule_parse_redirect),
		RULE_PART("retry", rule_parse_retry),
		RULE_PART("session", rule_parse_session),
	};
	struct rule_parsing p = {.routes = r, .rule = to};

	rule_parse_numbers(j, p.rule);
	json_fields(j, fields, ARRAY_LEN(fields), &p);
	if (p.route == NULL)
		json_wrong(j, "a rule of no route");
	p.rule->route = route_parse_take(r, p.route);
	p.rule->name = route_parse_take(r, p.name);
}
