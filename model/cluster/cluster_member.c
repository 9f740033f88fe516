#include <string.h>

#include "model/cluster/cluster_private.h"
#include "model/limits.h"

uint16_t
join_find_target(const struct kube_pod *p, const struct kube_service_port *sp)
{
	if (sp->target != 0)
		return sp->target;
	for (size_t i = 0; i < p->n_ports; i++)
		if (p->ports[i].protocol == sp->protocol &&
			strcmp(p->ports[i].name, sp->target_name) == 0)
			return p->ports[i].port;
	return 0;
}

/* Addresses are reused after a pod terminates: choose the pod that is not terminating, else any,
 * but always the same. */
static const struct kube_object *
cluster_member_likelier(const struct kube_object *a, const struct kube_object *b)
{
	if (a == NULL || a->pod.deleting != b->pod.deleting)
		return a == NULL || a->pod.deleting ? b : a;
	return strcmp(a->name, b->name) < 0 ? a : b;
}

/* The pod of an endpoint: by name, or by node and address (pods of two nodes may share an
 * address). NULL: it is a bare address, or that of a pod that is gone. */
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
		const struct record *r = link_record(n);
		const struct kube_pod *p = &r->object->pod;

		if (strcmp(r->ns, j->ns) == 0 && strcmp(p->node, e->node) == 0 &&
			cluster_pod_is_at(p, e->ip) && !p->ended)
			found = cluster_member_likelier(found, r->object);
	}
	return found;
}

static void
add_member(struct joining *j, const struct member *m)
{
	if (j->n_members > VIEW_MAX_MEMBERS)
		return; /* one more than the limit: the service is refused */
	if (j->n_members == j->members_room) {
		j->members_room = MAX(j->members_room * 2, (size_t)8);
		j->members = xrealloc(j->members, j->members_room * sizeof *j->members);
	}
	j->members[j->n_members++] = *m;
	j->dual |= cluster_is_v6(m->ip) != cluster_is_v6(j->members[0].ip);
}

/* Slices and Endpoints hold resolved ports, under the service port's name. */
static uint16_t
subset_port(const struct kube_subset *s, const struct kube_service_port *sp)
{
	for (size_t i = 0; i < s->n_ports; i++) {
		const struct kube_endpoint_port *p = &s->ports[i];

		if (p->protocol == sp->protocol && strcmp(p->name, sp->name) == 0)
			return p->port != 0 ? p->port : sp->port;
	}
	return 0;
}

/* Computed once for all endpoints of the subset: a slice may have a thousand of them, and twenty
 * thousand ports. */
static const uint16_t *
subset_targets(struct joining *j, const struct kube_subset *s)
{
	uint16_t *targets = xcalloc(j->service->n_ports + 1, sizeof *targets);

	for (size_t i = 0; i < j->service->n_ports; i++)
		targets[i] = subset_port(s, &j->service->ports[i]);
	j->targets = xrealloc(j->targets, (j->n_targets + 1) * sizeof *j->targets);
	j->targets[j->n_targets++] = targets;
	return targets;
}

/* An evicted or deleted pod goes before its slice says so. It must not become a bare address
 * meanwhile, which every node would dial itself: another pod may have it there, and nothing would
 * be known of NetworkPolicies. */
static bool
cluster_member_is_gone(struct joining *j, const struct kube_endpoint *e, const struct member *m)
{
	if (m->pod != NULL || *e->pod == '\0')
		return false;
	if (j->missing == NULL || strcmp(e->pod, j->missing) < 0)
		j->missing = e->pod;
	return true;
}

static void
gather_endpoints(struct joining *j, const struct kube_endpoints *endpoints)
{
	for (size_t i = 0; i < endpoints->n_subsets; i++) {
		const struct kube_subset *s = &endpoints->subsets[i];
		const uint16_t *targets = s->n_endpoints > 0 ? subset_targets(j, s) : NULL;

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
				.subset = s,
				.targets = targets,
				.flags = e->flags,
			};

			if (!cluster_member_is_gone(j, e, &m))
				add_member(j, &m);
		}
	}
}

/* The conditions that the EndpointSlice controller would derive from a pod. */
static uint8_t
pod_flags(const struct kube_pod *p, bool publish_not_ready)
{
	bool ready = publish_not_ready || (p->ready && !p->deleting);

	return (uint8_t)((ready ? ENDPOINT_READY : 0) | (p->ready ? ENDPOINT_SERVING : 0) |
		(p->deleting ? ENDPOINT_TERMINATING : 0));
}

void
join_gather_pod(struct joining *j, const struct kube_object *o)
{
	const struct kube_pod *p = &o->pod;
	bool host = *p->pod_ip == '\0' && p->host_network, v6 = j->service->v6_first;
	const char *ip = host ? p->host_ip : p->pod_ip, *ip6 = host ? p->host_ip6 : p->pod_ip6;
	struct member m = {
		.pod = o,
		.ip = cluster_of_family(ip, ip6, v6),
		.node = p->node,
		.hostname = strcmp(p->subdomain, j->name) == 0 ? p->hostname : "",
		.flags = pod_flags(p, j->service->publish_not_ready),
	};

	if (p->ended || *m.ip == '\0')
		return;
	add_member(j, &m);
	m.ip = cluster_of_family(ip, ip6, !v6);
	if (j->service->dual && *ip6 != '\0')
		add_member(j, &m);
}

static void
gather_selected(struct joining *j)
{
	const struct kube_labels *selector = &j->service->selector;
	struct table_node *n =
		table_first(&j->c->pods_by_label, cluster_label_hash(j->ns, &selector->list[0]));

	for (; n != NULL; n = table_next(n)) {
		const struct record *r = link_record(n);

		if (strcmp(r->ns, j->ns) == 0 && cluster_selects(selector, &r->object->pod.labels))
			join_gather_pod(j, r->object);
	}
}

void
join_gather(struct joining *j, const struct joint *joint)
{
	const struct kube_object *endpoints = cluster_find(j->c, KUBE_ENDPOINTS, j->ns, j->name);

	if (joint->slices != NULL) {
		for (const struct record *r = joint->slices; r != NULL; r = r->next_alike)
			gather_endpoints(j, &r->object->endpoints);
	} else if (endpoints != NULL) {
		gather_endpoints(j, &endpoints->endpoints);
	} else if (j->service->selector.n > 0) {
		gather_selected(j);
	} else {
		j->nobody = true;
	}
}

void
join_members_free(struct joining *j)
{
	while (j->n_targets > 0)
		free(j->targets[--j->n_targets]);
	free(j->targets);
	free(j->members);
}

uint16_t
join_member_port(struct joining *j, const struct member *m, const struct kube_service_port *sp)
{
	uint16_t port;

	if (j->declared)
		return m->pod != NULL &&
				join_find_number(&m->pod->pod, sp->port, sp->protocol) != NULL
			? sp->port
			: 0;
	if (m->subset != NULL)
		return m->targets[sp - j->service->ports];
	port = join_find_target(&m->pod->pod, sp);
	if (port == 0)
		join_explain(j, CLUSTER_PARTLY, "pod %s has no container port named %s",
			m->pod->name, sp->target_name);
	return port;
}
