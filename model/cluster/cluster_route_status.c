/*
 * What a route's status says about each of its parents: Accepted, ResolvedRefs, PartiallyInvalid,
 * with the reasons that the Gateway API has for them. Which routes conflict, or are beyond the
 * limits, is known from the parent's last join.
 */
#include <string.h>

#include "base/core/buf.h"
#include "base/core/hash.h"
#include "model/cluster/cluster_private.h"

/* --- Accepted ------------------------------------------------------------------------------- */

static void
status_refuse(struct cluster_route_parent *p, const char *reason, char *message)
{
	p->accepted = false;
	p->accepted_reason = reason;
	free(p->accepted_message);
	p->accepted_message = message;
}

static const struct route_place *
status_place(const struct cluster *c, const struct record *r, const struct kube_route_parent *ref)
{
	const struct joint *j = cluster_find_joint(c, ref->ns, ref->name);

	for (size_t i = 0; j != NULL && i < j->n_places; i++)
		if (j->places[i].route == r)
			return &j->places[i];
	return NULL;
}

static void
status_check_parent(const struct cluster *c, const struct record *r, struct cluster_route_parent *p)
{
	const struct kube_object *o = cluster_find(c, KUBE_SERVICE, p->ref->ns, p->ref->name);
	const struct route_place *place = status_place(c, r, p->ref);
	struct route_ports ports;
	const char *why;

	if (o == NULL) {
		status_refuse(p, "NoMatchingParent",
			xasprintf("Service %s/%s does not exist", p->ref->ns, p->ref->name));
		return;
	}
	if ((why = cluster_route_refuses(&o->service)) != NULL) {
		status_refuse(p, "UnsupportedValue", xstrdup(why));
		return;
	}
	ports = cluster_route_ports(&o->service, p->ref);
	if (!cluster_route_any_port(&ports))
		status_refuse(p, "NoMatchingParent",
			xasprintf("Service %s/%s has no such port of HTTP, as its name (http..., "
				  "grpc...) "
				  "or appProtocol would say",
				p->ref->ns, p->ref->name));
	else if (place != NULL && place->verdict == ROUTE_CONFLICTED)
		status_refuse(p, "Conflicted",
			xstrdup("a GRPCRoute is for the same ports of the Service"));
	else if (place != NULL && place->verdict == ROUTE_BEYOND)
		status_refuse(p, "UnsupportedValue",
			xstrdup("with the older routes of the Service beyond what a node takes: "
				"delete routes, or split the Service"));
	else if (place != NULL && place->partly)
		p->accepted_message = xstrdup(
			"accepted, but at some ports of the Service a GRPCRoute counts instead");
}

/* What is accepted, but not all that its author may expect. */
static void
status_check_mirrors(const struct kube_route *route, struct cluster_route_parent *p)
{
	for (size_t i = 0; i < route->n_rules; i++)
		if (route->rules[i].rule.n_mirrors > 0 && p->accepted &&
			p->accepted_message == NULL)
			p->accepted_message = xstrdup(
				"accepted; RequestMirror copies requests with small bodies alone, "
				"and what is not copied is counted (mirrors_dropped)");
}

/* --- rules with a fault --------------------------------------------------------------------- */

static const char *
status_fault(enum kube_route_fault fault)
{
	return fault == KUBE_ROUTE_INCOMPATIBLE ? "IncompatibleFilters" : "UnsupportedValue";
}

/* "Dropped Rule 1 (answers 500): ...; Dropped Rule 3: ..." */
static size_t
status_faults(const struct kube_route *route, struct buf *out, enum kube_route_fault *first)
{
	size_t n = 0;

	for (size_t i = 0; i < route->n_rules; i++) {
		const struct kube_route_rule *rule = &route->rules[i];

		if (rule->fault == KUBE_ROUTE_WELL)
			continue;
		if (n++ == 0)
			*first = (enum kube_route_fault)rule->fault;
		buf_printf(out, "%sDropped Rule %zu%s: %s", n > 1 ? "; " : "", i,
			rule->dropped ? "" : " (its requests get 500)", rule->wrong);
	}
	return n;
}

static void
status_check_rules(const struct kube_route *route, struct cluster_route_parent *p)
{
	enum kube_route_fault first = KUBE_ROUTE_WELL;
	auto_buf struct buf text;
	size_t n;

	buf_init(&text, BUF_UNLIMITED);
	n = status_faults(route, &text, &first);
	if (n == 0 || !p->accepted)
		return;
	if (n == route->n_rules)
		status_refuse(p, status_fault(first), buf_take_str(&text));
	else
		p->partly = buf_take_str(&text);
}

/* --- ResolvedRefs --------------------------------------------------------------------------- */

static void
status_check_ref(const struct cluster *c, const struct record *r, struct cluster_route_parent *p,
	const struct route_backend *b)
{
	static const char *const reasons[] = {[ROUTE_REF_NOT_PERMITTED] = "RefNotPermitted",
		[ROUTE_REF_INVALID_KIND] = "InvalidKind",
		[ROUTE_REF_NOT_FOUND] = "BackendNotFound",
		[ROUTE_REF_PROTOCOL] = "UnsupportedProtocol"};
	enum route_ref_fault fault;
	char *why = NULL;

	if (!p->resolved)
		return;
	fault = cluster_route_resolve(c, r, p->ref->ns, b, &why);
	if (fault == ROUTE_REF_WELL)
		return;
	p->resolved = false;
	p->resolved_reason = reasons[fault];
	free(p->resolved_message);
	p->resolved_message = why;
}

static void
status_check_refs(const struct cluster *c, const struct record *r, struct cluster_route_parent *p)
{
	const struct kube_route *route = &r->object->route;

	for (size_t i = 0; i < route->n_rules; i++) {
		const struct kube_route_rule *from = &route->rules[i];

		for (size_t k = 0; k < from->rule.n_backends; k++) {
			const struct http_route_backend *b = &from->rule.backends[k];
			struct route_backend ref = {
				b->ns, b->name, from->backend_kinds[k], b->port};

			status_check_ref(c, r, p, &ref);
		}
		for (size_t k = 0; k < from->rule.n_mirrors; k++) {
			const struct http_route_mirror *m = &from->rule.mirrors[k];
			struct route_backend ref = {m->ns, m->name, from->mirror_kinds[k], m->port};

			status_check_ref(c, r, p, &ref);
		}
	}
}

/* --- a route -------------------------------------------------------------------------------- */

static void
status_build(const struct cluster *c, const struct record *r, struct cluster_route *to)
{
	const struct kube_route *route = &r->object->route;

	*to = (struct cluster_route){.kind = r->kind,
		.ns = r->ns,
		.name = r->name,
		.route = route,
		.api = *route->resource_version != '\0',
		.n_parents = route->n_parents,
		.parents = xcalloc(route->n_parents + 1, sizeof *to->parents)};
	for (size_t i = 0; i < route->n_parents; i++) {
		struct cluster_route_parent *p = &to->parents[i];

		*p = (struct cluster_route_parent){.ref = &route->parents[i],
			.accepted = true,
			.resolved = true,
			.accepted_reason = "Accepted",
			.resolved_reason = "ResolvedRefs"};
		if (r->kind == KUBE_TLS_POLICY)
			cluster_backend_tls_status(c, r, p);
		else
			status_check_parent(c, r, p);
		status_check_mirrors(route, p);
		status_check_rules(route, p);
		status_check_refs(c, r, p);
		if (p->accepted_message == NULL)
			p->accepted_message =
				xstrdup(r->kind == KUBE_TLS_POLICY ? "the policy is accepted"
								   : "the route is accepted");
		if (p->resolved_message == NULL)
			p->resolved_message = xstrdup("all references are resolved");
	}
}

static uint64_t
status_digest(const struct cluster_route *route)
{
	uint64_t hash = 1;

	for (size_t i = 0; i < route->n_parents; i++) {
		const struct cluster_route_parent *p = &route->parents[i];
		const char *const texts[] = {p->accepted_reason, p->accepted_message,
			p->resolved_reason, p->resolved_message,
			p->partly != NULL ? p->partly : ""};

		for (size_t k = 0; k < ARRAY_LEN(texts); k++)
			hash = hash64(texts[k], strlen(texts[k]) + 1, hash);
	}
	return hash | 1;
}

/* The first parent's that has one. */
static char *
status_problem(const struct cluster_route *route)
{
	for (size_t i = 0; i < route->n_parents; i++) {
		const struct cluster_route_parent *p = &route->parents[i];
		const char *problem = cluster_route_problem(p);

		if (problem != NULL)
			return xasprintf("Service %s/%s: %s", p->ref->ns, p->ref->name, problem);
	}
	return NULL;
}

bool
cluster_next_route(struct cluster *c, struct cluster_route *route)
{
	struct route_state *s = TAILQ_FIRST(&c->routes_waiting);
	uint64_t digest;

	if (s == NULL)
		return false;
	TAILQ_REMOVE(&c->routes_waiting, s, waiting);
	s->dirty = false;
	status_build(c, s->record, route);
	free(s->problem);
	s->problem = status_problem(route);
	digest = status_digest(route);
	route->news = digest != s->record->route_told;
	s->record->route_told = digest;
	return true;
}

void
cluster_route_fini(struct cluster_route *route)
{
	for (size_t i = 0; i < route->n_parents; i++) {
		free(route->parents[i].accepted_message);
		free(route->parents[i].resolved_message);
		free(route->parents[i].partly);
	}
	free(route->parents);
	*route = (struct cluster_route){0};
}

void
cluster_each_route(const struct cluster *c, cluster_route_fn *fn, void *arg)
{
	struct table_node *n = NULL;
	size_t slot = 0;

	while ((n = table_walk(&c->routes, &slot, n)) != NULL) {
		struct cluster_route route;

		status_build(c, link_record(n), &route);
		fn(arg, &route);
		cluster_route_fini(&route);
	}
}

void
cluster_each_route_problem(const struct cluster *c, cluster_route_problem_fn *fn, void *arg)
{
	struct table_node *n = NULL;
	size_t slot = 0;

	while ((n = table_walk(&c->routes, &slot, n)) != NULL) {
		const struct record *r = link_record(n);

		if (*r->object->route.resource_version != '\0')
			fn(arg, r->kind, r->ns, r->name,
				r->route->problem != NULL ? r->route->problem : "");
	}
}
