#include <string.h>

#include "model/check.h"
#include "model/kube_private.h"
#include "model/mesh.h"

static const char mesh_key[] = "edgeway.io/mesh";

static void
decode_meta(const struct tree_node *meta, struct kube_service *s)
{
	const struct tree_node *labels = tree_get(meta, "labels");
	const struct tree_node *annotations = tree_get(meta, "annotations");

	s->excluded = tree_get(labels, "service.kubernetes.io/service-proxy-name") != NULL ||
		strcmp(tree_text(tree_get(labels, mesh_key), ""), "false") == 0 ||
		strcmp(tree_text(tree_get(annotations, mesh_key), ""), "false") == 0;
}

static void
decode_target(struct decoder *d, const struct tree_node *port, struct kube_service_port *p)
{
	const struct tree_node *target = tree_get(port, "targetPort");
	int64_t v = 0;

	if (tree_is_null(target)) {
		p->target = p->port;
		p->target_name = xstrdup("");
	} else if (target->kind == TREE_SCALAR && !target->quoted &&
		tree_int(target, 1, UINT16_MAX, &v) == 0) {
		p->target = (uint16_t)v;
		p->target_name = xstrdup("");
	} else {
		p->target_name = kube_text(d, port, "targetPort", check_label);
		if (strspn(p->target_name, "0123456789-") == strlen(p->target_name))
			kube_wrong(
				d, target, "targetPort: a port from 1 to 65535 or a name expected");
	}
}

static void
decode_port(struct decoder *d, const struct tree_node *n, struct kube_service *s,
	struct kube_service_port *p)
{
	p->name = kube_text(d, n, "name", check_label);
	p->app_protocol = kube_text(d, n, "appProtocol", NULL);
	p->protocol = kube_protocol(d, n);
	p->port = kube_port(d, n, "port");
	if (p->port == 0)
		kube_wrong(d, n, "port: missing");
	p->node_port = kube_port(d, n, "nodePort");
	decode_target(d, n, p);
	for (const struct kube_service_port *o = s->ports; o != p; o++) {
		if (o->port == p->port && o->protocol == p->protocol)
			kube_wrong(d, n, "port %u twice with the same protocol", p->port);
		if (strcmp(o->name, p->name) == 0)
			kube_wrong(d, n, "several ports need a name each, '%s' is not unique",
				p->name);
	}
}

static void
decode_ports(struct decoder *d, const struct tree_node *list, struct kube_service *s)
{
	size_t n = kube_count(list);

	if (n > MESH_PORTS_MAX) {
		kube_wrong(d, list, "ports: %zu, at most %d are allowed", n, MESH_PORTS_MAX);
		return;
	}
	s->ports = xcalloc(n + 1, sizeof *s->ports);
	tree_each(list, port)
		decode_port(d, port, s, &s->ports[s->n_ports++]);
}

/* The API server fills in ipFamilies; a manifest may have clusterIPs or ipFamilyPolicy alone. */
static void
decode_families(const struct tree_node *spec, struct kube_service *s)
{
	const struct tree_node *families = tree_get(spec, "ipFamilies");
	bool given = !tree_is_null(families), has[2] = {false, false};

	tree_each(given ? families : tree_get(spec, "clusterIPs"), n) {
		const char *text = tree_text(n, "");
		bool v6 = strcmp(text, "IPv6") == 0 || strchr(text, ':') != NULL;

		if (!has[0] && !has[1])
			s->v6_first = v6;
		has[v6] = true;
	}
	s->dual = (has[0] && has[1]) ||
		(!given && strstr(tree_text(tree_get(spec, "ipFamilyPolicy"), ""), "DualStack"));
	if (!has[0] && !has[1])
		s->v6_first = strchr(s->cluster_ip, ':') != NULL;
}

/* "None" occurs in both clusterIP and clusterIPs. */
static void
decode_address(struct decoder *d, const struct tree_node *spec, struct kube_service *s)
{
	s->headless = strcmp(tree_text(tree_get(spec, "clusterIP"), ""), "None") == 0;
	s->cluster_ip = s->headless ? xstrdup("") : kube_text(d, spec, "clusterIP", check_ip);
	s->cluster_ip6 = xstrdup("");
	tree_each(tree_get(spec, "clusterIPs"), n) {
		const char *ip = tree_text(n, "");

		if (!s->headless && check_ip(ip, strlen(ip)))
			kube_ips_add(&s->cluster_ip, &s->cluster_ip6, xstrdup(ip));
	}
	decode_families(spec, s);
}

/* How it is called from outside the cluster. */
static void
decode_external_calls(struct decoder *d, const struct tree_node *spec, struct kube_service *s)
{
	const struct tree_node *ips = tree_get(spec, "externalIPs");

	s->external_local =
		strcmp(tree_text(tree_get(spec, "externalTrafficPolicy"), ""), "Local") == 0;
	if (s->external_local)
		s->health_port = kube_port(d, spec, "healthCheckNodePort");
	s->gateway = strcmp(tree_text(tree_get(spec, "type"), ""), "LoadBalancer") == 0 &&
		strcmp(tree_text(tree_get(spec, "loadBalancerClass"), ""), KUBE_GATEWAY_CLASS) == 0;
	tree_each(ips, n) {
		const char *ip = tree_text(n, "");

		if (!check_ip(ip, strlen(ip)))
			kube_note(d, n, "externalIPs: '%.80s' is no IP address", ip);
		else if (!view_names_add(&s->external_ips, ip))
			kube_note(d, n, "externalIPs: only %d are served", MESH_HINTS_MAX);
	}
}

static char *
decode_ingress(const struct tree_node *n)
{
	auto_buf struct buf list;

	buf_init(&list, BUF_UNLIMITED);
	tree_each(tree_path(n, "status.loadBalancer.ingress"), at) {
		const char *ip = tree_text(tree_get(at, "ip"), "");

		if (check_ip(ip, strlen(ip)))
			buf_printf(&list, "%s%s", buf_len(&list) > 0 ? "," : "", ip);
	}
	return buf_take_str(&list);
}

static void
decode_external(struct decoder *d, const struct tree_node *spec, struct kube_service *s)
{
	const struct tree_node *name = tree_get(spec, "externalName");
	const char *text = tree_text(name, "");
	size_t len = strlen(text);

	if (len > 0 && text[len - 1] == '.')
		len--;
	if (!check_subdomain(text, len)) {
		kube_wrong(d, name != NULL ? name : spec, "externalName: '%.80s' is no DNS name",
			text);
		len = 0;
	}
	s->external_name = xstrndup(text, len);
	s->cluster_ip = xstrdup("");
	s->cluster_ip6 = xstrdup("");
}

void
kube_service_decode(struct decoder *d, const struct tree_node *n, struct kube_service *s)
{
	const struct tree_node *spec = tree_get(n, "spec");
	const char *type = tree_text(tree_get(spec, "type"), "ClusterIP");

	decode_meta(tree_get(n, "metadata"), s);
	kube_policy_decode(d, n, s);
	if (strcmp(type, "ExternalName") == 0) {
		decode_external(d, spec, s);
	} else if (strcmp(type, "ClusterIP") == 0 || strcmp(type, "NodePort") == 0 ||
		strcmp(type, "LoadBalancer") == 0) {
		decode_address(d, spec, s);
		if (!s->headless)
			decode_external_calls(d, spec, s);
		s->external_name = xstrdup("");
	} else {
		kube_wrong(d, tree_get(spec, "type"), "type: '%.40s' is not known", type);
	}
	s->publish_not_ready = tree_bool(tree_get(spec, "publishNotReadyAddresses"), false);
	s->selector = kube_labels(d, tree_get(spec, "selector"));
	s->ingress = decode_ingress(n);
	decode_ports(d, kube_list(d, spec, "ports"), s);
}

void
kube_service_fini(struct kube_service *s)
{
	for (size_t i = 0; i < s->n_ports; i++) {
		free(s->ports[i].name);
		free(s->ports[i].app_protocol);
		free(s->ports[i].target_name);
	}
	free(s->ports);
	free(s->cluster_ip);
	free(s->cluster_ip6);
	free(s->external_name);
	free(s->hash_key);
	free(s->health_path);
	free(s->nodes);
	free(s->nodes_wrong);
	free(s->allow_from);
	free(s->allow_from_wrong);
	view_names_fini(&s->external_ips);
	free(s->ingress);
	kube_labels_fini(&s->selector);
}
