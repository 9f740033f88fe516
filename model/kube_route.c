/*
 * HTTPRoutes and GRPCRoutes whose parent is a Service (GAMMA), and ReferenceGrants. `hostnames`
 * mean nothing for Services, as the API says. The bounds are the CRDs', which a manifest folder
 * does not enforce.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "model/check.h"
#include "model/kube_route_private.h"
#include "model/mesh.h"

enum { FAULT_MAX = 300 };

/* --- members with a fault ------------------------------------------------------------------- */

void
route_fault(struct route_reading *g, const struct tree_node *at, enum kube_route_fault fault,
	const char *fmt, ...)
{
	char what[FAULT_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	kube_note(g->d, at, "rule %u: %s", g->rule->rule.index, what);
	if (g->rule->fault != KUBE_ROUTE_WELL)
		return;
	g->rule->fault = (uint8_t)fault;
	g->rule->wrong = http_routes_text(g->parts, what);
}

const struct tree_node *
route_list(struct route_reading *g, const struct tree_node *map, const char *key, size_t max)
{
	const struct tree_node *list = tree_get(map, key);

	if (tree_is_null(list))
		return NULL;
	if (list->kind != TREE_LIST)
		route_fault(g, list, KUBE_ROUTE_UNSUPPORTED, "%s: a list expected", key);
	else if (kube_count(list) > max)
		route_fault(g, list, KUBE_ROUTE_UNSUPPORTED, "%s: at most %zu members are allowed",
			key, max);
	else
		return list;
	return NULL;
}

const char *
route_text(struct route_reading *g, const struct tree_node *map, const char *key,
	const char *otherwise, bool (*check)(const char *text, size_t len))
{
	const struct tree_node *n = tree_get(map, key);

	if (tree_is_null(n))
		return otherwise;
	if (n->kind == TREE_SCALAR && strlen(n->text) == n->len && check(n->text, n->len))
		return http_routes_text(g->parts, n->text);
	route_fault(g, n, KUBE_ROUTE_UNSUPPORTED, "%s: '%.60s' is not allowed here", key,
		tree_text(n, ""));
	return "";
}

uint32_t
route_number(struct route_reading *g, const struct tree_node *map, const char *key, uint32_t max,
	uint32_t otherwise)
{
	const struct tree_node *n = tree_get(map, key);
	int64_t v = otherwise;
	int rc = tree_int(n, 0, max, &v);

	if (rc == 0)
		return (uint32_t)v;
	if (rc != -ENOENT)
		route_fault(g, n, KUBE_ROUTE_UNSUPPORTED, "%s: a number from 0 to %u expected", key,
			max);
	return otherwise;
}

/* ([0-9]{1,5}(h|m|s|ms)){1,4} */
int
route_parse_duration(const char *text, uint64_t *ms)
{
	static const struct {
		const char *name;
		uint64_t ms;
	} units[] = {{"ms", 1}, {"h", 3600000}, {"m", 60000}, {"s", 1000}};
	int parts = 0;

	for (*ms = 0; *text != '\0'; parts++) {
		size_t digits = strspn(text, "0123456789"), u = 0;
		uint64_t value = 0;

		if (digits < 1 || digits > 5 || parts == 4)
			return -EINVAL;
		for (size_t i = 0; i < digits; i++)
			value = value * 10 + (uint64_t)(*text++ - '0');
		while (u < ARRAY_LEN(units) &&
			strncmp(text, units[u].name, strlen(units[u].name)) != 0)
			u++;
		if (u == ARRAY_LEN(units))
			return -EINVAL;
		*ms += value * units[u].ms;
		text += strlen(units[u].name);
	}
	return parts > 0 ? 0 : -EINVAL;
}

uint32_t
route_duration(
	struct route_reading *g, const struct tree_node *map, const char *key, uint32_t otherwise)
{
	const struct tree_node *n = tree_get(map, key);
	uint64_t ms;

	if (tree_is_null(n))
		return otherwise;
	if (route_parse_duration(tree_text(n, ""), &ms) < 0) {
		route_fault(g, n, KUBE_ROUTE_UNSUPPORTED,
			"%s: '%.20s', a duration such as 250ms or 1m30s expected", key,
			tree_text(n, ""));
		return otherwise;
	}
	return (uint32_t)MIN(ms, (uint64_t)MESH_TIMEOUT_MAX_MS);
}

/* --- backends ------------------------------------------------------------------------------- */

struct route_ref
route_read_ref(struct route_reading *g, const struct tree_node *ref)
{
	const char *group = tree_text(tree_get(ref, "group"), "");
	const char *kind = tree_text(tree_get(ref, "kind"), "Service");
	struct route_ref r = {.kind = ""};

	r.ns = route_text(g, ref, "namespace", g->ns, check_label);
	r.name = route_text(g, ref, "name", "", check_subdomain);
	r.port = (uint16_t)route_number(g, ref, "port", UINT16_MAX, 0);
	if (*r.name == '\0')
		route_fault(g, ref, KUBE_ROUTE_UNSUPPORTED, "a backendRef without a name");
	if (*group != '\0' || strcmp(kind, "Service") != 0) {
		auto_free char *what =
			xasprintf("%.60s%s%.100s", kind, *group != '\0' ? "." : "", group);

		r.kind = http_routes_text(g->parts, what);
	}
	return r;
}

static void
route_read_backends(struct route_reading *g, const struct tree_node *rule)
{
	const struct tree_node *list = route_list(g, rule, "backendRefs", ROUTE_BACKENDS_MAX);
	size_t room = kube_count(list);
	struct http_route_backend *b = http_routes_alloc(g->parts, room + 1, sizeof *b);
	struct kube_route_rule *to = g->rule;

	to->rule.backends = b;
	to->backend_kinds = http_routes_alloc(g->parts, room + 1, sizeof(const char *));
	tree_each(list, n) {
		struct route_ref ref = route_read_ref(g, n);

		to->backend_kinds[to->rule.n_backends++] = ref.kind;
		*b = (struct http_route_backend){.ns = ref.ns, .name = ref.name, .port = ref.port};
		b->weight = route_number(g, n, "weight", ROUTE_WEIGHT_MAX, 1);
		route_read_backend_filters(g, n, b);
		b++;
	}
}

/* --- rules ---------------------------------------------------------------------------------- */

static void
route_read_rule(struct route_reading *g, const struct tree_node *n, const char *route, size_t index)
{
	struct http_route_rule *rule = &g->rule->rule;

	rule->route = route;
	rule->index = (uint8_t)index;
	rule->request_ms = rule->backend_ms = HTTP_ROUTE_MS_DEFAULT;
	g->rule->wrong = "";
	rule->name = route_text(g, n, "name", "", check_subdomain);
	route_read_matches(g, n);
	g->rule->dropped = g->rule->fault != KUBE_ROUTE_WELL;
	route_read_filters(g, n);
	route_read_backends(g, n);
	route_read_policies(g, n);
	if (rule->redirect != NULL && rule->n_backends > 0)
		route_fault(g, n, KUBE_ROUTE_INCOMPATIBLE, "RequestRedirect beside backendRefs");
	if (g->rule->fault != KUBE_ROUTE_WELL)
		rule->status = 500;
}

static void
route_read_rules(struct route_reading *g, const struct tree_node *spec, struct kube_object *o)
{
	const struct tree_node *rules = kube_list(g->d, spec, "rules");
	auto_free char *route = xasprintf("%s/%s", o->ns, o->name);
	const char *name = http_routes_text(g->parts, route);
	size_t matches = 0;

	if (kube_count(rules) > ROUTE_RULES_MAX) {
		kube_wrong(g->d, rules, "rules: at most %d are allowed, split the route",
			ROUTE_RULES_MAX);
		return;
	}
	o->route.rules = http_routes_alloc(g->parts, kube_count(rules) + 2, sizeof *g->rule);
	tree_each(rules, n) {
		g->rule = &o->route.rules[o->route.n_rules];
		route_read_rule(g, n, name, o->route.n_rules++);
		matches += g->rule->n_matches;
	}
	/* The CRD's default is a rule for everything; it has no backend. */
	if (o->route.n_rules == 0) {
		g->rule = &o->route.rules[o->route.n_rules++];
		route_read_rule(g, NULL, name, 0);
	}
	if (matches > ROUTE_MATCHES_MAX)
		kube_wrong(g->d, rules,
			"rules: %zu matches, at most %d are allowed, split the route", matches,
			ROUTE_MATCHES_MAX);
}

/* --- parents -------------------------------------------------------------------------------- */

static void
route_read_parents(struct decoder *d, const struct tree_node *spec, struct kube_object *o)
{
	const struct tree_node *refs = kube_list(d, spec, "parentRefs");

	if (kube_count(refs) > ROUTE_PARENTS_MAX) {
		kube_wrong(d, refs, "parentRefs: at most %d are allowed", ROUTE_PARENTS_MAX);
		return;
	}
	o->route.parents = xcalloc(kube_count(refs) + 1, sizeof *o->route.parents);
	tree_each(refs, n) {
		struct kube_route_parent *p = &o->route.parents[o->route.n_parents];

		if (strcmp(tree_text(tree_get(n, "group"), KUBE_GATEWAY_GROUP), "") != 0 ||
			strcmp(tree_text(tree_get(n, "kind"), "Gateway"), "Service") != 0)
			continue;
		o->route.n_parents++;
		p->ns = kube_text(d, n, "namespace", check_label);
		p->name = kube_text(d, n, "name", check_label);
		p->section = kube_text(d, n, "sectionName", check_subdomain);
		p->port = kube_port(d, n, "port");
		p->ns_given = *p->ns != '\0';
		if (!p->ns_given) {
			free(p->ns);
			p->ns = xstrdup(o->ns);
		}
		if (*p->name == '\0')
			kube_wrong(d, n, "a parentRef without a name");
	}
}
void
kube_route_decode_meta(const struct tree_node *n, struct kube_route *r, const char *list)
{
	int64_t generation = 0;

	r->created = kube_created(n);
	tree_int(tree_path(n, "metadata.generation"), 0, INT64_MAX, &generation);
	r->generation = (uint64_t)generation;
	r->resource_version = xstrdup(tree_text(tree_path(n, "metadata.resourceVersion"), ""));
	route_read_status(r, tree_path(n, list));
}

void
kube_route_decode(struct decoder *d, const struct tree_node *n, struct kube_object *o)
{
	const struct tree_node *spec = tree_get(n, "spec");
	struct kube_route *r = &o->route;
	struct route_reading g = {.d = d, .ns = o->ns, .grpc = o->kind == KUBE_GRPCROUTE};

	r->parts = g.parts = http_routes_new();
	kube_route_decode_meta(n, r, "status.parents");
	if (spec != NULL && spec->kind != TREE_MAP)
		kube_wrong(d, spec, "spec: a map expected");
	route_read_parents(d, spec, o);
	g.ns = http_routes_text(g.parts, o->ns);
	route_read_rules(&g, spec, o);
}

void
kube_route_fini(struct kube_route *r)
{
	for (size_t i = 0; i < r->n_parents; i++) {
		free(r->parents[i].ns);
		free(r->parents[i].name);
		free(r->parents[i].section);
	}
	free(r->parents);
	free(r->created);
	free(r->resource_version);
	free(r->status_others);
	free(r->status_own);
	http_routes_unref(&r->parts);
}

/* --- grants --------------------------------------------------------------------------------- */

static void
grant_read_from(struct decoder *d, const struct tree_node *n, struct kube_grant *g)
{
	const char *kind = tree_text(tree_get(n, "kind"), "");
	struct kube_grant_from *from = &g->from[g->n_from];

	if (strcmp(tree_text(tree_get(n, "group"), ""), KUBE_GATEWAY_GROUP) != 0 ||
		(strcmp(kind, "HTTPRoute") != 0 && strcmp(kind, "GRPCRoute") != 0))
		return;
	g->n_from++;
	from->kind = xstrdup(kind);
	from->ns = kube_text(d, n, "namespace", check_label);
}

void
kube_grant_decode(struct decoder *d, const struct tree_node *n, struct kube_grant *g)
{
	const struct tree_node *spec = tree_get(n, "spec");
	const struct tree_node *from = kube_list(d, spec, "from"), *to = kube_list(d, spec, "to");

	if (kube_count(from) > ROUTE_PARENTS_MAX || kube_count(to) > ROUTE_PARENTS_MAX) {
		kube_wrong(d, spec, "from, to: at most %d members are allowed", ROUTE_PARENTS_MAX);
		return;
	}
	g->from = xcalloc(kube_count(from) + 1, sizeof *g->from);
	g->to = xcalloc(kube_count(to) + 1, sizeof *g->to);
	tree_each(from, f)
		grant_read_from(d, f, g);
	tree_each(to, t)
		if (strcmp(tree_text(tree_get(t, "group"), ""), "") == 0 &&
			strcmp(tree_text(tree_get(t, "kind"), ""), "Service") == 0)
			g->to[g->n_to++] = kube_text(d, t, "name", check_label);
}

void
kube_grant_fini(struct kube_grant *g)
{
	for (size_t i = 0; i < g->n_from; i++) {
		free(g->from[i].kind);
		free(g->from[i].ns);
	}
	for (size_t i = 0; i < g->n_to; i++)
		free(g->to[i]);
	free(g->from);
	free(g->to);
}
