/*
 * Pods by their own address. A pod that some node has asked for is a joint like a service, with a
 * view of its own, named as model/pod_name.h says. It has the ports that the pod's Services target,
 * those that the pod declares, and those that nodes have asked for. Who may not call one of the
 * pod's Services may not call the pod by its address either, and what has to be encrypted for one
 * of them is encrypted here.
 */
#include <string.h>

#include "base/core/hash.h"
#include "model/allow_from.h"
#include "model/check.h"
#include "model/cluster/cluster_private.h"
#include "model/pod_name.h"
#include "model/pod_ranges.h"

enum {
	POD_NAMED = 4, /* pods with one address that the reason names */
	POD_RANGE_BITS = 96 + 16, /* a wider range of one node is a mistake */
	POD_ASKED_MAX = 4 * CLUSTER_POD_PORTS_MAX, /* several may ask for the same port */
};

/* --- finding -------------------------------------------------------------------------------- */

/* Calls for each pod that has the address: those of the host's network are not in the index. */
static const struct record *
pod_next(const struct cluster *c, struct table_node **at, const char *ns, const char *address)
{
	struct in6_addr ip, own;

	if (!ip_parse(address, &ip))
		return NULL;
	for (*at = *at != NULL ? table_next(*at)
			       : table_first(&c->by_address, cluster_address_hash(address));
		*at != NULL; *at = table_next(*at)) {
		const struct record *r = link_record(*at);
		const struct kube_pod *p = &r->object->pod;

		if (r->kind == KUBE_POD && (*ns == '\0' || strcmp(r->ns, ns) == 0) &&
			((ip_parse(p->pod_ip, &own) && memcmp(&own, &ip, sizeof ip) == 0) ||
				(ip_parse(p->pod_ip6, &own) && memcmp(&own, &ip, sizeof ip) == 0)))
			return r;
	}
	return NULL;
}

enum cluster_pod_found
cluster_pod_find(const struct cluster *c, const char *ns, const char *address, const char *node,
	struct cluster_place *place)
{
	const struct record *r, *found = NULL, *own = NULL;
	struct table_node *at = NULL;
	size_t n = 0, n_own = 0;

	while ((r = pod_next(c, &at, ns, address)) != NULL) {
		found = r;
		n++;
		if (strcmp(r->object->pod.node, node) == 0) {
			own = r;
			n_own++;
		}
	}
	if (n_own == 1)
		found = own;
	if (found != NULL)
		*place = (struct cluster_place){found->object->pod.node, found->ns, found->name};
	return n == 0                  ? CLUSTER_POD_NONE
		: n == 1 || n_own == 1 ? CLUSTER_POD_ONE
				       : CLUSTER_POD_MANY;
}

char *
cluster_pod_dns_name(const struct cluster *c, const struct cluster_place *pod, const char *address)
{
	const struct kube_object *o = cluster_find(c, KUBE_POD, pod->ns, pod->pod);
	char name[POD_NAME_MAX];

	if (o != NULL && *o->pod.hostname != '\0' && *o->pod.subdomain != '\0') {
		auto_free char *named = xasprintf("%s.%s", o->pod.hostname, o->pod.subdomain);

		if (cluster_find_told(c, pod->ns, named) != NULL)
			return xasprintf("%s.%s.svc", named, pod->ns);
	}
	if (!pod_name_of(name, address))
		return xstrdup("");
	return xasprintf(
		"%.*s.%s.pod", (int)(strlen(name) - strlen(POD_NAME_SUFFIX)), name, pod->ns);
}

/* --- wanting -------------------------------------------------------------------------------- */

static struct joint *
pod_joint(const struct cluster *c, const char *ns, const char *address)
{
	char name[POD_NAME_MAX];

	if (c->n_pods == 0 || *address == '\0' || !pod_name_of(name, address))
		return NULL;
	return cluster_find_joint(c, ns, name);
}

uint64_t
cluster_pod_asker(const char *node, uint16_t client)
{
	return hash64(node, strlen(node), 'p') << 16 | client;
}

static bool
pod_port_known(const struct joint *j, uint16_t port)
{
	for (size_t i = 0; i < j->n_asked; i++)
		if (j->asked[i].port == port)
			return true;
	return false;
}

/* Orders who holds most: its node first, then the client there. */
static unsigned
pod_port_share(const struct joint *j, uint64_t by)
{
	unsigned share = 0;

	for (size_t i = 0; i < j->n_asked; i++)
		if (j->asked[i].by >> 16 == by >> 16)
			share += j->asked[i].by == by ? POD_ASKED_MAX + 2 : POD_ASKED_MAX + 1;
	return share;
}

/* The oldest port of the one who holds most makes room: who still uses it asks again, so a scan of
 * ports takes away the scanner's own. */
static void
pod_drop_port(struct joint *j)
{
	unsigned most = 0, share;
	size_t victim = 0;

	for (size_t i = 0; i < j->n_asked; i++)
		if ((share = pod_port_share(j, j->asked[i].by)) > most) {
			most = share;
			victim = i;
		}
	j->n_asked--;
	memmove(j->asked + victim, j->asked + victim + 1, (j->n_asked - victim) * sizeof *j->asked);
}

static size_t
pod_count_ports(const struct joint *j)
{
	size_t n = 0;

	for (size_t i = 0; i < j->n_asked; i++) {
		size_t k = 0;

		while (j->asked[k].port != j->asked[i].port)
			k++;
		n += k == i;
	}
	return n;
}

/* Returns true if the ports are others now. */
static bool
pod_ask_port(struct joint *j, uint16_t port, uint64_t by)
{
	bool known = pod_port_known(j, port);
	size_t i = 0;

	if (port == 0)
		return false;
	while (i < j->n_asked && (j->asked[i].port != port || j->asked[i].by != by))
		i++;
	if (i == j->n_asked)
		j->asked = xrealloc(j->asked, (++j->n_asked) * sizeof *j->asked);
	else
		memmove(j->asked + i, j->asked + i + 1, (j->n_asked - i - 1u) * sizeof *j->asked);
	j->asked[j->n_asked - 1] = (struct pod_port){by, port};
	while (j->n_asked > POD_ASKED_MAX ||
		(!known && pod_count_ports(j) > CLUSTER_POD_PORTS_MAX)) {
		pod_drop_port(j);
		i = 0;
	}
	return !known || i == 0;
}

void
cluster_pod_want(struct cluster *c, const char *ns, const char *address, uint16_t port, uint64_t by)
{
	struct table_node *at = NULL;
	char name[POD_NAME_MAX];
	struct joint *j;
	bool changed;

	if (!pod_name_of(name, address) || pod_next(c, &at, ns, address) == NULL)
		return;
	j = cluster_use_joint(c, ns, name);
	changed = !j->is_pod;
	if (!j->is_pod) {
		j->is_pod = true;
		TAILQ_INSERT_TAIL(&c->pods, j, pods);
		c->n_pods++;
	}
	if (pod_ask_port(j, port, by) || changed)
		cluster_index_mark(c, j);
}

void
cluster_pod_forget(struct cluster *c, struct joint *j)
{
	TAILQ_REMOVE(&c->pods, j, pods);
	c->n_pods--;
	j->is_pod = false;
	j->n_asked = 0;
}

void
cluster_pod_unwant(struct cluster *c, const char *ns, const char *name)
{
	struct joint *j = cluster_find_joint(c, ns, name);

	if (j == NULL || !j->is_pod)
		return;
	cluster_pod_forget(c, j);
	cluster_index_mark(c, j);
}

size_t
cluster_pods_wanted(const struct cluster *c)
{
	return c->n_pods;
}

static void
pod_mark_both(struct cluster *c, const char *ns, const struct kube_pod *p)
{
	cluster_index_mark(c, pod_joint(c, ns, p->pod_ip));
	cluster_index_mark(c, pod_joint(c, ns, p->pod_ip6));
}

/* A slice has addresses of one family, and its pods may be wanted by that of the other one: as
 * pod_services_of finds the Service by the pod's name, or by an address on its node. */
static void
pod_mark_endpoint(struct cluster *c, const char *ns, const struct kube_endpoint *e)
{
	const struct kube_object *o = cluster_find(c, KUBE_POD, ns, e->pod);
	struct table_node *n = table_first(&c->pods_by_ip, cluster_ip_hash(e->node, e->ip));

	if (o != NULL)
		pod_mark_both(c, ns, &o->pod);
	for (; n != NULL; n = table_next(n)) {
		const struct record *r = link_record(n);

		if (strcmp(r->ns, ns) == 0)
			pod_mark_both(c, ns, &r->object->pod);
	}
}

static void
pod_mark_endpoints(struct cluster *c, const char *ns, const struct kube_endpoints *e)
{
	for (size_t i = 0; i < e->n_subsets; i++)
		for (size_t k = 0; k < e->subsets[i].n_endpoints; k++)
			pod_mark_endpoint(c, ns, &e->subsets[i].endpoints[k]);
}

/* Policies and Nodes mark all joints that they can affect, these among them. */
void
cluster_pod_mark(struct cluster *c, const struct record *r)
{
	struct joint *j;

	if (c->n_pods == 0)
		return;
	if (r->kind == KUBE_POD) {
		pod_mark_both(c, r->ns, &r->object->pod);
	} else if (r->kind == KUBE_SLICE || r->kind == KUBE_ENDPOINTS) {
		pod_mark_endpoints(c, r->ns, &r->object->endpoints);
	} else if (r->kind == KUBE_SERVICE) {
		TAILQ_FOREACH(j, &c->pods, pods)
			if (strcmp(j->ns, r->ns) == 0)
				cluster_index_mark(c, j);
	}
}

/* --- ranges --------------------------------------------------------------------------------- */

/* Sorted by their first address, so that a range meets another one if it meets that which reaches
 * farthest of those before it, or the next one. */
static void
pod_ranges_apart(struct pod_ranges *r)
{
	struct pod_ranges apart = {0};
	uint64_t reached = 0; /* the first address behind those before */

	for (size_t i = 0; i < r->n; i++) {
		const struct pod_range *at = &r->list[i];

		if (at->first >= reached && (i + 1 == r->n || r->list[i + 1].first > at->last))
			pod_ranges_add(&apart, at->first, at->last);
		reached = MAX(reached, (uint64_t)at->last + 1);
	}
	pod_ranges_fini(r);
	*r = apart;
}

static int
pod_compare_ranges(const void *a, const void *b)
{
	const struct pod_range *x = a, *y = b;

	return (x->first > y->first) - (x->first < y->first);
}

static void
pod_ranges_of(struct pod_ranges *r, const struct cluster *c)
{
	struct table_node *n = NULL;
	struct in6_addr ip;
	size_t slot = 0;
	unsigned bits;

	while ((n = table_walk(&c->nodes, &slot, n)) != NULL) {
		const struct record *node = link_record(n);
		const char *cidr = node->object->node.pod_cidr;

		if (*cidr != '\0' && ip_net_parse(cidr, &ip, &bits) && bits >= POD_RANGE_BITS) {
			uint32_t size = bits == 128 ? 0 : UINT32_MAX >> (bits - 96);
			uint32_t first = ip_to_v4(&ip) & ~size;

			if (pod_range_may(first, first | size))
				pod_ranges_add(r, first, first | size);
		}
	}
	if (r->n > 1)
		qsort(r->list, r->n, sizeof *r->list, pod_compare_ranges);
	pod_ranges_apart(r);
	pod_ranges_settle(r);
}

const char *
cluster_pod_ranges(struct cluster *c)
{
	struct pod_ranges r = {0};
	auto_buf struct buf text;

	buf_init(&text, BUF_UNLIMITED);
	if (c->ranges != NULL && c->ranges_at == c->node_changes)
		return c->ranges;
	pod_ranges_of(&r, c);
	pod_ranges_build(&text, &r);
	pod_ranges_fini(&r);
	free(c->ranges);
	c->ranges = buf_take_str(&text);
	c->ranges_at = c->node_changes;
	return c->ranges;
}

/* --- its Services --------------------------------------------------------------------------- */

struct pod_services {
	size_t n;
	const struct kube_service **list;
};

static void
pod_add_service(
	struct pod_services *to, const struct cluster *c, const struct joint *j, const char *ns)
{
	const struct kube_object *o = cluster_find(c, KUBE_SERVICE, j->ns, j->name);

	if (o == NULL || strcmp(j->ns, ns) != 0)
		return;
	for (size_t i = 0; i < to->n; i++)
		if (to->list[i] == &o->service)
			return;
	to->list = xrealloc(to->list, (to->n + 1) * sizeof *to->list);
	to->list[to->n++] = &o->service;
}

/* By their selectors, whatever the slices say, and by the slices that name the pod. Services that
 * the mesh does not serve are among them: what they refuse stays refused at the pod's address. */
static void
pod_services_of(struct pod_services *to, const struct cluster *c, const struct kube_object *pod)
{
	const struct kube_pod *p = &pod->pod;
	const uint64_t hashes[] = {cluster_pod_hash(pod->ns, pod->name),
		cluster_ip_hash(p->node, p->pod_ip), cluster_ip_hash(p->node, p->pod_ip6)};
	struct table_node *n;

	for (size_t i = 0; i < p->labels.n; i++)
		for (n = table_first(&c->joints_by_selector,
			     cluster_label_hash(pod->ns, &p->labels.list[i]));
			n != NULL; n = table_next(n)) {
			const struct joint *j = link_joint(n);
			const struct kube_object *o = cluster_find(c, KUBE_SERVICE, j->ns, j->name);

			if (o != NULL && cluster_selects(&o->service.selector, &p->labels))
				pod_add_service(to, c, j, pod->ns);
		}
	for (size_t i = 0; i < ARRAY_LEN(hashes); i++)
		for (n = table_first(&c->joints_by_pod, hashes[i]); n != NULL; n = table_next(n))
			pod_add_service(to, c, link_joint(n), pod->ns);
}

/* Texts of two Services cannot be joined by "and": then nobody may call the pod by its address. */
static void
pod_restrict(struct joining *j, const struct pod_services *services)
{
	struct view *v = j->view;

	for (size_t i = 0; i < services->n; i++) {
		const struct kube_service *s = services->list[i];

		if (s->lb.encrypt > ENCRYPT_OFF)
			v->lb.encrypt = MAX(v->lb.encrypt, s->lb.encrypt);
		if (*s->nodes != '\0')
			cluster_reasons_set(&j->why, CLUSTER_ALLOW_FROM,
				xstrdup("nobody may call the pod by its address, since it is "
					"behind a Service with edgeway.io/nodes: call it by that"));
		else if (*s->allow_from == '\0' || strcmp(v->allow_from, s->allow_from) == 0)
			continue;
		else if (*v->allow_from != '\0')
			cluster_reasons_set(&j->why, CLUSTER_ALLOW_FROM,
				xstrdup("nobody may call the pod by its address, since it is "
					"behind "
					"Services with different edgeway.io/allow-from: call it by "
					"one of these"));
		free(v->allow_from);
		v->allow_from = xstrdup(
			j->why.problem == CLUSTER_ALLOW_FROM ? ALLOW_FROM_NONE : s->allow_from);
	}
}

/* --- joining -------------------------------------------------------------------------------- */

static int
pod_compare_ports(const void *a, const void *b)
{
	return (int)*(const uint16_t *)a - (int)*(const uint16_t *)b;
}

static void
pod_add_ports(struct joining *j, const struct joint *joint, const struct pod_services *services,
	const struct members *pod)
{
	struct kube_service_port asked = {.name = (char[]){""},
		.app_protocol = (char[]){""},
		.target_name = (char[]){""},
		.protocol = KUBE_TCP};
	uint16_t ports[POD_ASKED_MAX];

	j->quiet = true;
	for (size_t i = 0; i < services->n; i++)
		for (size_t k = 0; k < services->list[i]->n_ports; k++) {
			struct kube_service_port sp = services->list[i]->ports[k];

			sp.target = join_find_target(&pod->list[0]->pod->pod, &sp);
			cluster_join_extra(j, &sp, sp.target, pod);
		}
	cluster_join_declared(j, pod);
	for (size_t i = 0; i < joint->n_asked; i++)
		ports[i] = joint->asked[i].port;
	qsort(ports, joint->n_asked, sizeof *ports, pod_compare_ports);
	for (size_t i = 0; i < joint->n_asked; i++) {
		asked.port = asked.target = ports[i];
		if (i == 0 || ports[i] != ports[i - 1])
			cluster_join_extra(j, &asked, asked.port, pod);
	}
	j->quiet = false;
	join_sort_gates(j->view);
}

static void
pod_join_one(struct joining *j, const struct joint *joint, const struct kube_object *pod)
{
	struct pod_services services = {0};
	const struct member *list[2] = {NULL, NULL};
	struct members members = {.list = list};

	join_gather_pod(j, pod);
	for (; members.n < j->n_members && members.n < ARRAY_LEN(list); members.n++)
		list[members.n] = &j->members[members.n];
	pod_services_of(&services, j->c, pod);
	pod_restrict(j, &services);
	if (members.n > 0)
		pod_add_ports(j, joint, &services, &members);
	free(services.list);
	join_members_free(j);
}

/* One address, several pods: that of which node is meant, only who asks knows. */
static void
pod_explain_many(struct joining *j, const char *address)
{
	auto_buf struct buf text;
	const struct record *r;
	struct table_node *at = NULL;
	size_t n = 0;

	buf_init(&text, BUF_UNLIMITED);
	while ((r = pod_next(j->c, &at, j->ns, address)) != NULL)
		if (n++ < POD_NAMED)
			buf_printf(&text, "%s%.63s on %.63s", n > 1 ? ", " : "", r->name,
				r->object->pod.node);
	cluster_reasons_set(&j->why, CLUSTER_NO_ENDPOINTS,
		xasprintf("%zu pods of the namespace have the address %s (%s%s): call them by the "
			  "hostnames that a headless Service gives them",
			n, address, buf_str(&text), n > POD_NAMED ? ", ..." : ""));
}

size_t
cluster_pod_join(const struct cluster *c, const struct joint *joint, struct joined **views)
{
	char none[] = "", address[INET6_ADDRSTRLEN];
	const struct kube_service service = {.cluster_ip = none,
		.cluster_ip6 = none,
		.external_name = none,
		.hash_key = none,
		.health_path = none,
		.allow_from = none,
		.nodes = none,
		.headless = true,
		.publish_not_ready = true, /* who calls an address wants it ready or not */
		.dual = true,
		.lb = {.retries = RETRIES_DEFAULT, .request_ms = REQUEST_MS_DEFAULT}};
	struct joining j = {.c = c,
		.joint = joint,
		.ns = joint->ns,
		.name = joint->name,
		.service = &service,
		.why = {.problem = CLUSTER_WELL}};
	struct cluster_place place;
	enum cluster_pod_found found = pod_name_address(joint->name, address)
		? cluster_pod_find(c, joint->ns, address, "", &place)
		: CLUSTER_POD_NONE;

	if (found == CLUSTER_POD_NONE)
		return 0;
	j.view = cluster_join_new_view(&j, "");
	if (found == CLUSTER_POD_ONE)
		pod_join_one(&j, joint, cluster_find(c, KUBE_POD, place.ns, place.pod));
	else
		pod_explain_many(&j, address);
	*views = xcalloc(1, sizeof **views);
	(*views)[0] = (struct joined){j.view, j.why, "", false};
	return 1;
}
