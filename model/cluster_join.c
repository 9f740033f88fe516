#include <string.h>
#include <strings.h>

#include "model/cluster_private.h"

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
				.hint_zones = &e->hint_zones,
				.hint_nodes = &e->hint_nodes,
				.port = p->port != 0 ? p->port : j->at->port,
				.flags = e->flags,
			};

			join_add(j, &m);
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
		join_explain(
			j, "pod %s has no container port named %s", o->name, j->at->target_name);
	else
		join_add(j, &m);
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
	join_dedupe(j);
	if (j->port->n_endpoints > 0)
		return;
	if (joint->slices == NULL && endpoints == NULL && j->service->selector.n == 0)
		join_explain(j, "no selector, no EndpointSlice and no Endpoints of this name");
	else if (!serves)
		join_explain(j, "its slices or Endpoints have no port named '%s' of this protocol",
			j->at->name);
	else
		join_explain(j, "no pod with an address");
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
	v->lb = j.service->lb;
	v->hash_key = xstrdup(j.service->hash_key);
	v->health_path = xstrdup(j.service->health_path);
	v->local_only = j.service->local_only;
	v->distribution = j.service->distribution;
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
