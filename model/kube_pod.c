#include <string.h>

#include "model/check.h"
#include "model/kube_private.h"

/* The kubelet always writes the condition; a hand-written manifest that only says "Running" means
 * ready. */
static bool
is_ready(const struct tree_node *status)
{
	tree_each(tree_get(status, "conditions"), c)
		if (strcmp(tree_text(tree_get(c, "type"), ""), "Ready") == 0)
			return strcmp(tree_text(tree_get(c, "status"), ""), "True") == 0;
	return strcmp(tree_text(tree_get(status, "phase"), ""), "Running") == 0;
}

/* A sidecar is an init container that keeps running. */
static bool
kube_pod_stays(const struct tree_node *container, bool init)
{
	return !init || strcmp(tree_text(tree_get(container, "restartPolicy"), ""), "Always") == 0;
}

static size_t
count_ports(const struct tree_node *containers)
{
	size_t n = 0;

	tree_each(containers, c)
		n += kube_count(tree_get(c, "ports"));
	return n;
}

static void
decode_ports(struct decoder *d, const struct tree_node *containers, bool init, struct kube_pod *p)
{
	tree_each(containers, c) {
		if (!kube_pod_stays(c, init))
			continue;
		tree_each(kube_list(d, c, "ports"), n) {
			struct kube_container_port *port = &p->ports[p->n_ports++];

			port->name = kube_text(d, n, "name", check_label);
			port->protocol = kube_protocol(d, n);
			port->port = kube_port(d, n, "containerPort");
			port->host_port = kube_port(d, n, "hostPort");
			/* 0.0.0.0 and :: mean every address, like none at all. */
			port->host_ip = kube_text(d, n, "hostIP", NULL);
			if (!check_ip(port->host_ip, strlen(port->host_ip)))
				port->host_ip[0] = '\0';
			if (port->port == 0)
				kube_wrong(d, n, "containerPort: missing");
		}
	}
}

void
kube_pod_decode(struct decoder *d, const struct tree_node *n, struct kube_pod *p)
{
	static const char *const pod_ips[] = {"podIP", "podIPs", "ip"};
	static const char *const host_ips[] = {"hostIP", "hostIPs", "ip"};
	const struct tree_node *meta = tree_get(n, "metadata"), *spec = tree_get(n, "spec");
	const struct tree_node *status = tree_get(n, "status");
	const struct tree_node *containers = kube_list(d, spec, "containers");
	const struct tree_node *inits = kube_list(d, spec, "initContainers");
	const char *phase = tree_text(tree_get(status, "phase"), "");

	p->labels = kube_labels(d, tree_get(meta, "labels"));
	p->node = kube_text(d, spec, "nodeName", check_subdomain);
	p->hostname = kube_text(d, spec, "hostname", check_label);
	p->subdomain = kube_text(d, spec, "subdomain", check_label);
	kube_ips(d, status, pod_ips, &p->pod_ip, &p->pod_ip6);
	kube_ips(d, status, host_ips, &p->host_ip, &p->host_ip6);
	p->host_network = tree_bool(tree_get(spec, "hostNetwork"), false);
	p->deleting = !tree_is_null(tree_get(meta, "deletionTimestamp"));
	p->ended = strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0;
	p->ready = is_ready(status);
	p->ports = xcalloc(count_ports(containers) + count_ports(inits) + 1, sizeof *p->ports);
	decode_ports(d, containers, false, p);
	decode_ports(d, inits, true, p);
}

void
kube_pod_fini(struct kube_pod *p)
{
	for (size_t i = 0; i < p->n_ports; i++) {
		free(p->ports[i].name);
		free(p->ports[i].host_ip);
	}
	free(p->ports);
	free(p->node);
	free(p->hostname);
	free(p->subdomain);
	free(p->pod_ip);
	free(p->host_ip);
	free(p->pod_ip6);
	free(p->host_ip6);
	kube_labels_fini(&p->labels);
}
