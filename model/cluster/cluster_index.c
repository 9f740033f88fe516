/*
 * The indexes that lead from an object to the services it can affect, so that a change marks only
 * those. A selector is indexed by its first pair alone; cluster_selects then checks all pairs.
 */
#include <string.h>

#include "base/core/hash.h"
#include "model/cluster/cluster_private.h"

/* --- hashes and look-ups -------------------------------------------------------------------- */

uint64_t
cluster_hash(char what, const char *a, const char *b, const char *c)
{
	return hash64(c, strlen(c), hash64(b, strlen(b), hash64(a, strlen(a), (uint64_t)what)));
}

uint64_t
cluster_pod_hash(const char *ns, const char *pod)
{
	return cluster_hash('p', ns, pod, "");
}

uint64_t
cluster_ip_hash(const char *node, const char *ip)
{
	return cluster_hash('i', node, ip, "");
}

uint64_t
cluster_label_hash(const char *ns, const struct kube_label *l)
{
	return cluster_hash('l', ns, l->key, l->value);
}

uint64_t
cluster_record_hash(enum kube_kind kind, const char *ns, const char *name)
{
	return cluster_hash((char)('0' + kind), ns, name, "");
}

struct record *
cluster_find_record(const struct cluster *c, enum kube_kind kind, const char *ns, const char *name)
{
	struct table_node *n = table_first(&c->records, cluster_record_hash(kind, ns, name));

	for (; n != NULL; n = table_next(n)) {
		struct record *r = node_of(struct record, n);

		if (r->kind == kind && strcmp(r->ns, ns) == 0 && strcmp(r->name, name) == 0)
			return r;
	}
	return NULL;
}

const struct kube_object *
cluster_find(const struct cluster *c, enum kube_kind kind, const char *ns, const char *name)
{
	const struct record *r = cluster_find_record(c, kind, ns, name);

	return r != NULL ? r->object : NULL;
}

bool
cluster_selects(const struct kube_labels *selector, const struct kube_labels *labels)
{
	for (size_t i = 0; i < selector->n; i++) {
		const struct kube_label *want = &selector->list[i];
		const char *value = kube_labels_find(labels, want->key);

		if (value == NULL || strcmp(value, want->value) != 0)
			return false;
	}
	return selector->n > 0;
}

/* --- joints --------------------------------------------------------------------------------- */

struct joint *
cluster_find_joint(const struct cluster *c, const char *ns, const char *name)
{
	struct table_node *n = table_first(&c->joints, cluster_hash('j', ns, name, ""));

	for (; n != NULL; n = table_next(n)) {
		struct joint *j = node_of(struct joint, n);

		if (strcmp(j->ns, ns) == 0 && strcmp(j->name, name) == 0)
			return j;
	}
	return NULL;
}

struct joint *
cluster_use_joint(struct cluster *c, const char *ns, const char *name)
{
	struct joint *j = cluster_find_joint(c, ns, name);

	if (j != NULL)
		return j;
	j = xcalloc(1, sizeof *j);
	j->ns = xstrdup(ns);
	j->name = xstrdup(name);
	table_add(&c->joints, &j->node, cluster_hash('j', ns, name, ""));
	return j;
}

void
cluster_told_free(struct told *told, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(told[i].name);
		cluster_reasons_fini(&told[i].why);
	}
	free(told);
}

void
cluster_joint_free(struct joint *j)
{
	cluster_told_free(j->told, j->n_told);
	free(j->noted);
	free(j->places);
	free(j->asked);
	free(j->ns);
	free(j->name);
	free(j);
}

void
cluster_index_mark(struct cluster *c, struct joint *j)
{
	if (j == NULL || j->dirty)
		return;
	cluster_near_forget(c, j); /* its Service may change or vanish before it is joined again */
	j->dirty = true;
	TAILQ_INSERT_TAIL(&c->waiting, j, waiting);
}

/* The joint's list for records of this kind; NULL: none. */
static struct record **
list_of(struct joint *j, enum kube_kind kind)
{
	return kind == KUBE_SLICE ? &j->slices : kind == KUBE_RULE ? &j->rules : NULL;
}

static void
cluster_index_attach(struct cluster *c, struct record *r, const char *name)
{
	struct record **list;

	r->joint = cluster_use_joint(c, r->ns, name);
	r->joint->n_records++;
	if ((list = list_of(r->joint, r->kind)) == NULL)
		return;
	if (r->kind == KUBE_RULE) {
		cluster_rule_place(list, r);
		return;
	}
	r->next_alike = *list;
	*list = r;
}

/* The joint stays: it is marked, and cluster_next_change frees it if unused. */
static void
cluster_index_detach(struct record *r)
{
	struct joint *j = take_ptr(&r->joint);
	struct record **at;

	if (j == NULL)
		return;
	j->n_records--;
	if ((at = list_of(j, r->kind)) == NULL)
		return;
	while (*at != r)
		at = &(*at)->next_alike;
	*at = r->next_alike;
}

/* --- indexes -------------------------------------------------------------------------------- */

/* As many as link_pod and link_endpoints make; a guess for other kinds. */
static size_t
link_room(const struct record *r)
{
	const struct kube_object *o = r->object;
	size_t n = 0;

	if (r->links != NULL || (r->kind != KUBE_POD && r->kind != KUBE_SLICE))
		return 2;
	if (r->kind == KUBE_POD)
		return o->pod.labels.n + (*o->pod.pod_ip6 != '\0' ? 6 : 4);
	for (size_t i = 0; i < o->endpoints.n_subsets; i++)
		n += o->endpoints.subsets[i].n_endpoints;
	return MAX(n, (size_t)1);
}

_Static_assert(offsetof(struct cluster, linked[17]) ==
		offsetof(struct cluster, policies_by_map) + sizeof(struct table),
	"the tables' names and numbers agree");
_Static_assert(ARRAY_LEN(((struct cluster *)0)->linked) <= 1 << LINK_TABLE_BITS, "numbers fit");

static void
link_add(struct cluster *c, struct record *r, struct table *in, uint64_t hash)
{
	struct links *all = r->links;
	struct link *l;

	if (all == NULL || all->n == all->room) {
		size_t room = MIN(link_room(r), (size_t)LINK_ROOM_MAX);

		all = xmalloc(sizeof *all + room * sizeof *all->list);
		*all = (struct links){.next = r->links, .record = r, .room = (uint16_t)room};
		r->links = all;
	}
	l = &all->list[all->n];
	l->node.tag = (uint16_t)(all->n++ << LINK_TABLE_BITS | (in - c->linked));
	table_add(in, &l->node, hash);
}

static struct table *
link_table(struct cluster *c, const struct link *l)
{
	return &c->linked[l->node.tag & ((1 << LINK_TABLE_BITS) - 1)];
}

static void
unlink_all(struct cluster *c, struct record *r)
{
	while (r->links != NULL) {
		struct links *all = r->links;

		r->links = all->next;
		for (size_t i = 0; i < all->n; i++)
			table_remove(link_table(c, &all->list[i]), &all->list[i].node);
		free(all);
	}
}

static void
link_endpoints(struct cluster *c, struct record *r, const struct kube_endpoints *e)
{
	for (size_t i = 0; i < e->n_subsets; i++) {
		for (size_t k = 0; k < e->subsets[i].n_endpoints; k++) {
			const struct kube_endpoint *one = &e->subsets[i].endpoints[k];

			if (*one->pod != '\0')
				link_add(
					c, r, &c->joints_by_pod, cluster_pod_hash(r->ns, one->pod));
			else if (*one->node != '\0')
				link_add(c, r, &c->joints_by_pod,
					cluster_ip_hash(one->node, one->ip));
		}
	}
}

static void
link_pod(struct cluster *c, struct record *r, const struct kube_pod *p)
{
	const char *const ips[] = {p->pod_ip, p->pod_ip6};

	link_add(c, r, &c->pods_by_namespace, cluster_namespace_hash(r->ns));
	for (size_t i = 0; i < p->labels.n; i++)
		link_add(c, r, &c->pods_by_label, cluster_label_hash(r->ns, &p->labels.list[i]));
	if (p->host_network || *p->pod_ip == '\0')
		return;
	for (size_t i = 0; i < ARRAY_LEN(ips); i++) {
		if (*ips[i] == '\0')
			continue;
		link_add(c, r, &c->pods_by_ip, cluster_ip_hash(p->node, ips[i]));
		if (*p->node != '\0' && !p->ended)
			link_add(c, r, &c->by_address, cluster_address_hash(ips[i]));
	}
	if (*p->node != '\0' && !p->ended)
		link_add(c, r, &c->pods_by_node, cluster_callers_hash(p->node));
}

static void
link_node(struct cluster *c, struct record *r, const struct kube_node *n)
{
	for (size_t i = 0; i < n->n_addresses; i++)
		link_add(c, r, &c->by_address, cluster_address_hash(n->addresses[i]));
	link_add(c, r, &c->nodes, cluster_hash('n', r->name, "", ""));
}

/* One link for each Service, or the routes of a Service would have one several times. */
static void
link_service(struct cluster *c, struct record *r, struct table *in, char what, const char *ns,
	const char *name)
{
	uint64_t hash = cluster_route_hash(what, ns, name);

	for (const struct links *all = r->links; all != NULL; all = all->next)
		for (size_t i = 0; i < all->n; i++)
			if (link_table(c, &all->list[i]) == in &&
				table_is(&all->list[i].node, hash))
				return;
	link_add(c, r, in, hash);
}

static void
link_route(struct cluster *c, struct record *r, const struct kube_route *route)
{
	/* One that has no such parent any more still has to lose its status. */
	if (route->n_parents == 0 && *route->status_own == '\0')
		return;
	link_add(c, r, &c->routes, cluster_route_hash('R', r->ns, r->name));
	for (size_t i = 0; i < route->n_parents; i++)
		link_service(c, r, &c->routes_by_parent, 's', route->parents[i].ns,
			route->parents[i].name);
	for (size_t i = 0; i < route->n_rules; i++) {
		const struct http_route_rule *rule = &route->rules[i].rule;

		for (size_t k = 0; k < rule->n_backends; k++)
			link_service(c, r, &c->routes_by_backend, 'b', rule->backends[k].ns,
				rule->backends[k].name);
		for (size_t k = 0; k < rule->n_mirrors; k++)
			link_service(c, r, &c->routes_by_backend, 'b', rule->mirrors[k].ns,
				rule->mirrors[k].name);
	}
	cluster_route_link(c, r);
}

static void
link_tls_policy(struct cluster *c, struct record *r, const struct kube_tls_policy *p)
{
	if (p->route.n_parents == 0 && *p->route.status_own == '\0')
		return;
	link_add(c, r, &c->routes, cluster_route_hash('R', r->ns, r->name));
	for (size_t i = 0; i < p->route.n_parents; i++)
		link_service(c, r, &c->policies_by_service, 't', r->ns, p->route.parents[i].name);
	for (size_t i = 0; i < p->n_cas; i++)
		if (*p->cas[i].kind == '\0')
			link_service(c, r, &c->policies_by_map, 'm', r->ns, p->cas[i].name);
	cluster_route_link(c, r);
}

void
cluster_link(struct cluster *c, struct record *r)
{
	const struct kube_object *o = r->object;

	switch (r->kind) {
	case KUBE_SERVICE:
		cluster_index_attach(c, r, r->name);
		if (*o->service.cluster_ip != '\0')
			link_add(c, r, &c->by_address, cluster_address_hash(o->service.cluster_ip));
		if (*o->service.cluster_ip6 != '\0')
			link_add(
				c, r, &c->by_address, cluster_address_hash(o->service.cluster_ip6));
		if (o->service.selector.n > 0)
			link_add(c, r, &c->joints_by_selector,
				cluster_label_hash(r->ns, &o->service.selector.list[0]));
		break;
	case KUBE_SLICE:
	case KUBE_ENDPOINTS:
		if (*o->endpoints.service == '\0')
			break;
		cluster_index_attach(c, r, o->endpoints.service);
		link_endpoints(c, r, &o->endpoints);
		break;
	case KUBE_POD:
		link_pod(c, r, &o->pod);
		break;
	case KUBE_NODE:
		link_node(c, r, &o->node);
		break;
	case KUBE_NETPOLICY:
		if (o->netpolicy.ingress)
			link_add(c, r, &c->policies, cluster_netpolicy_hash(r->ns));
		break;
	case KUBE_NAMESPACE:
		link_add(c, r, &c->namespaces, cluster_hash('N', r->name, "", ""));
		break;
	case KUBE_RULE:
		if (*o->rule.service != '\0')
			cluster_index_attach(c, r, o->rule.service);
		link_add(c, r, &c->rules, cluster_hash('d', r->ns, r->name, ""));
		break;
	case KUBE_HTTPROUTE:
	case KUBE_GRPCROUTE:
		link_route(c, r, &o->route);
		break;
	case KUBE_GRANT:
		link_add(c, r, &c->grants, cluster_route_hash('g', r->ns, ""));
		break;
	case KUBE_TLS_POLICY:
		link_tls_policy(c, r, &o->tls_policy);
		break;
	case KUBE_CONFIG_MAP:
		break;
	}
}

void
cluster_unlink(struct cluster *c, struct record *r)
{
	cluster_route_unlink(c, r);
	unlink_all(c, r);
	cluster_index_detach(r);
}

static void
mark_linked(struct cluster *c, uint64_t hash)
{
	struct table_node *n = table_first(&c->joints_by_pod, hash);

	for (; n != NULL; n = table_next(n))
		cluster_index_mark(c, link_joint(n));
}

/* Marks services whose selector matches the pod, unless slices or Endpoints define their
 * members. */
static void
mark_selecting(struct cluster *c, const char *ns, const struct kube_labels *labels)
{
	for (size_t i = 0; i < labels->n; i++) {
		uint64_t hash = cluster_label_hash(ns, &labels->list[i]);
		struct table_node *n = table_first(&c->joints_by_selector, hash);

		for (; n != NULL; n = table_next(n)) {
			struct joint *j = link_joint(n);
			const struct kube_object *s = cluster_find(c, KUBE_SERVICE, j->ns, j->name);

			if (s != NULL && j->slices == NULL &&
				cluster_find(c, KUBE_ENDPOINTS, j->ns, j->name) == NULL &&
				cluster_selects(&s->service.selector, labels))
				cluster_index_mark(c, j);
		}
	}
}

/* Policies change rarely, so all services of the namespace are marked; joining them finds which are
 * affected. */
static void
mark_namespace(struct cluster *c, const char *ns)
{
	size_t slot = 0;

	for (struct table_node *n = NULL; (n = table_walk(&c->joints, &slot, n)) != NULL;)
		if (strcmp(node_of(struct joint, n)->ns, ns) == 0)
			cluster_index_mark(c, node_of(struct joint, n));
}

/* The Services whose routes it is, and all routes there: they may conflict. */
static void
mark_parents(struct cluster *c, const struct record *r)
{
	const struct kube_route *route = &r->object->route;

	for (size_t i = 0; i < route->n_parents; i++) {
		const struct kube_route_parent *p = &route->parents[i];
		uint64_t hash = cluster_route_hash('s', p->ns, p->name);
		struct table_node *n = table_first(&c->routes_by_parent, hash);

		cluster_index_mark(c, cluster_find_joint(c, p->ns, p->name));
		for (; n != NULL; n = table_next(n))
			cluster_route_touch(c, link_record(n));
	}
}

/* A Service may be the parent of routes, and a backend. */
static void
mark_routes(struct cluster *c, const char *ns, const char *name)
{
	struct table_node *n;

	for (n = table_first(&c->routes_by_parent, cluster_route_hash('s', ns, name)); n != NULL;
		n = table_next(n))
		cluster_route_touch(c, link_record(n));
	for (n = table_first(&c->routes_by_backend, cluster_route_hash('b', ns, name)); n != NULL;
		n = table_next(n))
		mark_parents(c, link_record(n));
}

static void
mark_all_routes(struct cluster *c)
{
	size_t slot = 0;

	for (struct table_node *n = NULL; (n = table_walk(&c->routes, &slot, n)) != NULL;)
		mark_parents(c, link_record(n));
}

void
cluster_mark_affected(struct cluster *c, const struct record *r)
{
	const struct kube_pod *p = &r->object->pod;

	cluster_index_mark(c, r->joint);
	cluster_pod_mark(c, r);
	if (r->kind == KUBE_NETPOLICY)
		mark_namespace(c, r->ns);
	/* A policy's selector may now match other namespaces. */
	if (r->kind == KUBE_NAMESPACE && c->policies.n > 0)
		cluster_mark_all(c);
	if (r->kind == KUBE_SERVICE) {
		mark_routes(c, r->ns, r->name);
		cluster_backend_tls_touch(c, r->ns, r->name);
	}
	if (r->kind == KUBE_TLS_POLICY)
		cluster_backend_tls_mark(c, r);
	if (r->kind == KUBE_CONFIG_MAP)
		cluster_backend_tls_mark_map(c, r->ns, r->name);
	/* cluster_rule_of */
	if (r->kind == KUBE_RULE)
		cluster_index_mark(c, cluster_find_joint(c, r->ns, r->name));
	if (r->kind == KUBE_SERVICE && r->joint != NULL)
		for (const struct record *rule = r->joint->rules; rule != NULL;
			rule = rule->next_alike)
			cluster_index_mark(c, cluster_find_joint(c, r->ns, rule->name));
	if (cluster_is_route(r->kind))
		mark_parents(c, r);
	/* Grants change rarely. */
	if (r->kind == KUBE_GRANT)
		mark_all_routes(c);
	if (r->kind != KUBE_POD)
		return;
	mark_linked(c, cluster_pod_hash(r->ns, r->name));
	mark_linked(c, cluster_ip_hash(p->node, p->pod_ip));
	if (*p->pod_ip6 != '\0')
		mark_linked(c, cluster_ip_hash(p->node, p->pod_ip6));
	mark_selecting(c, r->ns, &p->labels);
	if (*p->node != '\0')
		cluster_callers_touch(c, p->node);
}

/* Kubelets update their Node often, but relevant changes are rare: then everything is checked. */
void
cluster_mark_all(struct cluster *c)
{
	size_t slot = 0;

	for (struct table_node *n = NULL; (n = table_walk(&c->joints, &slot, n)) != NULL;)
		cluster_index_mark(c, node_of(struct joint, n));
}
