/*
 * Where backendRefs lead. A Service of another namespace needs a ReferenceGrant there, unless it is
 * in the namespace of the route's parent: who calls the parent calls that namespace anyway, and a
 * consumer's route mostly leads back to where the call was going (GEP-1294, Namespace boundaries).
 */
#include <string.h>
#include <strings.h>

#include "model/cluster/cluster_private.h"

static bool
grant_names(const struct kube_grant *g, const struct record *route, const char *service)
{
	bool from = false, to = false;

	for (size_t i = 0; i < g->n_from; i++)
		from = from ||
			(strcmp(g->from[i].ns, route->ns) == 0 &&
				strcmp(g->from[i].kind, kube_kind_name(route->kind)) == 0);
	for (size_t i = 0; i < g->n_to; i++)
		to = to || *g->to[i] == '\0' || strcmp(g->to[i], service) == 0;
	return from && to;
}

static bool
ref_is_granted(
	const struct cluster *c, const struct record *route, const char *ns, const char *name)
{
	struct table_node *n = table_first(&c->grants, cluster_route_hash('g', ns, ""));

	for (; n != NULL; n = table_next(n)) {
		const struct record *r = link_record(n);

		if (strcmp(r->ns, ns) == 0 && grant_names(&r->object->grant, route, name))
			return true;
	}
	return false;
}

static const struct kube_service_port *
ref_port(const struct kube_service *s, uint16_t port)
{
	const struct kube_service_port *found = NULL;

	for (size_t i = 0; i < s->n_ports; i++)
		if (s->ports[i].port == port && (found == NULL || s->ports[i].protocol == KUBE_TCP))
			found = &s->ports[i];
	return found;
}

/* A port that does not say its protocol is one of HTTP, since a route of HTTP leads to it. The same
 * with TLS is what a BackendTLSPolicy decides. */
static bool
ref_speaks_http(const struct kube_service_port *p)
{
	const char *says = p->app_protocol;

	return p->protocol == KUBE_TCP &&
		(*says == '\0' || cluster_port_mode(p) == PORT_HTTP ||
			strcasecmp(says, "https") == 0 ||
			strcasecmp(says, "kubernetes.io/wss") == 0);
}

static char *
ref_explain(enum route_ref_fault fault, const struct kube_object *service,
	const struct route_backend *b)
{
	switch (fault) {
	case ROUTE_REF_WELL:
		break;
	case ROUTE_REF_NOT_PERMITTED:
		return xasprintf(
			"no ReferenceGrant in namespace %s permits Service %s", b->ns, b->name);
	case ROUTE_REF_INVALID_KIND:
		if (*b->kind != '\0')
			return xasprintf("backendRef %s is a %s: only Services are supported",
				b->name, b->kind);
		return xasprintf("Service %s/%s is of type ExternalName", b->ns, b->name);
	case ROUTE_REF_NOT_FOUND:
		if (service != NULL && service->service.excluded)
			return xasprintf("Service %s/%s is excluded from the mesh by its labels",
				b->ns, b->name);
		if (service == NULL)
			return xasprintf("Service %s/%s does not exist", b->ns, b->name);
		if (b->port == 0)
			return xasprintf("backendRef %s needs a port", b->name);
		return xasprintf("Service %s/%s has no port %u", b->ns, b->name, b->port);
	case ROUTE_REF_PROTOCOL:
		return xasprintf("port %u of Service %s/%s is not one of HTTP, as its protocol or "
				 "appProtocol says",
			b->port, b->ns, b->name);
	}
	return NULL;
}

/* A reference that is not permitted does not tell whether the Service exists. */
static enum route_ref_fault
ref_check(const struct cluster *c, const struct record *route, const char *parent_ns,
	const struct route_backend *b, const struct kube_object *service)
{
	const struct kube_service_port *port;

	if (*b->kind != '\0')
		return ROUTE_REF_INVALID_KIND;
	if (strcmp(b->ns, route->ns) != 0 && strcmp(b->ns, parent_ns) != 0 &&
		!ref_is_granted(c, route, b->ns, b->name))
		return ROUTE_REF_NOT_PERMITTED;
	if (service == NULL || service->service.excluded)
		return ROUTE_REF_NOT_FOUND;
	if (*service->service.external_name != '\0')
		return ROUTE_REF_INVALID_KIND;
	port = ref_port(&service->service, b->port);
	if (port == NULL)
		return ROUTE_REF_NOT_FOUND;
	return ref_speaks_http(port) ? ROUTE_REF_WELL : ROUTE_REF_PROTOCOL;
}

enum route_ref_fault
cluster_route_resolve(const struct cluster *c, const struct record *route, const char *parent_ns,
	const struct route_backend *b, char **why)
{
	const struct kube_object *service = cluster_find(c, KUBE_SERVICE, b->ns, b->name);
	enum route_ref_fault fault = ref_check(c, route, parent_ns, b, service);

	if (why != NULL)
		*why = ref_explain(fault, service, b);
	return fault;
}
