#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/core/hash.h"
#include "model/check.h"
#include "model/cluster/cluster_private.h"

/* IPv6 addresses have many spellings; names are compared without case. */
static bool
same_address(const char *a, const char *b)
{
	struct in6_addr x, y;

	if (ip_parse(a, &x))
		return ip_parse(b, &y) && memcmp(&x, &y, sizeof x) == 0;
	return *b != '\0' && strcasecmp(a, b) == 0;
}

uint64_t
cluster_address_hash(const char *address)
{
	struct in6_addr ip;

	if (ip_parse(address, &ip))
		return hash64(&ip, sizeof ip, 'a');
	return hash64_nocase(address, strlen(address), 'a');
}

static bool
has_address(const struct record *r, const char *address)
{
	const struct kube_node *n = &r->object->node;

	if (r->kind == KUBE_POD)
		return same_address(address, r->object->pod.pod_ip) ||
			same_address(address, r->object->pod.pod_ip6);
	if (r->kind == KUBE_SERVICE)
		return same_address(address, r->object->service.cluster_ip) ||
			same_address(address, r->object->service.cluster_ip6);
	for (size_t i = 0; i < n->n_addresses; i++)
		if (same_address(address, n->addresses[i]))
			return true;
	return false;
}

/* A node that lists one address twice (InternalIP and Hostname) counts once. */
static bool
told_before(struct table_node *first, const struct table_node *at, const struct record *r)
{
	for (; first != at; first = table_next(first))
		if (link_record(first) == r)
			return true;
	return false;
}

size_t
cluster_places(
	const struct cluster *c, const char *address, struct cluster_place *places, size_t room)
{
	struct table_node *first = table_first(&c->by_address, cluster_address_hash(address));
	size_t n = 0;

	for (struct table_node *at = first; at != NULL; at = table_next(at)) {
		const struct record *r = link_record(at);

		if (r->kind == KUBE_SERVICE || !has_address(r, address) ||
			told_before(first, at, r))
			continue;
		if (n < room)
			places[n] = r->kind == KUBE_POD
				? (struct cluster_place){r->object->pod.node, r->ns, r->name}
				: (struct cluster_place){r->name, "", ""};
		n++;
	}
	return n;
}

bool
cluster_service_at(const struct cluster *c, const char *address, const char **ns, const char **name)
{
	struct table_node *at = table_first(&c->by_address, cluster_address_hash(address));

	for (; at != NULL; at = table_next(at)) {
		const struct record *r = link_record(at);

		if (r->kind != KUBE_SERVICE || !has_address(r, address))
			continue;
		*ns = r->ns;
		*name = r->name;
		return true;
	}
	return false;
}

bool
cluster_pod_at(
	const struct cluster *c, const char *node, const char *address, struct cluster_place *place)
{
	struct table_node *at = table_first(&c->by_address, cluster_address_hash(address));

	for (; at != NULL; at = table_next(at)) {
		const struct record *r = link_record(at);

		if (r->kind != KUBE_POD || strcmp(r->object->pod.node, node) != 0 ||
			!has_address(r, address))
			continue;
		*place = (struct cluster_place){r->object->pod.node, r->ns, r->name};
		return true;
	}
	return false;
}

bool
cluster_pod_has(const struct cluster *c, const char *ns, const char *name, const char *address)
{
	const struct kube_object *o = cluster_find(c, KUBE_POD, ns, name);

	if (o == NULL || o->pod.ended)
		return false;
	return same_address(address, o->pod.pod_ip) || same_address(address, o->pod.pod_ip6) ||
		(o->pod.host_network &&
			(same_address(address, o->pod.host_ip) ||
				same_address(address, o->pod.host_ip6)));
}

bool
cluster_pod_serves(const struct cluster *c, const struct cluster_place *pod, const char *address,
	uint16_t port, bool udp)
{
	const struct kube_object *o = cluster_find(c, KUBE_POD, pod->ns, pod->pod);
	const uint8_t protocol = udp ? KUBE_UDP : KUBE_TCP;

	return o != NULL && cluster_pod_has(c, pod->ns, pod->pod, address) &&
		(!o->pod.host_network || join_find_number(&o->pod, port, protocol) != NULL);
}

int
cluster_node_source(const struct cluster *c, const char *name, const char *address,
	struct cluster_source *source)
{
	const struct kube_object *o = cluster_find(c, KUBE_NODE, "", name);
	struct in6_addr seen, ip;
	bool any = false;

	if (o == NULL || !ip_parse(address, &seen))
		return -ENOENT;
	*source = (struct cluster_source){
		.site_given = o->node.site_given, .noted = o->node.source_address};
	for (size_t i = 0; i < o->node.n_addresses; i++) {
		if (!ip_parse(o->node.addresses[i], &ip))
			continue;
		any = true;
		source->own |= memcmp(&ip, &seen, sizeof ip) == 0;
	}
	return any ? 0 : -ENOENT;
}

bool
cluster_has_sites(const struct cluster *c)
{
	struct table_node *at = NULL;
	size_t slot = 0;

	while ((at = table_walk(&c->records, &slot, at)) != NULL) {
		const struct record *r = node_of(struct record, at);

		if (r->kind == KUBE_NODE && r->object != NULL && r->object->node.site[0] != '\0')
			return true;
	}
	return false;
}

const char *const *
cluster_node_addresses(const struct cluster *c, const char *name, size_t *n)
{
	const struct kube_object *o = cluster_find(c, KUBE_NODE, "", name);

	*n = o != NULL ? o->node.n_addresses : 0;
	return o != NULL ? (const char *const *)o->node.addresses : NULL;
}

static bool
slice_names_node(const struct kube_endpoints *e, const char *node)
{
	for (size_t i = 0; i < e->n_subsets; i++)
		for (size_t k = 0; k < e->subsets[i].n_endpoints; k++)
			if (strcmp(e->subsets[i].endpoints[k].node, node) == 0)
				return true;
	return false;
}

bool
cluster_names_node(const struct cluster *c, const char *node)
{
	struct table_node *at = NULL;
	size_t slot = 0;

	while ((at = table_walk(&c->records, &slot, at)) != NULL) {
		const struct record *r = node_of(struct record, at);

		if (r->object == NULL)
			continue;
		if (r->kind == KUBE_POD && !r->object->pod.ended &&
			strcmp(r->object->pod.node, node) == 0)
			return true;
		if ((r->kind == KUBE_SLICE || r->kind == KUBE_ENDPOINTS) &&
			slice_names_node(&r->object->endpoints, node))
			return true;
	}
	return false;
}

const char *
cluster_node_address(const struct cluster *c, const char *name)
{
	const struct kube_object *o = cluster_find(c, KUBE_NODE, "", name);
	struct in6_addr ip;

	for (size_t i = 0; o != NULL && i < o->node.n_addresses; i++)
		if (ip_parse(o->node.addresses[i], &ip))
			return o->node.addresses[i];
	return "";
}

size_t
cluster_node_ips(const struct cluster *c, const char *name, struct in6_addr ips[2])
{
	const struct kube_object *o = cluster_find(c, KUBE_NODE, "", name);
	bool found[2] = {false, false};
	struct in6_addr ip, first[2];
	size_t n = 0;

	for (size_t i = 0; o != NULL && i < o->node.n_addresses; i++) {
		bool ok = ip_parse(o->node.addresses[i], &ip);
		bool v6 = ok && !IN6_IS_ADDR_V4MAPPED(&ip);

		if (ok && !found[v6])
			first[v6] = ip;
		found[v6] |= ok;
	}
	for (unsigned v6 = 0; v6 < 2; v6++)
		if (found[v6])
			ips[n++] = first[v6];
	return n;
}

size_t
cluster_service_ips(
	const struct cluster *c, const char *ns, const char *name, struct in6_addr ips[2])
{
	const struct kube_object *o = cluster_find(c, KUBE_SERVICE, ns, name);
	size_t n = 0;

	if (o == NULL)
		return 0;
	n += ip_parse(o->service.cluster_ip, &ips[n]);
	n += ip_parse(o->service.cluster_ip6, &ips[n]);
	return n;
}

void
cluster_each_node(const struct cluster *c, cluster_node_fn *fn, void *arg)
{
	size_t slot = 0;

	for (struct table_node *at = NULL; (at = table_walk(&c->nodes, &slot, at)) != NULL;) {
		const struct record *r = link_record(at);
		const struct kube_node *n = &r->object->node;
		const struct cluster_node_facts facts = {.name = r->name,
			.addresses = (const char *const *)n->addresses,
			.n_addresses = n->n_addresses,
			.direct = n->is_public || *n->public_ip != '\0'};

		fn(arg, &facts);
	}
}
