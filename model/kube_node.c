#include <string.h>

#include "model/check.h"
#include "model/kube_private.h"

static void
take_external(struct decoder *d, const struct tree_node *addresses, struct kube_node *node)
{
	node->public_ip = xstrdup("");
	node->public_ip6 = xstrdup("");
	tree_each(addresses, n)
		if (strcmp(tree_text(tree_get(n, "type"), ""), "ExternalIP") == 0)
			kube_ips_add(&node->public_ip, &node->public_ip6,
				kube_text(d, n, "address", check_ip));
}

/* Takes the InternalIPs, or all other addresses. */
static void
take_some(
	struct decoder *d, const struct tree_node *addresses, bool internal, struct kube_node *node)
{
	tree_each(addresses, a) {
		bool is = strcmp(tree_text(tree_get(a, "type"), ""), "InternalIP") == 0;

		if (node->n_addresses == KUBE_NODE_ADDRESSES_MAX)
			return;
		if (is == internal)
			node->addresses[node->n_addresses++] =
				kube_text(d, a, "address", check_word);
	}
}

static void
take_addresses(struct decoder *d, const struct tree_node *addresses, struct kube_node *node)
{
	size_t n = MIN(kube_count(addresses), (size_t)KUBE_NODE_ADDRESSES_MAX);

	node->addresses = xcalloc(n + 1, sizeof *node->addresses);
	take_some(d, addresses, true, node);
	node->n_internal = node->n_addresses;
	take_some(d, addresses, false, node);
}

static bool
kube_node_is_net4(const char *text)
{
	struct in6_addr ip;
	unsigned bits;

	return strchr(text, ':') == NULL && strchr(text, '/') != NULL &&
		ip_net_parse(text, &ip, &bits);
}

static char *
kube_node_pod_cidr(const struct tree_node *spec)
{
	const char *first = tree_text(tree_get(spec, "podCIDR"), "");

	tree_each(tree_get(spec, "podCIDRs"), n)
		if (!kube_node_is_net4(first))
			first = tree_text(n, "");
	return xstrdup(kube_node_is_net4(first) ? first : "");
}

static bool
is_not_ready(const struct tree_node *n)
{
	tree_each(tree_path(n, "status.conditions"), c)
		if (strcmp(tree_text(tree_get(c, "type"), ""), "Ready") == 0)
			return strcmp(tree_text(tree_get(c, "status"), ""), "True") != 0;
	return false;
}

void
kube_node_decode(struct decoder *d, const struct tree_node *n, struct kube_node *node)
{
	const struct tree_node *labels = tree_path(n, "metadata.labels");

	node->zone = kube_text(d, labels, "topology.kubernetes.io/zone", check_word);
	node->site = kube_text(d, labels, "edgeway.io/site", check_word);
	if (*node->site == '\0') {
		free(node->site);
		node->site = xstrdup(node->zone);
	}
	node->source_address =
		kube_text(d, tree_path(n, "metadata.annotations"), KUBE_SOURCE_ADDRESS, check_ip);
	node->site_given = *node->site != '\0';
	if (!node->site_given) {
		free(node->site);
		node->site = xstrdup(node->source_address);
	}
	node->is_public = strcmp(tree_text(tree_get(labels, "edgeway.io/public"), ""), "true") == 0;
	node->not_ready = is_not_ready(n);
	node->labels = kube_labels(d, labels);
	node->pod_cidr = kube_node_pod_cidr(tree_get(n, "spec"));
	take_external(d, tree_path(n, "status.addresses"), node);
	take_addresses(d, tree_path(n, "status.addresses"), node);
}

void
kube_node_fini(struct kube_node *n)
{
	free(n->site);
	free(n->zone);
	free(n->source_address);
	free(n->pod_cidr);
	free(n->public_ip);
	free(n->public_ip6);
	kube_labels_fini(&n->labels);
	for (size_t i = 0; i < n->n_addresses; i++)
		free(n->addresses[i]);
	free(n->addresses);
}
