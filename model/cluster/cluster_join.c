#include <string.h>
#include <strings.h>

#include "model/cluster/cluster_private.h"
#include "model/mesh.h"

/* --- choice of protocol --------------------------------------------------------------------- */

static bool
has_prefix(const char *name, const char *prefix)
{
	size_t len = strlen(prefix);

	return strncmp(name, prefix, len) == 0 && (name[len] == '\0' || name[len] == '-');
}

/* http, http-admin, http8080, http2, h2c, grpc, ws; but not https, http3, httpd. */
static bool
names_http(const char *name)
{
	static const char *const prefixes[] = {"http", "http2", "h2c", "grpc", "ws"};
	size_t digits;

	for (size_t i = 0; i < ARRAY_LEN(prefixes); i++)
		if (has_prefix(name, prefixes[i]))
			return true;
	if (strncmp(name, "http", 4) != 0 || has_prefix(name, "http3"))
		return false;
	digits = strspn(name + 4, "0123456789");
	return digits > 0 && (name[4 + digits] == '\0' || name[4 + digits] == '-');
}

enum port_mode
cluster_port_mode(const struct kube_service_port *p)
{
	static const char *const http[] = {
		"http", "http2", "grpc", "kubernetes.io/h2c", "kubernetes.io/ws"};

	if (p->protocol == KUBE_UDP)
		return PORT_UDP;
	if (*p->app_protocol == '\0')
		return names_http(p->name) ? PORT_HTTP : PORT_TCP;
	for (size_t i = 0; i < ARRAY_LEN(http); i++)
		if (strcasecmp(p->app_protocol, http[i]) == 0)
			return PORT_HTTP;
	return PORT_TCP;
}

/* --- ports ---------------------------------------------------------------------------------- */

/* A new port; NULL when the view has reached the limit. */
static struct view_port *
new_port(struct joining *j, const struct kube_service_port *sp, uint16_t number)
{
	struct view *v = j->view;

	if (v->n_ports == MESH_PORTS_MAX)
		return NULL;
	if (v->n_ports == j->ports_room) {
		j->ports_room = MAX(j->ports_room * 2, (size_t)4);
		v->ports = xrealloc(v->ports, j->ports_room * sizeof *v->ports);
	}
	j->at = sp;
	j->room = 0;
	j->port = &v->ports[v->n_ports++];
	*j->port = (struct view_port){.port = number, .mode = (uint8_t)cluster_port_mode(sp)};
	return j->port;
}

static void
add_members(struct joining *j, const struct members *members)
{
	for (size_t i = 0; i < members->n && j->beyond == NULL; i++) {
		uint16_t port = join_member_port(j, members->list[i], j->at);

		if (port != 0)
			join_add(j, members->list[i], port);
	}
	join_dedupe(j);
}

static void
join_port(struct joining *j, const struct kube_service_port *sp, const struct members *members)
{
	struct view_port *port = new_port(j, sp, sp->port);

	if (port == NULL)
		return;
	port->name = xstrdup(sp->name);
	port->node_port = j->service->headless ? 0 : sp->node_port;
	if (*j->view->external_name != '\0')
		return;
	add_members(j, members);
	if (port->n_endpoints > 0)
		return;
	if (j->nobody)
		join_explain(j, CLUSTER_NO_ENDPOINTS,
			"no selector, no EndpointSlice and no Endpoints of this name");
	else if (members->n == 0 && j->missing != NULL)
		join_explain(j, CLUSTER_NO_ENDPOINTS,
			"no pod with an address; its endpoints name pods that do not exist, such "
			"as %s",
			j->missing);
	else if (members->n == 0)
		join_explain(j, CLUSTER_NO_ENDPOINTS, "no pod with an address");
	else if (!join_explain_target(j, sp, members))
		join_explain(j, CLUSTER_TARGET_PORT,
			"its slices or Endpoints have no port named '%s' of this protocol",
			sp->name);
}

/* --- ports that the Service does not declare ------------------------------------------------ */

static bool
has_port(const struct view *v, uint16_t number, bool udp)
{
	for (size_t i = 0; i < v->n_ports; i++)
		if (v->ports[i].port == number && (v->ports[i].mode == PORT_UDP) == udp)
			return true;
	return false;
}

void
cluster_join_extra(struct joining *j, const struct kube_service_port *sp, uint16_t number,
	const struct members *members)
{
	struct view_port *port;

	if (number == 0 || sp->protocol == KUBE_SCTP ||
		has_port(j->view, number, sp->protocol == KUBE_UDP))
		return;
	port = new_port(j, sp, number);
	if (port == NULL)
		return;
	port->name = xstrdup("");
	port->extra = true;
	add_members(j, members);
}

/* The common port of all endpoints; 0 when they differ, or there are none. */
static uint16_t
common_target(const struct view_port *p)
{
	uint16_t target = 0;

	for (size_t i = 0; i < p->n_endpoints; i++) {
		const struct view_endpoint *e = &p->endpoints[i];
		uint16_t port = *e->pod != '\0' ? e->pod_port : e->given_port;

		if (target != 0 && port != target)
			return 0;
		target = port;
	}
	return target;
}

/* Clients that resolve a headless service by other DNS get the pods' addresses, and call the pods'
 * own ports. */
static void
join_targets(struct joining *j, const struct members *members)
{
	size_t n = j->view->n_ports;

	for (size_t i = 0, k = 0; i < j->service->n_ports && k < n; i++) {
		const struct kube_service_port *sp = &j->service->ports[i];

		if (sp->protocol != KUBE_SCTP)
			cluster_join_extra(j, sp, common_target(&j->view->ports[k++]), members);
	}
}

/* Adds all ports that the pods declare. */
void
cluster_join_declared(struct joining *j, const struct members *members)
{
	j->declared = true;
	for (size_t i = 0; i < members->n; i++) {
		const struct kube_object *pod = members->list[i]->pod;

		for (size_t k = 0; pod != NULL && k < pod->pod.n_ports; k++) {
			const struct kube_container_port *cp = &pod->pod.ports[k];
			struct kube_service_port sp = {
				.name = cp->name,
				.app_protocol = (char[]){""},
				.protocol = cp->protocol,
				.port = cp->port,
			};

			cluster_join_extra(j, &sp, cp->port, members);
		}
	}
	j->declared = false;
}

/* --- views ---------------------------------------------------------------------------------- */

struct view *
cluster_join_new_view(struct joining *j, const char *hostname)
{
	const struct kube_service *s = j->service;
	bool own = *hostname == '\0';
	struct view *v = xcalloc(1, sizeof *v);

	v->ns = xstrdup(j->ns);
	v->name = own ? xstrdup(j->name) : xasprintf("%s.%s", hostname, j->name);
	v->cluster_ip = xstrdup(s->cluster_ip);
	v->cluster_ip6 = xstrdup(s->cluster_ip6);
	v->external_name = xstrdup(s->external_name);
	v->headless = s->headless;
	v->lb = s->lb;
	v->hash_key = xstrdup(s->hash_key);
	v->health_path = xstrdup(s->health_path);
	/* A client that names a pod wants that pod, wherever it runs. */
	v->local_only = own && s->local_only;
	v->external_local = s->external_local;
	v->health_port = own ? s->health_port : 0;
	v->gateway = s->gateway;
	view_names_copy(&v->external_ips, &s->external_ips);
	v->distribution = s->distribution;
	v->allow_from = xstrdup(s->allow_from);
	cluster_rule_apply(j->c, j->joint, s, v);
	return v;
}

/* Does the hub dial endpoints of the view for nodes that no Pod stands for? */
static bool
join_is_cloud(const struct joining *j)
{
	const struct view *v = j->view;

	if (j->c->dials == NULL || !j->c->dials(j->c->dials_arg, v->ns, v->name))
		return false;
	for (size_t i = 0; i < v->n_ports; i++)
		for (size_t k = 0; k < v->ports[i].n_endpoints; k++)
			if (v->ports[i].endpoints[k].given_port != 0)
				return true;
	return false;
}

/* The service's own view, or the view of the pods that share a hostname. */
static void
join_view(struct joining *j, const char *hostname, const struct members *members)
{
	j->why = (struct reasons){.problem = CLUSTER_WELL};
	j->gate_pod = NULL;
	j->ports_room = j->n_endpoints = 0;
	j->view = cluster_join_new_view(j, hostname);
	if (*hostname == '\0' && *j->service->nodes_wrong != '\0')
		cluster_reasons_set(
			&j->why, CLUSTER_NODES_SELECTOR, xstrdup(j->service->nodes_wrong));
	else if (*hostname == '\0' && *j->service->allow_from_wrong != '\0')
		cluster_reasons_set(
			&j->why, CLUSTER_ALLOW_FROM, xstrdup(j->service->allow_from_wrong));
	for (size_t i = 0; i < j->service->n_ports; i++)
		if (j->service->ports[i].protocol != KUBE_SCTP)
			join_port(j, &j->service->ports[i], members);
	/* Unreachable ports that the Service does not declare are not worth a reason. */
	j->quiet = true;
	if (j->service->headless)
		join_targets(j, members);
	if (*hostname != '\0')
		cluster_join_declared(j, members);
	j->quiet = false;
	j->view->cloud = join_is_cloud(j);
	join_sort_gates(j->view);
	j->views = xrealloc(j->views, (j->n_views + 1) * sizeof *j->views);
	j->views[j->n_views++] = (struct joined){j->view, j->why, j->service->nodes, false};
	if (j->beyond == NULL)
		return;
	cluster_reasons_set(&j->views[j->n_views - 1].why, CLUSTER_LIMITS, take_ptr(&j->beyond));
	j->views[j->n_views - 1].beyond = true;
}

static int
compare_hostnames(const void *a, const void *b)
{
	const struct member *x = *(const struct member *const *)a;
	const struct member *y = *(const struct member *const *)b;
	int order = strcmp(x->hostname, y->hostname);

	if (order == 0)
		order = strcmp(
			x->pod != NULL ? x->pod->name : "", y->pod != NULL ? y->pod->name : "");
	return order;
}

/* The pods of a headless service that have a hostname each get a name of their own. */
static void
join_named_pods(struct joining *j, const struct members *all)
{
	struct members named = {.list = xcalloc(all->n + 1, sizeof *named.list)};

	for (size_t i = 0; i < all->n; i++)
		if (*all->list[i]->hostname != '\0')
			named.list[named.n++] = all->list[i];
	qsort(named.list, named.n, sizeof *named.list, compare_hostnames);
	for (size_t i = 0, n; i < named.n; i += n) {
		const char *hostname = named.list[i]->hostname;
		struct members group = {.list = named.list + i};

		for (n = 1; i + n < named.n && strcmp(named.list[i + n]->hostname, hostname) == 0;)
			n++;
		group.n = n;
		if (j->n_views > MESH_ENDPOINTS_MAX) {
			cluster_reasons_set(&j->views[0].why, CLUSTER_PARTLY,
				xasprintf("more than %d hostnames, the rest has no names",
					MESH_ENDPOINTS_MAX));
			break;
		}
		join_view(j, hostname, &group);
	}
	free(named.list);
}

size_t
cluster_join(const struct cluster *c, const struct joint *joint, struct joined **views)
{
	const struct kube_object *o = cluster_find(c, KUBE_SERVICE, joint->ns, joint->name);
	struct joining j = {.c = c, .joint = joint, .ns = joint->ns, .name = joint->name};
	struct members all = {0};

	*views = NULL;
	if (joint->is_pod)
		return cluster_pod_join(c, joint, views);
	if (o == NULL || o->service.excluded)
		return 0;
	j.service = &o->service;
	join_gather(&j, joint);
	all.list = xcalloc(j.n_members + 1, sizeof *all.list);
	for (; all.n < j.n_members; all.n++)
		all.list[all.n] = &j.members[all.n];
	if (all.n > VIEW_MAX_MEMBERS)
		join_beyond(&j, "it has more than %d pods and addresses", VIEW_MAX_MEMBERS);
	join_view(&j, "", &all);
	if (o->service.headless && all.n <= VIEW_MAX_MEMBERS)
		join_named_pods(&j, &all);
	free(all.list);
	join_members_free(&j);
	*views = j.views;
	return j.n_views;
}
