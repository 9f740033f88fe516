/*
 * Joins HTTPRoutes and GRPCRoutes into the views of the Services that are their parents (GAMMA,
 * GEP-1294). Routes of the Service's namespace are the producer's, for all callers; those of
 * another one are a consumer's, for the callers of that namespace, who then see no producer's route
 * of the port. At each port only routes of one kind count, a GRPCRoute before an HTTPRoute.
 *
 * Nobody's routes may hold back a Service's endpoints: routes get what the limits of a view leave,
 * the producer's first, then the older ones first.
 */
#include <string.h>

#include "model/cluster/cluster_route_private.h"

uint64_t
cluster_route_hash(char what, const char *ns, const char *name)
{
	return cluster_hash(what, ns, name, "route");
}

/* --- state ---------------------------------------------------------------------------------- */

void
cluster_route_touch(struct cluster *c, struct record *r)
{
	if (r->route == NULL || r->route->dirty)
		return;
	r->route->dirty = true;
	TAILQ_INSERT_TAIL(&c->routes_waiting, r->route, waiting);
}

void
cluster_route_link(struct cluster *c, struct record *r)
{
	(void)c;
	r->route = xcalloc(1, sizeof *r->route);
	r->route->record = r;
}

void
cluster_route_unlink(struct cluster *c, struct record *r)
{
	struct route_state *gone = take_ptr(&r->route);

	if (gone == NULL)
		return;
	if (gone->dirty)
		TAILQ_REMOVE(&c->routes_waiting, gone, waiting);
	free(gone->problem);
	free(gone);
}

/* --- which ports ---------------------------------------------------------------------------- */

const char *
cluster_route_refuses(const struct kube_service *s)
{
	if (s->excluded)
		return "the Service is excluded from the mesh by its labels";
	if (s->headless)
		return "a headless Service cannot be the parent of a route";
	if (*s->external_name != '\0')
		return "a Service of type ExternalName cannot be the parent of a route";
	return NULL;
}

struct route_ports
cluster_route_ports(const struct kube_service *s, const struct kube_route_parent *p)
{
	struct route_ports ports = {{0}};

	for (size_t i = 0; i < s->n_ports && i < MESH_PORTS_MAX; i++) {
		const struct kube_service_port *sp = &s->ports[i];

		if (cluster_port_mode(sp) == PORT_HTTP && (p->port == 0 || p->port == sp->port) &&
			(*p->section == '\0' || strcmp(p->section, sp->name) == 0))
			ports.bits[i / 64] |= UINT64_C(1) << (i % 64);
	}
	return ports;
}

bool
cluster_route_any_port(const struct route_ports *p)
{
	uint64_t any = 0;

	for (size_t i = 0; i < ARRAY_LEN(p->bits); i++)
		any |= p->bits[i];
	return any != 0;
}

static bool
is_grpc(const struct attached *a)
{
	return a->record->kind == KUBE_GRPCROUTE;
}

/* --- the routes of the Service -------------------------------------------------------------- */

static void
attach_add(struct attaching *a, const struct record *r, const char *name)
{
	const struct kube_route *route = &r->object->route;
	struct attached *to = &a->routes[a->n_routes];

	*to = (struct attached){.record = r};
	for (size_t i = 0; i < route->n_parents; i++) {
		const struct kube_route_parent *p = &route->parents[i];
		struct route_ports ports;

		if (strcmp(p->ns, a->ns) != 0 || strcmp(p->name, name) != 0)
			continue;
		ports = cluster_route_ports(a->service, p);
		for (size_t k = 0; k < ARRAY_LEN(ports.bits); k++)
			to->ports.bits[k] |= ports.bits[k];
	}
	a->n_routes += cluster_route_any_port(&to->ports);
}

static int
attach_compare(const void *x, const void *y, void *arg)
{
	const struct record *a = ((const struct attached *)x)->record;
	const struct record *b = ((const struct attached *)y)->record;
	const struct attaching *of = arg;
	bool a_own = strcmp(a->ns, of->ns) == 0, b_own = strcmp(b->ns, of->ns) == 0;
	int order = (int)b_own - (int)a_own;

	if (order == 0)
		order = strcmp(a->ns, b->ns);
	return order != 0 ? order : cluster_route_compare_age(a, b);
}

static void
attach_gather(struct attaching *a, const char *name)
{
	uint64_t hash = cluster_route_hash('s', a->ns, name);
	struct table_node *first = table_first(&a->c->routes_by_parent, hash);
	size_t n = 0;

	for (struct table_node *t = first; t != NULL; t = table_next(t))
		n++;
	a->routes = xcalloc(n + 1, sizeof *a->routes);
	for (struct table_node *t = first; t != NULL; t = table_next(t))
		attach_add(a, link_record(t), name);
	qsort_r(a->routes, a->n_routes, sizeof *a->routes, attach_compare, a);
	for (size_t i = 1; i < a->n_routes; i++) {
		bool same = strcmp(a->routes[i].record->ns, a->routes[i - 1].record->ns) == 0;

		a->routes[i].scope = same ? a->routes[i - 1].scope : i;
	}
}

/* --- one kind at each port ------------------------------------------------------------------ */

/* The ports at which routes of this kind count for the callers of one scope. */
static struct route_ports
scope_ports(const struct attaching *a, size_t scope, bool grpc)
{
	struct route_ports all = {{0}};

	for (size_t i = scope; i < a->n_routes && a->routes[i].scope == scope; i++)
		for (size_t k = 0; is_grpc(&a->routes[i]) == grpc && k < ARRAY_LEN(all.bits); k++)
			all.bits[k] |= a->routes[i].ports.bits[k];
	return all;
}

static void
attach_resolve_conflicts(struct attaching *a)
{
	struct route_ports grpc = {{0}};

	for (size_t i = 0; i < a->n_routes; i++) {
		struct attached *r = &a->routes[i];

		if (r->scope == i)
			grpc = scope_ports(a, i, true);
		for (size_t k = 0; k < ARRAY_LEN(grpc.bits) && !is_grpc(r); k++) {
			r->partly = r->partly || (r->ports.bits[k] & grpc.bits[k]) != 0;
			r->ports.bits[k] &= ~grpc.bits[k];
		}
		if (!cluster_route_any_port(&r->ports))
			r->verdict = ROUTE_CONFLICTED;
	}
}

/* --- groups of ports ------------------------------------------------------------------------ */

static bool
group_is_like(const struct attaching *a, const struct group *g, size_t port)
{
	for (size_t i = g->scope; i < a->n_routes && a->routes[i].scope == g->scope; i++)
		if (cluster_route_has_port(&a->routes[i].ports, port) !=
			cluster_route_has_port(&a->routes[i].ports, g->port))
			return false;
	return true;
}

static void
attach_group_port(struct attaching *a, size_t scope, size_t port, bool grpc)
{
	struct group *g;
	size_t i = 0;

	while (i < a->n_groups &&
		(a->groups[i].scope != scope || !group_is_like(a, &a->groups[i], port)))
		i++;
	if (i == a->n_groups) {
		a->groups = xrealloc(a->groups, (a->n_groups + 1) * sizeof *a->groups);
		a->groups[a->n_groups++] =
			(struct group){.scope = scope, .port = port, .grpc = grpc};
	}
	g = &a->groups[i];
	g->ports[g->n_ports++] = a->service->ports[port].port;
}

static void
attach_group(struct attaching *a)
{
	for (size_t i = 0; i < a->n_routes; i++) {
		struct route_ports grpc, http;

		if (a->routes[i].scope != i)
			continue;
		grpc = scope_ports(a, i, true);
		http = scope_ports(a, i, false);
		for (size_t p = 0; p < a->service->n_ports; p++)
			if (cluster_route_has_port(&grpc, p) || cluster_route_has_port(&http, p))
				attach_group_port(a, i, p, cluster_route_has_port(&grpc, p));
	}
}

/* --- the whole ------------------------------------------------------------------------------ */

static void
attach_keep(const struct attaching *a, struct joint *j)
{
	j->n_places = a->n_routes;
	j->places = xcalloc(a->n_routes + 1, sizeof *j->places);
	for (size_t i = 0; i < a->n_routes; i++)
		j->places[i] = (struct route_place){
			a->routes[i].record, a->routes[i].verdict, a->routes[i].partly};
}

void
cluster_route_attach(struct cluster *c, struct joint *j, struct view *v)
{
	const struct kube_object *o = cluster_find(c, KUBE_SERVICE, j->ns, j->name);
	struct attaching a = {.c = c, .ns = j->ns};

	free(take_ptr(&j->places));
	j->n_places = 0;
	if (c->routes.n == 0 || v == NULL || o == NULL ||
		cluster_route_refuses(&o->service) != NULL)
		return;
	a.service = &o->service;
	attach_gather(&a, j->name);
	if (a.n_routes > 0) {
		a.to = http_routes_new();
		attach_resolve_conflicts(&a);
		attach_group(&a);
		cluster_route_build(&a, v);
		attach_keep(&a, j);
		if (a.to->n_tables > 0)
			v->routes = take_ptr(&a.to);
		http_routes_unref(&a.to);
	}
	free(a.groups);
	free(a.routes);
}
