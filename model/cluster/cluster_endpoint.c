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

/* The address of the pod's node in this family, else in the other one. Kubelets before 1.30 give
 * one hostIP; the Node has both. */
static const char *
find_host_ip(const struct joining *j, const struct kube_pod *p, bool v6)
{
	const char *ip = cluster_of_family(p->host_ip, p->host_ip6, v6);
	const struct kube_object *o = cluster_find(j->c, KUBE_NODE, "", p->node);

	if (!j->dual || *ip == '\0' || cluster_is_v6(ip) == v6 || o == NULL)
		return ip;
	for (size_t i = 0; i < o->node.n_internal; i++)
		if (cluster_is_v6(o->node.addresses[i]) == v6)
			return o->node.addresses[i];
	return ip;
}

/* hostNetwork: the pod's own port; hostPort: at its hostIP if set, else at the node's address;
 * neither: the node's address alone, for its agent. */
static void
set_host_way(struct joining *j, struct view_endpoint *e, const struct member *m, uint16_t port)
{
	const struct kube_object *pod = m->pod;
	const struct kube_pod *p = &pod->pod;
	const struct kube_container_port *cp = join_find_number(p, port, j->at->protocol);
	const char *host_ip = find_host_ip(j, p, cluster_is_v6(m->ip));

	if (p->host_network) {
		e->host_ip = cluster_endpoint_copy(host_ip, p->pod_ip);
		e->host_port = *e->host_ip != '\0' ? port : 0;
		return;
	}
	if (cp == NULL || cp->host_port == 0) {
		e->host_ip = xstrdup(host_ip);
		join_behind(j, pod->name, e->node, port);
		return;
	}
	e->host_ip = cluster_endpoint_copy(cp->host_ip, host_ip);
	e->host_port = *e->host_ip != '\0' ? cp->host_port : 0;
	if (e->host_port == 0)
		join_explain(j, CLUSTER_PARTLY, "pod %s has a hostPort, but no status.hostIP",
			pod->name);
}

static void
set_node(struct joining *j, struct view_endpoint *e, const struct member *m)
{
	const struct kube_object *o = cluster_find(j->c, KUBE_NODE, "", e->node);
	const struct kube_node *node = o != NULL ? &o->node : NULL;
	struct in6_addr host;

	e->site = xstrdup(node != NULL ? node->site : "");
	e->zone = cluster_endpoint_copy(m->zone, node != NULL ? node->zone : "");
	e->node_public = node != NULL && node->is_public;
	e->public_ip = xstrdup("");
	if (node == NULL || *node->public_ip == '\0' || (e->host_port == 0 && *e->pod == '\0'))
		return;
	/* A port bound to loopback is not reachable at the public address. */
	if (ip_parse(e->host_ip, &host) && ip_is_loopback(&host))
		return;
	free(e->public_ip);
	e->public_ip =
		xstrdup(cluster_of_family(node->public_ip, node->public_ip6, cluster_is_v6(m->ip)));
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

/* Sorts by text, so that the view does not depend on the order of arrival. */
void
join_sort_gates(struct view *v)
{
	char *before[ALLOW_FROM_GATES_MAX];
	uint8_t number[ALLOW_FROM_GATES_MAX + 1] = {0};

	if (v->n_gates < 2)
		return;
	memcpy(before, v->gates, v->n_gates * sizeof *before);
	qsort(v->gates, v->n_gates, sizeof *v->gates, compare_texts);
	for (size_t i = 0; i < v->n_gates; i++)
		for (size_t k = 0; k < v->n_gates; k++)
			if (before[i] == v->gates[k])
				number[i + 1] = (uint8_t)(k + 1);
	for (size_t i = 0; i < v->n_ports; i++)
		for (size_t k = 0; k < v->ports[i].n_endpoints; k++)
			v->ports[i].endpoints[k].gate = number[v->ports[i].endpoints[k].gate];
}

static void
set_network(struct view_endpoint *e, bool host)
{
	if (host)
		e->network = NETWORK_HOST;
	else if (*e->pod != '\0' && view_endpoint_looks_host(e))
		e->network = NETWORK_POD;
	else
		e->network = NETWORK_UNSAID;
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
		e->pod_ip = cluster_endpoint_copy(
			cluster_of_family(p->pod_ip, p->pod_ip6, cluster_is_v6(m->ip)), m->ip);
		e->pod_port = port;
		e->given_ip = xstrdup("");
		if (!is_like_the_last(j, m->pod, port)) {
			j->gate = find_gate(j, m->pod, port);
			j->gate_pod = m->pod;
			j->gate_port = port;
			j->gate_protocol = j->at->protocol;
		}
		e->gate = j->gate;
		set_host_way(j, e, m, port);
	} else {
		e->node = xstrdup(m->node);
		e->pod = xstrdup("");
		e->pod_ip = xstrdup("");
		e->host_ip = xstrdup("");
		e->given_ip = xstrdup(m->ip);
		e->given_port = port;
	}
	set_node(j, e, m);
	set_network(e, p != NULL && p->host_network);
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

/* --- two addresses of one endpoint ---------------------------------------------------------- */

static bool
endpoint_is_v6(const struct view_endpoint *e)
{
	return cluster_is_v6(*e->pod != '\0' ? e->pod_ip : e->given_ip);
}

/* Gives the endpoint the addresses of its mate, of the other family. Those of the Service's first
 * family stay in front. */
static void
join_families(const struct joining *j, struct view_endpoint *e, struct view_endpoint *mate)
{
	char **const at[][3] = {{&e->pod_ip, &mate->pod_ip, &e->other_pod_ip},
		{&e->host_ip, &mate->host_ip, &e->other_host_ip},
		{&e->public_ip, &mate->public_ip, &e->other_public_ip},
		{&e->given_ip, &mate->given_ip, &e->other_given_ip}};
	bool swap = endpoint_is_v6(e) != j->service->v6_first;

	for (size_t i = 0; i < ARRAY_LEN(at); i++) {
		char *first = *at[i][swap], *second = *at[i][!swap];

		*at[i][0] = first;
		*at[i][1] = second;
		if (*first != '\0' && *second != '\0' &&
			cluster_is_v6(first) != cluster_is_v6(second))
			*at[i][2] = take_ptr(at[i][1]);
	}
	set_network(e, e->network == NETWORK_HOST);
}

/* The first duplicate of the other family than the group's first one. */
static struct view_endpoint *
find_mate(struct view_endpoint *group, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if (endpoint_is_v6(&group[i]) != endpoint_is_v6(&group[0]))
			return &group[i];
	return NULL;
}

static int
compare_bare(const void *a, const void *b)
{
	const struct view_endpoint *x = *(struct view_endpoint *const *)a;
	const struct view_endpoint *y = *(struct view_endpoint *const *)b;
	int order = strcmp(x->hostname, y->hostname);

	if (order == 0)
		order = strcmp(x->node, y->node);
	if (order == 0)
		order = (int)x->given_port - (int)y->given_port;
	return order != 0 ? order : (int)x->flags - (int)y->flags;
}

/* Addresses without a pod are one endpoint where a hostname or node has exactly one of each
 * family. */
static void
join_bare_families(struct joining *j)
{
	struct view_port *p = j->port;
	struct view_endpoint **list = xcalloc(p->n_endpoints + 1, sizeof *list);
	size_t n = 0, kept = 0;

	for (size_t i = 0; i < p->n_endpoints; i++) {
		struct view_endpoint *e = &p->endpoints[i];

		if (*e->pod == '\0' && (*e->hostname != '\0' || *e->node != '\0'))
			list[n++] = e;
	}
	if (n > 0)
		qsort(list, n, sizeof *list, compare_bare);
	for (size_t i = 0, k; i < n; i += k) {
		for (k = 1; i + k < n && compare_bare(&list[i], &list[i + k]) == 0;)
			k++;
		if (k != 2 || endpoint_is_v6(list[i]) == endpoint_is_v6(list[i + 1]))
			continue;
		join_families(j, list[i], list[i + 1]);
		list[i + 1]->given_port = 0;
	}
	free(list);
	for (size_t i = 0; i < p->n_endpoints; i++) {
		if (*p->endpoints[i].pod == '\0' && p->endpoints[i].given_port == 0)
			view_endpoint_fini(&p->endpoints[i]);
		else
			p->endpoints[kept++] = p->endpoints[i];
	}
	p->n_endpoints = kept;
}

void
join_dedupe(struct joining *j)
{
	struct view_port *p = j->port;
	size_t kept = 0;

	if (p->n_endpoints == 0)
		return;
	qsort(p->endpoints, p->n_endpoints, sizeof *p->endpoints, cluster_endpoint_compare);
	for (size_t i = 0, n; i < p->n_endpoints; i += n) {
		struct view_endpoint *e = &p->endpoints[i], *mate;

		for (n = 1; i + n < p->n_endpoints && compare_identity(e, &e[n]) == 0;)
			n++;
		if ((mate = find_mate(e, n)) != NULL)
			join_families(j, e, mate);
		for (size_t k = 1; k < n; k++)
			view_endpoint_fini(&e[k]);
		if (kept < MESH_ENDPOINTS_MAX) {
			p->endpoints[kept++] = *e;
			continue;
		}
		join_explain(j, CLUSTER_PARTLY, "more than %d endpoints, the rest is left out",
			MESH_ENDPOINTS_MAX);
		view_endpoint_fini(e);
	}
	p->n_endpoints = kept;
	if (j->dual)
		join_bare_families(j);
	kept = p->n_endpoints;
	j->n_endpoints += kept;
	if (j->n_endpoints > VIEW_MAX_ENDPOINTS)
		join_beyond(
			j, "its ports have more than %d endpoints together", VIEW_MAX_ENDPOINTS);
}
