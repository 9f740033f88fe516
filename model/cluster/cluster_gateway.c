/*
 * Services of type LoadBalancer with our class: which addresses their status is to have. A node
 * counts if it is ready, gets the Service (edgeway.io/nodes), and its agent lives; it counts with
 * its ExternalIPs, else with its InternalIPs.
 */
#include <string.h>

#include "base/core/buf.h"
#include "model/check.h"
#include "model/cluster/cluster_private.h"
#include "model/selector.h"

struct gateway_nodes {
	const struct record **list;
	size_t n;
};

static int
gateway_by_name(const void *a, const void *b)
{
	const struct record *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

/* All nodes that may count, by name: replicas and rounds agree on the order. */
static void
gateway_collect(
	const struct cluster *c, cluster_alive_fn *alive, void *arg, struct gateway_nodes *to)
{
	size_t slot = 0;

	to->list = xcalloc(c->nodes.n + 1, sizeof *to->list);
	for (struct table_node *at = NULL; (at = table_walk(&c->nodes, &slot, at)) != NULL;) {
		const struct record *r = link_record(at);

		if (!r->object->node.not_ready && alive(arg, r->name))
			to->list[to->n++] = r;
	}
	qsort(to->list, to->n, sizeof *to->list, gateway_by_name);
}

static void
gateway_add(struct buf *to, const char *ip, size_t *n)
{
	struct in6_addr checked;

	if (ip_parse(ip, &checked) && *n < CLUSTER_GATEWAY_ADDRESSES_MAX)
		buf_printf(to, "%s%s", (*n)++ > 0 ? "," : "", ip);
}

static char *
gateway_addresses(const struct gateway_nodes *nodes, const char *selector)
{
	struct selector *chosen = NULL;
	auto_buf struct buf to;
	size_t n = 0;

	buf_init(&to, BUF_UNLIMITED);
	if (*selector != '\0' && selector_parse(&chosen, selector, NULL) < 0)
		return xstrdup("");
	for (size_t i = 0; i < nodes->n; i++) {
		const struct kube_node *node = &nodes->list[i]->object->node;

		if (chosen != NULL && !selector_matches(chosen, &node->labels))
			continue;
		gateway_add(&to, node->public_ip, &n);
		gateway_add(&to, node->public_ip6, &n);
		for (size_t k = 0; *node->public_ip == '\0' && k < node->n_internal; k++)
			gateway_add(&to, node->addresses[k], &n);
	}
	selector_free(&chosen);
	return buf_take_str(&to);
}

void
cluster_each_gateway(
	const struct cluster *c, cluster_alive_fn *alive, cluster_gateway_fn *fn, void *arg)
{
	struct gateway_nodes nodes = {0};
	size_t slot = 0;

	for (struct table_node *at = NULL; (at = table_walk(&c->joints, &slot, at)) != NULL;) {
		const struct joint *j = node_of(struct joint, at);
		const struct kube_object *o = cluster_find(c, KUBE_SERVICE, j->ns, j->name);
		auto_free char *wants = NULL;

		if (o == NULL || !o->service.gateway || o->service.excluded)
			continue;
		if (nodes.list == NULL)
			gateway_collect(c, alive, arg, &nodes);
		wants = gateway_addresses(&nodes, o->service.nodes);
		fn(arg,
			&(struct cluster_gateway){.ns = j->ns,
				.name = j->name,
				.has = o->service.ingress,
				.wants = wants});
	}
	free(nodes.list);
}
