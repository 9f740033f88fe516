/*
 * Decides which of the routes a caller may use: the rules are checked for the target that the
 * caller names, and then for each route, because objects of the cluster, which other people write,
 * say where a route ends.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/core/special_addr.h"
#include "hub/routing/routes_private.h"

/* Finds the owner of the address on a route that an EndpointSlice defines: a node, by its Node
 * object, or a pod of another namespace than `ns`. On routes that the hub dials, only nodes that
 * the hub dials itself count. */
static bool
routes_owner(const struct routes_finder *f, const struct way *way, const struct in6_addr *ip,
	const char *ns, struct cluster_place *owner)
{
	char host[INET6_ADDRSTRLEN];
	struct cluster_place *places;
	bool found = false;
	size_t n;

	if (IN6_IS_ADDR_V4MAPPED(ip))
		inet_ntop(AF_INET, &ip->s6_addr[12], host, sizeof host);
	else
		inet_ntop(AF_INET6, ip, host, sizeof host);
	n = cluster_places(f->config.cluster, host, NULL, 0);
	places = xcalloc(n + 1, sizeof *places);
	n = cluster_places(f->config.cluster, host, places, n);
	for (size_t i = 0; i < n && !found; i++) {
		const struct cluster_place *p = &places[i];

		if (*p->pod != '\0' && strcmp(p->ns, ns) == 0)
			continue;
		found = *way->node != '\0' ? strcmp(p->node, way->node) == 0
					   : !routes_at_edge(f, p->node);
		*owner = *p;
	}
	free(places);
	return found;
}

/* Such a route needs the rule that the target would need without the EndpointSlice, because anyone
 * who may write a Service may write that object. */
static const char *
routes_owner_objects(struct routes_finder *f, const struct caller *caller, const struct way *way,
	const struct in6_addr *ip, uint16_t port, const struct acl_target *asked)
{
	struct acl_target target = {.kind = TARGET_NODE, .port = port};
	const char *ns = asked->ns != NULL ? asked->ns : "";
	struct cluster_place owner;
	bool of_node;

	if (!routes_owner(f, way, ip, ns, &owner))
		return NULL;
	of_node = *owner.pod == '\0';
	/* Whether a node may reach a Service is decided for that Service: to close the pod to it
	 * takes a policy (model/cluster/cluster_callers). */
	if (!of_node && caller->node[0] != '\0' && !way->without_pod)
		return NULL;
	/* The API server writes its own endpoints, which are ports of nodes. */
	if (of_node && asked->kind == TARGET_CLOUD_SERVICE &&
		service_is_apiserver(asked->ns, asked->name))
		return NULL;
	target.node = owner.node;
	if (!of_node) {
		target.kind = TARGET_POD;
		target.ns = owner.ns;
		target.name = owner.pod;
	}
	if (acl_check(f->config.access, caller, &target))
		return NULL;
	return of_node ? "an EndpointSlice leads to a port of a node itself, which takes a rule to "
			 "NODE:PORT, or a pod of the host's network that declares the port"
		       : "an EndpointSlice leads to a pod of another namespace, which takes a rule "
			 "to pod/NAMESPACE/POD";
}

/* Why this route must not be used; NULL: it may. */
static const char *
routes_objection(struct routes_finder *f, const struct caller *caller, const struct way *way,
	const struct acl_target *asked)
{
	const char *why = NULL;
	struct in6_addr ip;
	struct addr to;

	if (*way->node != '\0')
		why = f->config.refuses(f->config.arg, way->node, way->authority);
	if (why != NULL || addr_parse(&to, way->authority, 0, NULL) < 0 || !addr_ip(&to, &ip))
		return why;
	ip = special_addr_inner(&ip);
	if (*way->node == '\0')
		why = self_guard_refuses(f->config.guard, &to, caller);
	if (why == NULL && *way->node == '\0' && caller->node[0] != '\0' &&
		special_addr_class(&ip) != SPECIAL_NONE)
		return "an address of a special kind, which the hub dials for no node";
	if (why != NULL || !way->given)
		return why;
	return routes_owner_objects(f, caller, way, &ip, addr_port(&to), asked);
}

unsigned
routes_admit(const struct routes_finder *f, const struct caller *caller, struct routes *out)
{
	if (caller->own_dial)
		return routes_refuse(
			out, 403, "the hub has dialled itself: nothing is opened to it");
	return acl_admits(f->config.access, caller)
		? 0
		: routes_refuse(out, 403, "no rule of access opens anything to this caller");
}

unsigned
routes_judge(struct routes_finder *f, const struct caller *caller, struct routes *w)
{
	const char *why = NULL, *first = NULL;
	char authority[sizeof w->list[0].authority] = "";
	size_t kept = 0;

	if (!acl_check(f->config.access, caller, &w->target) &&
		w->target.kind == TARGET_CLOUD_SERVICE)
		return routes_refuse(w, 403,
			"no rule of access gives a node endpoints of %s/%s that no Pod stands for: "
			"{from: 'node:%.64s', to: ['cloud/%s/%s:%u']}",
			w->target.ns, w->target.name, caller->node, w->target.ns, w->target.name,
			w->target.port);
	if (!acl_check(f->config.access, caller, &w->target))
		return routes_refuse(w, 403, "no rule of access opens this target to this caller");
	for (size_t i = 0; i < w->n; i++) {
		if ((why = routes_objection(f, caller, &w->list[i], &w->target)) == NULL) {
			if (kept != i)
				w->list[kept] = w->list[i];
			kept++;
		} else if (first == NULL) {
			first = why;
			snprintf(authority, sizeof authority, "%s", w->list[i].authority);
		}
	}
	if (kept == 0 && first != NULL)
		return routes_refuse(w, 403, "%s: %s", authority, first);
	w->n = kept;
	return 0;
}
