#include <string.h>

#include "model/check.h"
#include "model/kube_private.h"
#include "model/mesh.h"

/* Kubernetes forbids these as endpoints: they would reach the caller's own machine. */
static void
check_address(struct decoder *d, const struct tree_node *at, const char *text)
{
	struct in6_addr ip;
	uint32_t v4 = ip_v4(text);

	if (!check_ip(text, strlen(text)) || !ip_parse(text, &ip))
		kube_wrong(d, at, "'%.60s' is no IP address", text);
	else if (ip_is_loopback(&ip) || IN6_IS_ADDR_LINKLOCAL(&ip) || IN6_IS_ADDR_MULTICAST(&ip) ||
		v4 >> 16 == 0xa9fe || v4 >> 28 == 0xe)
		kube_wrong(d, at, "%s is loopback, link-local or multicast", text);
}

static void
decode_target(struct decoder *d, const struct tree_node *n, const char *ns, struct kube_endpoint *e)
{
	const struct tree_node *ref = tree_get(n, "targetRef");

	if (strcmp(tree_text(tree_get(ref, "kind"), ""), "Pod") == 0 &&
		strcmp(tree_text(tree_get(ref, "namespace"), ns), ns) == 0)
		e->pod = kube_text(d, ref, "name", check_subdomain);
	else
		e->pod = xstrdup("");
}

static void
decode_ports(struct decoder *d, const struct tree_node *list, struct kube_subset *s)
{
	s->ports = xcalloc(kube_count(list) + 1, sizeof *s->ports);
	tree_each(list, n) {
		struct kube_endpoint_port *p = &s->ports[s->n_ports++];

		p->name = kube_text(d, n, "name", check_label);
		p->app_protocol = kube_text(d, n, "appProtocol", NULL);
		p->protocol = kube_protocol(d, n);
		p->port = kube_port(d, n, "port");
	}
}

/* nil: ready means yes, serving means as ready, terminating means no. */
static uint8_t
decode_conditions(const struct tree_node *c)
{
	bool ready = tree_bool(tree_get(c, "ready"), true);
	bool serving = tree_bool(tree_get(c, "serving"), ready);
	bool terminating = tree_bool(tree_get(c, "terminating"), false);

	return (uint8_t)((ready ? ENDPOINT_READY : 0) | (serving ? ENDPOINT_SERVING : 0) |
		(terminating ? ENDPOINT_TERMINATING : 0));
}

/* hints.forZones and hints.forNodes: lists of {name}. */
static void
decode_hints(struct decoder *d, const struct tree_node *hints, const char *key, kube_check_fn check,
	struct view_names *names)
{
	tree_each(kube_list(d, hints, key), n) {
		auto_free char *name = kube_text(d, n, "name", check);

		if (*name != '\0' && !view_names_add(names, name))
			kube_wrong(d, n, "hints.%s: at most %d are allowed", key, MESH_HINTS_MAX);
	}
}

static void
decode_slice_endpoint(
	struct decoder *d, const struct tree_node *n, const char *ns, struct kube_endpoint *e)
{
	const struct tree_node *addresses = kube_list(d, n, "addresses");
	const struct tree_node *first = addresses != NULL ? addresses->child : NULL;

	e->ip = xstrdup(tree_text(first, ""));
	check_address(d, first != NULL ? first : n, e->ip);
	e->flags = decode_conditions(tree_get(n, "conditions"));
	e->hostname = kube_text(d, n, "hostname", check_label);
	e->node = kube_text(d, n, "nodeName", check_subdomain);
	e->zone = kube_text(d, n, "zone", check_word);
	decode_hints(d, tree_get(n, "hints"), "forZones", check_word, &e->hint_zones);
	decode_hints(d, tree_get(n, "hints"), "forNodes", check_subdomain, &e->hint_nodes);
	decode_target(d, n, ns, e);
}

void
kube_slice_decode(
	struct decoder *d, const struct tree_node *n, const char *ns, struct kube_endpoints *e)
{
	const struct tree_node *labels = tree_path(n, "metadata.labels");
	const struct tree_node *list = kube_list(d, n, "endpoints");
	const struct tree_node *type = tree_get(n, "addressType");
	struct kube_subset *s;

	e->service = kube_text(d, labels, "kubernetes.io/service-name", check_subdomain);
	if (strcmp(tree_text(type, ""), "FQDN") == 0) {
		e->service[0] = '\0'; /* host names cannot be dialled: ignore the slice */
		return;
	}
	if (strcmp(tree_text(type, ""), "IPv4") != 0 && strcmp(tree_text(type, ""), "IPv6") != 0)
		kube_wrong(d, type != NULL ? type : n, "addressType: IPv4, IPv6 or FQDN expected");
	e->n_subsets = 1;
	s = e->subsets = xcalloc(1, sizeof *s);
	decode_ports(d, kube_list(d, n, "ports"), s);
	s->endpoints = xcalloc(kube_count(list) + 1, sizeof *s->endpoints);
	tree_each(list, item)
		decode_slice_endpoint(d, item, ns, &s->endpoints[s->n_endpoints++]);
}

static void
decode_addresses(struct decoder *d, const struct tree_node *list, const char *ns, uint8_t flags,
	struct kube_subset *s)
{
	tree_each(list, n) {
		struct kube_endpoint *e = &s->endpoints[s->n_endpoints++];
		const struct tree_node *ip = tree_get(n, "ip");

		e->ip = xstrdup(tree_text(ip, ""));
		check_address(d, ip != NULL ? ip : n, e->ip);
		e->flags = flags;
		e->hostname = kube_text(d, n, "hostname", check_label);
		e->node = kube_text(d, n, "nodeName", check_subdomain);
		e->zone = xstrdup("");
		decode_target(d, n, ns, e);
	}
}

void
kube_endpoints_decode(
	struct decoder *d, const struct tree_node *n, const char *ns, struct kube_endpoints *e)
{
	const struct tree_node *list = kube_list(d, n, "subsets");

	e->service = xstrdup("");
	e->subsets = xcalloc(kube_count(list) + 1, sizeof *e->subsets);
	tree_each(list, item) {
		struct kube_subset *s = &e->subsets[e->n_subsets++];
		const struct tree_node *ready = kube_list(d, item, "addresses");
		const struct tree_node *other = kube_list(d, item, "notReadyAddresses");

		decode_ports(d, kube_list(d, item, "ports"), s);
		s->endpoints =
			xcalloc(kube_count(ready) + kube_count(other) + 1, sizeof *s->endpoints);
		decode_addresses(d, ready, ns, ENDPOINT_READY | ENDPOINT_SERVING, s);
		decode_addresses(d, other, ns, 0, s);
	}
}

static void
subset_fini(struct kube_subset *s)
{
	for (size_t i = 0; i < s->n_ports; i++) {
		free(s->ports[i].name);
		free(s->ports[i].app_protocol);
	}
	for (size_t i = 0; i < s->n_endpoints; i++) {
		struct kube_endpoint *e = &s->endpoints[i];

		free(e->ip);
		free(e->node);
		free(e->zone);
		free(e->hostname);
		free(e->pod);
		view_names_fini(&e->hint_zones);
		view_names_fini(&e->hint_nodes);
	}
	free(s->ports);
	free(s->endpoints);
}

void
kube_endpoints_fini(struct kube_endpoints *e)
{
	for (size_t i = 0; i < e->n_subsets; i++)
		subset_fini(&e->subsets[i]);
	free(e->subsets);
	free(e->service);
}
