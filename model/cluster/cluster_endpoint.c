#include <string.h>

#include "model/allow_from.h"
#include "model/check.h"
#include "model/cluster/cluster_private.h"
#include "model/mesh.h"
#include "model/selector.h"

/* --- refused addresses (model/dial_guard) --------------------------------------------------- */

static void
join_refuse(struct joining *j, const struct view_endpoint *e, const char *address, const char *what)
{
	if (j->quiet)
		return;
	join_explain(j, CLUSTER_REFUSED,
		"nodes refuse the address %.45s of %s%.63s, since it is %s; where that is meant, "
		"name it in lb.allow of the agents",
		address, *e->pod != '\0' ? "pod " : "an endpoint without a pod", e->pod, what);
	j->why.refused = true;
}

static void
check_address(struct joining *j, const struct view_endpoint *e, const char *address, uint16_t port)
{
	enum special_addr class;
	struct in6_addr ip;

	if (port == 0 || !ip_parse(address, &ip))
		return;
	class = special_addr_class(&ip);
	/* A hostPort on loopback serves only its own machine, which dials the pod directly. */
	if (class == SPECIAL_LOOPBACK && address == e->host_ip && e->network != NETWORK_HOST)
		return;
	if (class != SPECIAL_NONE)
		join_refuse(j, e, address, special_addr_text(class));
}

static bool
is_nodes_own(const struct joining *j, const char *node, const char *address)
{
	const struct kube_object *o = cluster_find(j->c, KUBE_NODE, "", node);
	struct in6_addr ip, own;

	if (o == NULL || !ip_parse(address, &ip))
		return false;
	for (size_t i = 0; i < o->node.n_addresses; i++)
		if (ip_parse(o->node.addresses[i], &own) && memcmp(&own, &ip, sizeof ip) == 0)
			return true;
	return false;
}

static void
check_refused(struct joining *j, const struct view_endpoint *e)
{
	bool pod = *e->pod != '\0';

	check_address(j, e, e->pod_ip, e->pod_port);
	check_address(j, e, e->host_ip, e->host_port);
	check_address(j, e, e->given_ip, e->given_port);
	if (e->network != NETWORK_HOST && *e->node != '\0' &&
		is_nodes_own(j, e->node, pod ? e->pod_ip : e->given_ip))
		join_refuse(j, e, pod ? e->pod_ip : e->given_ip,
			"the node's own, and no hostNetwork pod has it");
}

const struct kube_container_port *
join_find_number(const struct kube_pod *p, uint16_t port, uint8_t protocol)
{
	const struct kube_container_port *found = NULL;

	for (size_t i = 0; i < p->n_ports; i++) {
		if (p->ports[i].port != port || p->ports[i].protocol != protocol)
			continue;
		/* A port may be declared twice; prefer the one with a hostPort. */
		if (found == NULL || (found->host_port == 0 && p->ports[i].host_port != 0))
			found = &p->ports[i];
	}
	return found;
}

static char *
cluster_endpoint_copy(const char *text, const char *otherwise)
{
	return xstrdup(text != NULL && *text != '\0' ? text : otherwise);
}

/* hostNetwork: the pod's own port; hostPort: at its hostIP if set, else at the node's address. */
static void
set_host_way(
	struct joining *j, struct view_endpoint *e, const struct kube_object *pod, uint16_t port)
{
	const struct kube_pod *p = &pod->pod;
	const struct kube_container_port *cp = join_find_number(p, port, j->at->protocol);

	if (p->host_network) {
		e->host_ip = cluster_endpoint_copy(p->host_ip, p->pod_ip);
		e->host_port = *e->host_ip != '\0' ? port : 0;
		return;
	}
	if (cp == NULL || cp->host_port == 0) {
		e->host_ip = xstrdup("");
		join_behind(j, pod->name, e->node, port);
		return;
	}
	e->host_ip = cluster_endpoint_copy(cp->host_ip, p->host_ip);
	e->host_port = *e->host_ip != '\0' ? cp->host_port : 0;
	if (e->host_port == 0)
		join_explain(j, CLUSTER_PARTLY, "pod %s has a hostPort, but no status.hostIP",
			pod->name);
}

static void
set_node(struct joining *j, struct view_endpoint *e, const char *zone)
{
	const struct kube_object *o = cluster_find(j->c, KUBE_NODE, "", e->node);
	const struct kube_node *node = o != NULL ? &o->node : NULL;
	struct in6_addr host;

	e->site = xstrdup(node != NULL ? node->site : "");
	e->zone = cluster_endpoint_copy(zone, node != NULL ? node->zone : "");
	e->node_public = node != NULL && node->is_public;
	e->public_ip = xstrdup("");
	if (node == NULL || *node->public_ip == '\0' || e->host_port == 0)
		return;
	/* A port bound to loopback is not reachable at the public address. */
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

static const char *
name_of_port(const struct kube_object *pod, uint16_t port, uint8_t protocol)
{
	const struct kube_container_port *p = join_find_number(&pod->pod, port, protocol);

	return p != NULL ? p->name : "";
}

static bool
is_like_the_last(const struct joining *j, const struct kube_object *pod, uint16_t port)
{
	const struct kube_object *last = j->gate_pod;
	uint8_t protocol = j->at->protocol;

	return last != NULL && j->gate_port == port && j->gate_protocol == protocol &&
		last->pod.host_network == pod->pod.host_network &&
		kube_labels_equal(&last->pod.labels, &pod->pod.labels) &&
		strcmp(name_of_port(last, port, protocol), name_of_port(pod, port, protocol)) == 0;
}

/* The gate's number in the view. A gate beyond the limit permits nobody, since its text is not
 * sent. */
static uint8_t
find_gate(struct joining *j, const struct kube_object *pod, uint16_t port)
{
	auto_free char *text = cluster_netpolicy_gate(j->c, pod, port, j->at->protocol);
	struct view *v = j->view;

	if (text == NULL)
		return 0;
	for (size_t i = 0; i < v->n_gates; i++)
		if (strcmp(v->gates[i], text) == 0)
			return (uint8_t)(i + 1);
	if (v->n_gates == ALLOW_FROM_GATES_MAX) {
		join_explain(j, CLUSTER_PARTLY,
			"its pods are closed by more than %d different sets of NetworkPolicies, "
			"the "
			"rest counts as closed to everybody",
			(int)ALLOW_FROM_GATES_MAX - 1);
		return ALLOW_FROM_GATES_MAX;
	}
	if (v->n_gates == ALLOW_FROM_GATES_MAX - 1) {
		free(take_ptr(&text));
		text = xstrdup(ALLOW_FROM_NONE);
	}
	v->gates = xrealloc(v->gates, (v->n_gates + 1) * sizeof *v->gates);
	v->gates[v->n_gates++] = take_ptr(&text);
	return (uint8_t)v->n_gates;
}

static int
compare_gates(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sorts by text, so that the view does not depend on the order of arrival. */
void
join_sort_gates(struct view *v)
{
	char *before[ALLOW_FROM_GATES_MAX];
	uint8_t number[ALLOW_FROM_GATES_MAX + 1] = {0};

	if (v->n_gates < 2)
		return;
	memcpy(before, v->gates, v->n_gates * sizeof *before);
	qsort(v->gates, v->n_gates, sizeof *v->gates, compare_gates);
	for (size_t i = 0; i < v->n_gates; i++)
		for (size_t k = 0; k < v->n_gates; k++)
			if (before[i] == v->gates[k])
				number[i + 1] = (uint8_t)(k + 1);
	for (size_t i = 0; i < v->n_ports; i++)
		for (size_t k = 0; k < v->ports[i].n_endpoints; k++)
			v->ports[i].endpoints[k].gate = number[v->ports[i].endpoints[k].gate];
}

void
join_add(struct joining *j, const struct member *m, uint16_t port)
{
	struct view_endpoint *e = new_endpoint(j);
	const struct kube_pod *p = m->pod != NULL ? &m->pod->pod : NULL;

	e->flags = m->flags;
	e->hostname = cluster_endpoint_copy(m->hostname, "");
	if (m->hint_zones != NULL)
		view_names_copy(&e->hint_zones, m->hint_zones);
	if (m->hint_nodes != NULL)
		view_names_copy(&e->hint_nodes, m->hint_nodes);
	if (p != NULL) {
		e->node = cluster_endpoint_copy(p->node, m->node);
		e->pod = xstrdup(m->pod->name);
		e->pod_ip = cluster_endpoint_copy(p->pod_ip, m->ip);
		e->pod_port = port;
		e->given_ip = xstrdup("");
		if (!is_like_the_last(j, m->pod, port)) {
			j->gate = find_gate(j, m->pod, port);
			j->gate_pod = m->pod;
			j->gate_port = port;
			j->gate_protocol = j->at->protocol;
		}
		e->gate = j->gate;
		set_host_way(j, e, m->pod, port);
	} else {
		e->node = xstrdup(m->node);
		e->pod = xstrdup("");
		e->pod_ip = xstrdup("");
		e->host_ip = xstrdup("");
		e->given_ip = xstrdup(m->ip);
		e->given_port = port;
	}
	set_node(j, e, m->zone);
	if (p != NULL && p->host_network)
		e->network = NETWORK_HOST;
	else if (p != NULL && view_endpoint_looks_host(e))
		e->network = NETWORK_POD;
	check_refused(j, e);
}

/* --- order and duplicates ------------------------------------------------------------------- */

/* Compares identity: equal entries are one endpoint, listed by two slices. */
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

/* The better duplicate first: ready, then serving, then not terminating. */
static int
cluster_endpoint_rank(const struct view_endpoint *e)
{
	return ((e->flags & ENDPOINT_READY) != 0) * 4 + ((e->flags & ENDPOINT_SERVING) != 0) * 2 +
		((e->flags & ENDPOINT_TERMINATING) == 0);
}

static int
compare_names(const struct view_names *x, const struct view_names *y)
{
	int order = (int)x->n - (int)y->n;

	for (size_t i = 0; order == 0 && i < x->n; i++)
		order = strcmp(x->list[i], y->list[i]);
	return order;
}

static int
cluster_endpoint_compare(const void *a, const void *b)
{
	const struct view_endpoint *x = a, *y = b;
	int order = compare_identity(x, y);

	if (order == 0)
		order = cluster_endpoint_rank(y) - cluster_endpoint_rank(x);
	if (order == 0)
		order = strcmp(x->hostname, y->hostname);
	if (order == 0)
		order = strcmp(x->zone, y->zone);
	if (order == 0)
		order = compare_names(&x->hint_zones, &y->hint_zones);
	if (order == 0)
		order = compare_names(&x->hint_nodes, &y->hint_nodes);
	return order;
}

void
join_dedupe(struct joining *j)
{
	struct view_port *p = j->port;
	size_t kept = 0;

	if (p->n_endpoints == 0)
		return;
	qsort(p->endpoints, p->n_endpoints, sizeof *p->endpoints, cluster_endpoint_compare);
	for (size_t i = 0; i < p->n_endpoints; i++) {
		bool twice = kept > 0 &&
			compare_identity(&p->endpoints[kept - 1], &p->endpoints[i]) == 0;

		if (twice || kept == MESH_ENDPOINTS_MAX) {
			if (!twice)
				join_explain(j, CLUSTER_PARTLY,
					"more than %d endpoints, the rest is left out",
					MESH_ENDPOINTS_MAX);
			view_endpoint_fini(&p->endpoints[i]);
			continue;
		}
		p->endpoints[kept++] = p->endpoints[i];
	}
	p->n_endpoints = kept;
	j->n_endpoints += kept;
	if (j->n_endpoints > VIEW_MAX_ENDPOINTS)
		join_beyond(
			j, "its ports have more than %d endpoints together", VIEW_MAX_ENDPOINTS);
}
