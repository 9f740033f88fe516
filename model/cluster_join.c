#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "model/check.h"
#include "model/cluster_private.h"
#include "model/mesh.h"

/* One service being joined, and the port at which we are. */
struct joining {
	const struct cluster *c;
	const char *ns, *name;
	const struct kube_service *service;
	const struct kube_service_port *at;
	struct view_port *port;
	size_t room; /* endpoints of `port` */
	char *reason;
};

/* A pod or address that serves the port. */
struct member {
	const struct kube_object *pod; /* NULL: a bare address */
	const char *ip, *node, *zone, *hostname;
	uint16_t port;
	uint8_t flags;
};

/* Only the first is kept: it is for a person who wonders about one service. */
static void printf_like(2, 3) explain(struct joining *j, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	if (j->reason != NULL)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	j->reason = xasprintf("port %u: %s", j->at->port, text);
}

/* --- choice of protocol ------------------------------------------------------ */

static bool
has_prefix(const char *name, const char *prefix)
{
	size_t len = strlen(prefix);

	return strncmp(name, prefix, len) == 0 && (name[len] == '\0' || name[len] == '-');
}

/* http, http-admin, http8080, ws; but not https, http2 (without TLS: h2c), http3, httpd. */
static bool
names_http(const char *name)
{
	size_t digits;

	if (has_prefix(name, "http") || has_prefix(name, "ws"))
		return true;
	if (strncmp(name, "http", 4) != 0 || has_prefix(name, "http2") || has_prefix(name, "http3"))
		return false;
	digits = strspn(name + 4, "0123456789");
	return digits > 0 && (name[4 + digits] == '\0' || name[4 + digits] == '-');
}

static enum port_mode
choose_mode(const struct kube_service_port *p)
{
	if (p->protocol == KUBE_UDP)
		return PORT_UDP;
	if (*p->app_protocol == '\0')
		return names_http(p->name) ? PORT_HTTP : PORT_TCP;
	if (strcasecmp(p->app_protocol, "http") == 0 ||
		strcmp(p->app_protocol, "kubernetes.io/ws") == 0)
		return PORT_HTTP;
	return PORT_TCP;
}

/* --- members --------------------------------------------------------------------- */

static const struct kube_container_port *
find_number(const struct kube_pod *p, uint16_t port, uint8_t protocol)
{
	const struct kube_container_port *found = NULL;

	for (size_t i = 0; i < p->n_ports; i++) {
		if (p->ports[i].port != port || p->ports[i].protocol != protocol)
			continue;
		/* One port may be declared twice; that with a hostPort is of use. */
		if (found == NULL || (found->host_port == 0 && p->ports[i].host_port != 0))
			found = &p->ports[i];
	}
	return found;
}

static uint16_t
find_target(const struct kube_pod *p, const struct kube_service_port *sp)
{
	if (sp->target != 0)
		return sp->target;
	for (size_t i = 0; i < p->n_ports; i++)
		if (p->ports[i].protocol == sp->protocol &&
			strcmp(p->ports[i].name, sp->target_name) == 0)
			return p->ports[i].port;
	return 0;
}

static char *
copy(const char *text, const char *otherwise)
{
	return xstrdup(text != NULL && *text != '\0' ? text : otherwise);
}

/* hostNetwork: the pod's own port; hostPort: at its hostIP, if that says one, else at the node's. */
static void
set_host_way(
	struct joining *j, struct view_endpoint *e, const struct kube_object *pod, uint16_t port)
{
	const struct kube_pod *p = &pod->pod;
	const struct kube_container_port *cp = find_number(p, port, j->at->protocol);

	if (p->host_network) {
		e->host_ip = copy(p->host_ip, p->pod_ip);
		e->host_port = *e->host_ip != '\0' ? port : 0;
		return;
	}
	if (cp == NULL || cp->host_port == 0) {
		e->host_ip = xstrdup("");
		explain(j,
			"pod %s has no hostPort for container port %u: only its own node can dial "
			"it",
			pod->name, port);
		return;
	}
	e->host_ip = copy(cp->host_ip, p->host_ip);
	e->host_port = *e->host_ip != '\0' ? cp->host_port : 0;
	if (e->host_port == 0)
		explain(j, "pod %s has a hostPort, but no status.hostIP", pod->name);
}

static void
set_node(struct joining *j, struct view_endpoint *e, const char *zone)
{
	const struct kube_object *o = cluster_find(j->c, KUBE_NODE, "", e->node);
	const struct kube_node *node = o != NULL ? &o->node : NULL;
	struct in6_addr host;

	e->site = xstrdup(node != NULL ? node->site : "");
	e->zone = copy(zone, node != NULL ? node->zone : "");
	e->node_public = node != NULL && node->is_public;
	e->public_ip = xstrdup("");
	if (node == NULL || *node->public_ip == '\0' || e->host_port == 0)
		return;
	/* A port that is bound to loopback is not at the public address. */
	if (ip_parse(e->host_ip, &host) && ip_is_loopback(&host))
		return;
	free(e->public_ip);
	e->public_ip = xstrdup(node->public_ip);
}

static struct view_endpoint *
new_endpoint(struct joining *j)
{
	struct view_port *p = j->port;

	if (p->n_endpoints == j->room) {
		j->room = MAX(j->room * 2, (size_t)4);
		p->endpoints = xrealloc(p->endpoints, j->room * sizeof *p->endpoints);
	}
	p->endpoints[p->n_endpoints] = (struct view_endpoint){0};
	return &p->endpoints[p->n_endpoints++];
}

static void
add_member(struct joining *j, const struct member *m)
{
	struct view_endpoint *e = new_endpoint(j);
	const struct kube_pod *p = m->pod != NULL ? &m->pod->pod : NULL;

	e->flags = m->flags;
	e->hostname = copy(m->hostname, "");
	if (p != NULL) {
		e->node = copy(p->node, m->node);
		e->pod = xstrdup(m->pod->name);
		e->pod_ip = copy(p->pod_ip, m->ip);
		e->pod_port = m->port;
		e->given_ip = xstrdup("");
		set_host_way(j, e, m->pod, m->port);
	} else {
		e->node = xstrdup(m->node);
		e->pod = xstrdup("");
		e->pod_ip = xstrdup("");
		e->host_ip = xstrdup("");
		e->given_ip = xstrdup(m->ip);
		e->given_port = m->port;
	}
	set_node(j, e, m->zone);
}

/* An address passes on when a pod goes: the one that stays is meant, else any, but always the same. */
static const struct kube_object *
likelier(const struct kube_object *a, const struct kube_object *b)
{
	if (a == NULL || a->pod.deleting != b->pod.deleting)
		return a == NULL || a->pod.deleting ? b : a;
	return strcmp(a->name, b->name) < 0 ? a : b;
}

/* The pod behind an endpoint: named, or found by its node and address (pods of two nodes may share one). */
static const struct kube_object *
find_pod(const struct joining *j, const struct kube_endpoint *e)
{
	const struct kube_object *found = NULL;
	struct table_node *n;

	if (*e->pod != '\0')
		return cluster_find(j->c, KUBE_POD, j->ns, e->pod);
	if (*e->node == '\0')
		return NULL;
	n = table_first(&j->c->pods_by_ip, cluster_ip_hash(e->node, e->ip));
	for (; n != NULL; n = table_next(n)) {
		const struct record *r = node_of(struct link, n)->target;
		const struct kube_pod *p = &r->object->pod;

		if (strcmp(r->ns, j->ns) == 0 && strcmp(p->node, e->node) == 0 &&
			strcmp(p->pod_ip, e->ip) == 0 && !p->ended)
			found = likelier(found, r->object);
	}
	return found;
}

/* Slices and Endpoints carry ports that are resolved already, under the service port's name. */
static bool
join_subset(struct joining *j, const struct kube_subset *s)
{
	bool serves = false;

	for (size_t i = 0; i < s->n_ports; i++) {
		const struct kube_endpoint_port *p = &s->ports[i];

		if (p->protocol != j->at->protocol || strcmp(p->name, j->at->name) != 0)
			continue;
		serves = true;
		for (size_t k = 0; k < s->n_endpoints; k++) {
			const struct kube_endpoint *e = &s->endpoints[k];
			struct member m = {
				.pod = find_pod(j, e),
				.ip = e->ip,
				.node = e->node,
				.zone = e->zone,
				.hostname = e->hostname,
				.port = p->port != 0 ? p->port : j->at->port,
				.flags = e->flags,
			};

			add_member(j, &m);
		}
	}
	return serves;
}

static bool
join_subsets(struct joining *j, const struct kube_endpoints *e)
{
	bool serves = false;

	for (size_t i = 0; i < e->n_subsets; i++)
		serves |= join_subset(j, &e->subsets[i]) || e->subsets[i].n_endpoints == 0;
	return serves;
}

/* As the EndpointSlice controller derives conditions from a pod. */
static uint8_t
pod_flags(const struct kube_pod *p, bool publish_not_ready)
{
	bool ready = publish_not_ready || (p->ready && !p->deleting);

	return (uint8_t)((ready ? ENDPOINT_READY : 0) | (p->ready ? ENDPOINT_SERVING : 0) |
		(p->deleting ? ENDPOINT_TERMINATING : 0));
}

static void
join_pod(struct joining *j, const struct kube_object *o)
{
	const struct kube_pod *p = &o->pod;
	const char *ip = *p->pod_ip == '\0' && p->host_network ? p->host_ip : p->pod_ip;
	struct member m = {
		.pod = o,
		.ip = ip,
		.node = p->node,
		.hostname = strcmp(p->subdomain, j->name) == 0 ? p->hostname : "",
		.port = find_target(p, j->at),
		.flags = pod_flags(p, j->service->publish_not_ready),
	};

	if (p->ended || *ip == '\0')
		return;
	if (m.port == 0)
		explain(j, "pod %s has no container port named %s", o->name, j->at->target_name);
	else
		add_member(j, &m);
}

static void
join_selected(struct joining *j)
{
	const struct kube_labels *selector = &j->service->selector;
	struct table_node *n =
		table_first(&j->c->pods_by_label, cluster_label_hash(j->ns, &selector->list[0]));

	for (; n != NULL; n = table_next(n)) {
		const struct record *r = node_of(struct link, n)->target;

		if (strcmp(r->ns, j->ns) == 0 && cluster_selects(selector, &r->object->pod.labels))
			join_pod(j, r->object);
	}
}

/* --- order and doubles ------------------------------------------------------------ */

/* Who it is: two entries that agree here are one, said by two slices. */
static int
compare_identity(const struct view_endpoint *x, const struct view_endpoint *y)
{
	int order = strcmp(x->node, y->node);

	if (order == 0)
		order = strcmp(x->pod, y->pod);
	if (order == 0)
		order = strcmp(x->given_ip, y->given_ip);
	if (order == 0)
		order = (int)x->pod_port - (int)y->pod_port;
	if (order == 0)
		order = (int)x->given_port - (int)y->given_port;
	return order;
}

/* The better one first: ready, then serving, then staying. */
static int
rank(const struct view_endpoint *e)
{
	return ((e->flags & ENDPOINT_READY) != 0) * 4 + ((e->flags & ENDPOINT_SERVING) != 0) * 2 +
		((e->flags & ENDPOINT_TERMINATING) == 0);
}

static int
compare(const void *a, const void *b)
{
	const struct view_endpoint *x = a, *y = b;
	int order = compare_identity(x, y);

	if (order == 0)
		order = rank(y) - rank(x);
	if (order == 0)
		order = strcmp(x->hostname, y->hostname);
	if (order == 0)
		order = strcmp(x->zone, y->zone);
	return order;
}

static void
dedupe(struct joining *j)
{
	struct view_port *p = j->port;
	size_t kept = 0;

	if (p->n_endpoints == 0)
		return;
	qsort(p->endpoints, p->n_endpoints, sizeof *p->endpoints, compare);
	for (size_t i = 0; i < p->n_endpoints; i++) {
		bool twice = kept > 0 &&
			compare_identity(&p->endpoints[kept - 1], &p->endpoints[i]) == 0;

		if (twice || kept == MESH_ENDPOINTS_MAX) {
			if (!twice)
				explain(j, "more than %d endpoints, the rest is left out",
					MESH_ENDPOINTS_MAX);
			view_endpoint_fini(&p->endpoints[i]);
			continue;
		}
		p->endpoints[kept++] = p->endpoints[i];
	}
	p->n_endpoints = kept;
}

/* --- the service --------------------------------------------------------------------- */

static void
join_port(struct joining *j, const struct joint *joint)
{
	const struct kube_object *endpoints = cluster_find(j->c, KUBE_ENDPOINTS, j->ns, j->name);
	bool serves = false;

	if (joint->slices != NULL) {
		for (const struct record *r = joint->slices; r != NULL; r = r->next_slice)
			serves |= join_subsets(j, &r->object->endpoints);
	} else if (endpoints != NULL) {
		serves = join_subsets(j, &endpoints->endpoints);
	} else if (j->service->selector.n > 0) {
		join_selected(j);
		serves = true;
	}
	dedupe(j);
	if (j->port->n_endpoints > 0)
		return;
	if (joint->slices == NULL && endpoints == NULL && j->service->selector.n == 0)
		explain(j, "no selector, no EndpointSlice and no Endpoints of this name");
	else if (!serves)
		explain(j, "its slices or Endpoints have no port named '%s' of this protocol",
			j->at->name);
	else
		explain(j, "no pod with an address");
}

struct view *
cluster_join(const struct cluster *c, const struct joint *joint, char **reason)
{
	const struct kube_object *o = cluster_find(c, KUBE_SERVICE, joint->ns, joint->name);
	struct joining j = {.c = c, .ns = joint->ns, .name = joint->name};
	struct view *v;

	if (o == NULL || o->service.excluded)
		return NULL;
	j.service = &o->service;
	v = xcalloc(1, sizeof *v);
	v->ns = xstrdup(joint->ns);
	v->name = xstrdup(joint->name);
	v->cluster_ip = xstrdup(j.service->cluster_ip);
	v->external_name = xstrdup(j.service->external_name);
	v->headless = j.service->headless;
	v->policy = j.service->policy;
	v->affinity_s = j.service->affinity_s;
	v->ports = xcalloc(j.service->n_ports + 1, sizeof *v->ports);
	for (size_t i = 0; i < j.service->n_ports; i++) {
		const struct kube_service_port *p = &j.service->ports[i];

		if (p->protocol == KUBE_SCTP)
			continue;
		j.at = p;
		j.port = &v->ports[v->n_ports++];
		j.room = 0;
		j.port->name = xstrdup(p->name);
		j.port->port = p->port;
		j.port->mode = (uint8_t)choose_mode(p);
		if (*v->external_name == '\0')
			join_port(&j, joint);
	}
	*reason = j.reason;
	return v;
}
