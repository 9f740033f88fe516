#include "hub/kube/kubernetes.h"

#include <stdio.h>
#include <string.h>

#include "base/core/figures.h"
#include "base/core/log.h"
#include "hub/kube/ca_maps.h"
#include "hub/kube/reflector.h"
#include "model/json.h"

enum { CAS_WAIT_MS = 1000, CAS_WAIT_AT_START_MS = 10 * 1000 };

/* Endpoints are read only if there are no slices. */
enum {
	SERVICES,
	SLICES,
	PODS,
	NODES,
	ENDPOINTS,
	RULES,
	POLICIES,
	NAMESPACES,
	HTTPROUTES,
	GRPCROUTES,
	GRANTS,
	TLS_POLICIES,
	RESOURCES
};

/* All versions mean the same here; EdgeMesh installs the first two. */
static const char *const istio_versions[] = {"v1alpha3", "v1beta1", "v1", NULL};
static const char *const gateway_versions[] = {"v1", "v1beta1", NULL};
static const char *const tls_versions[] = {"v1", "v1alpha3", NULL};

#define GATEWAY_RIGHTS "deploy/kubernetes/rbac-gateway.yaml"

static const struct resource {
	const char *name, *group, *select;
	enum kube_kind kind;
	const char *const *versions;
	const char *rights;
} resources[RESOURCES] = {
	[SERVICES] = {.name = "services",
		.group = "",
		/* !service.kubernetes.io/service-proxy-name */
		.select = "labelSelector=%21service.kubernetes.io%2Fservice-proxy-name",
		.kind = KUBE_SERVICE},
	[SLICES] = {.name = "endpointslices",
		.group = "discovery.k8s.io",
		.select = "",
		.kind = KUBE_SLICE},
	[PODS] = {.name = "pods",
		.group = "",
		/* status.phase!=Succeeded,status.phase!=Failed */
		.select = "fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed",
		.kind = KUBE_POD},
	[NODES] = {.name = "nodes", .group = "", .select = "", .kind = KUBE_NODE},
	[ENDPOINTS] = {.name = "endpoints", .group = "", .select = "", .kind = KUBE_ENDPOINTS},
	[RULES] = {.name = "destinationrules",
		.group = "networking.istio.io",
		.select = "",
		.kind = KUBE_RULE,
		.versions = istio_versions,
		.rights = "deploy/kubernetes/rbac-destinationrules.yaml"},
	[POLICIES] = {.name = "networkpolicies",
		.group = "networking.k8s.io",
		.select = "",
		.kind = KUBE_NETPOLICY,
		.rights = "deploy/kubernetes/rbac-networkpolicies.yaml"},
	[NAMESPACES] = {.name = "namespaces",
		.group = "",
		.select = "",
		.kind = KUBE_NAMESPACE,
		.rights = "deploy/kubernetes/rbac-networkpolicies.yaml"},
	[HTTPROUTES] = {.name = "httproutes",
		.group = KUBE_GATEWAY_GROUP,
		.select = "",
		.kind = KUBE_HTTPROUTE,
		.versions = gateway_versions,
		.rights = GATEWAY_RIGHTS},
	[GRPCROUTES] = {.name = "grpcroutes",
		.group = KUBE_GATEWAY_GROUP,
		.select = "",
		.kind = KUBE_GRPCROUTE,
		.rights = GATEWAY_RIGHTS},
	[GRANTS] = {.name = "referencegrants",
		.group = KUBE_GATEWAY_GROUP,
		.select = "",
		.kind = KUBE_GRANT,
		.versions = gateway_versions,
		.rights = GATEWAY_RIGHTS},
	[TLS_POLICIES] = {.name = "backendtlspolicies",
		.group = KUBE_GATEWAY_GROUP,
		.select = "",
		.kind = KUBE_TLS_POLICY,
		.versions = tls_versions,
		.rights = GATEWAY_RIGHTS},
};

struct kubernetes {
	struct kubernetes_config config;
	struct loop *loop;
	struct kube_api *api;
	struct reflector *reflectors[RESOURCES];
	struct kube_events *events;
	struct ca_maps *ca_maps; /* NULL: the Gateway API is not read */
	uint64_t cas_since_ms; /* since when it waits for some; 0: it does not */
	struct timer *settle;
	bool ready, pending;
};

static void on_touched(void *arg);

static void
start_reflector(struct kubernetes *k, int i)
{
	const struct reflector_config config = {
		.loop = k->loop,
		.api = k->api,
		.cluster = k->config.cluster,
		.resource = resources[i].name,
		.group = resources[i].group,
		.versions = resources[i].versions,
		.rights = resources[i].rights,
		.select = resources[i].select,
		.optional = i >= HTTPROUTES && k->config.gateway == KUBERNETES_GATEWAY_AUTO,
		.kind = resources[i].kind,
		.silence_ms = k->config.silence_ms,
		.changed = on_touched,
		.arg = k,
	};

	k->reflectors[i] = reflector_start(&config);
}

static bool
kubernetes_listed(const struct kubernetes *k, int i)
{
	return k->reflectors[i] != NULL && reflector_listed(k->reflectors[i]);
}

/* True also if the server has refused: a state without rules, routes or TLS is better than none,
 * and is reported. */
static bool
kubernetes_settled(const struct kubernetes *k, int i)
{
	return k->reflectors[i] == NULL || kubernetes_listed(k, i) ||
		reflector_refused(k->reflectors[i]);
}

/* Without the policies, services would be open that somebody has closed: so wait for them. Without
 * the namespaces' labels a policy admits nobody through its namespaceSelector, which is the safe
 * side: so a refusal is accepted. */
static bool
policies_settled(const struct kubernetes *k)
{
	return k->reflectors[POLICIES] == NULL ||
		(kubernetes_listed(k, POLICIES) &&
			(kubernetes_listed(k, NAMESPACES) ||
				reflector_refused(k->reflectors[NAMESPACES])));
}

static bool
all_listed(const struct kubernetes *k)
{
	return kubernetes_listed(k, SERVICES) && kubernetes_listed(k, PODS) &&
		kubernetes_listed(k, NODES) &&
		(kubernetes_listed(k, SLICES) || kubernetes_listed(k, ENDPOINTS)) &&
		kubernetes_settled(k, RULES) && kubernetes_settled(k, HTTPROUTES) &&
		kubernetes_settled(k, GRPCROUTES) && kubernetes_settled(k, GRANTS) &&
		kubernetes_settled(k, TLS_POLICIES) && policies_settled(k);
}

/* Reads Endpoints only while the server has no EndpointSlices; it may get them by an upgrade. */
static void
choose_membership(struct kubernetes *k)
{
	if (k->reflectors[ENDPOINTS] == NULL && !kubernetes_listed(k, SLICES) &&
		reflector_absent(k->reflectors[SLICES])) {
		log_info("kubernetes",
			"the API server has no EndpointSlices, reading Endpoints instead");
		start_reflector(k, ENDPOINTS);
	} else if (k->reflectors[ENDPOINTS] != NULL && kubernetes_listed(k, SLICES)) {
		log_info("kubernetes", "the API server has EndpointSlices now");
		reflector_stop(&k->reflectors[ENDPOINTS]);
		cluster_sweep(
			k->config.cluster, "", KUBE_ENDPOINTS, cluster_mark(k->config.cluster));
	}
}

/* A policy whose CAs are on their way would let calls fail that go well a moment later. But nobody
 * who changes policies again and again may hold everything else back. */
static bool
waits_for_cas(struct kubernetes *k)
{
	uint64_t now_ms = loop_now_ms(k->loop);

	if (k->ca_maps == NULL)
		return false;
	ca_maps_use(k->ca_maps);
	if (ca_maps_settled(k->ca_maps)) {
		k->cas_since_ms = 0;
		return false;
	}
	if (k->cas_since_ms == 0)
		k->cas_since_ms = now_ms;
	if (now_ms - k->cas_since_ms >= (k->ready ? CAS_WAIT_MS : CAS_WAIT_AT_START_MS))
		return false;
	k->pending = true;
	timer_start(k->settle, KUBERNETES_SETTLE_MS, 0);
	return true;
}

static void
on_settled(void *arg)
{
	struct kubernetes *k = arg;

	k->pending = false;
	choose_membership(k);
	if (waits_for_cas(k))
		return;
	if (!k->ready && all_listed(k)) {
		k->ready = true;
		log_info("kubernetes", "everything is read services=%zu pods=%zu nodes=%zu",
			cluster_count(k->config.cluster, KUBE_SERVICE),
			cluster_count(k->config.cluster, KUBE_POD),
			cluster_count(k->config.cluster, KUBE_NODE));
	}
	if (k->ready)
		k->config.changed(k->config.arg);
}

/* Leaves the reflector's callback, in which no reflector may be stopped. */
static void
on_touched(void *arg)
{
	struct kubernetes *k = arg;

	/* Further events do not postpone it: a busy cluster, too, is reported from time to time. */
	if (k->pending)
		return;
	k->pending = true;
	timer_start(k->settle, KUBERNETES_SETTLE_MS, 0);
}

int
kubernetes_start(struct kubernetes **out, struct loop *loop, const struct kubernetes_config *config,
	struct err *err)
{
	struct kubernetes *k = xcalloc(1, sizeof *k);
	int rc;

	k->config = *config;
	k->loop = loop;
	*out = k;
	rc = kube_api_open(&k->api, loop, config->kubeconfig, err);
	if (rc < 0) {
		kubernetes_stop(out);
		return rc;
	}
	k->settle = timer_new(loop, on_settled, k);
	k->events = kube_events_new(loop, k->api);
	log_info("kubernetes", "reading from server=%s", kube_api_server(k->api));
	for (int i = SERVICES; i <= NODES; i++)
		start_reflector(k, i);
	if (config->rules)
		start_reflector(k, RULES);
	if (config->policies) {
		start_reflector(k, POLICIES);
		start_reflector(k, NAMESPACES);
	}
	if (config->gateway == KUBERNETES_GATEWAY_OFF)
		return 0;
	for (int i = HTTPROUTES; i <= TLS_POLICIES; i++)
		start_reflector(k, i);
	k->ca_maps = ca_maps_new(&(struct ca_maps_config){.loop = loop,
		.api = k->api,
		.cluster = config->cluster,
		.rights = "the verbs list and watch on configmaps (" GATEWAY_RIGHTS ")",
		.changed = on_touched,
		.arg = k});
	return 0;
}

void
kubernetes_stop(struct kubernetes **out)
{
	struct kubernetes *k = take_ptr(out);

	if (k == NULL)
		return;
	for (int i = 0; i < RESOURCES; i++)
		reflector_stop(&k->reflectors[i]);
	ca_maps_free(&k->ca_maps);
	kube_events_free(&k->events);
	timer_free(&k->settle);
	kube_api_close(&k->api);
	free(k);
}

bool
kubernetes_ready(const struct kubernetes *k)
{
	return k->ready;
}

struct kube_events *
kubernetes_events(struct kubernetes *k)
{
	return k->ready ? k->events : NULL;
}

struct kube_api *
kubernetes_api(const struct kubernetes *k)
{
	return k->api;
}

/* --- telling -------------------------------------------------------------------------------- */

void
kubernetes_each_problem(const struct kubernetes *k,
	void (*fn)(void *arg, const char *resource, const char *problem), void *arg)
{
	for (int i = 0; i < RESOURCES; i++) {
		const char *problem =
			k->reflectors[i] != NULL ? reflector_problem(k->reflectors[i]) : "";

		if (problem[0] != '\0')
			fn(arg, resources[i].name, problem);
	}
	if (k->ca_maps != NULL && ca_maps_problem(k->ca_maps)[0] != '\0')
		fn(arg, "configmaps", ca_maps_problem(k->ca_maps));
}

void
kubernetes_state(const struct kubernetes *k, struct buf *out)
{
	buf_adds(out, "{\"server\":");
	json_add_text(out, kube_api_server(k->api));
	buf_printf(out, ",\"ready\":%s,\"problem\":", k->ready ? "true" : "false");
	json_add_text(out, kube_api_problem(k->api));
	for (int i = 0; i < RESOURCES; i++) {
		if (k->reflectors[i] == NULL)
			continue;
		buf_printf(out, ",\"%s\":", resources[i].name);
		reflector_state(k->reflectors[i], out);
	}
	if (k->ca_maps != NULL) {
		buf_printf(out, ",\"configmaps\":{\"followed\":%zu,\"problem\":",
			ca_maps_count(k->ca_maps));
		json_add_text(out, ca_maps_problem(k->ca_maps));
		buf_adds(out, "}");
	}
	buf_adds(out, ",\"events\":");
	kube_events_state(k->events, out);
	buf_adds(out, "}");
}

static double
kubernetes_objects(const struct kubernetes *k, int i)
{
	return (double)cluster_count(k->config.cluster, resources[i].kind);
}

/* -1: nothing was ever heard. */
static double
kubernetes_heard_s(const struct kubernetes *k, int i)
{
	uint64_t heard_ms = reflector_stats(k->reflectors[i])->heard_ms;

	return heard_ms == 0 ? -1 : (double)(loop_now_ms(k->loop) - heard_ms) / 1000;
}

const char *
kubernetes_problem(const struct kubernetes *k)
{
	const char *problem = kube_api_problem(k->api);

	for (int i = 0; problem[0] == '\0' && i < RESOURCES; i++)
		if (k->reflectors[i] != NULL)
			problem = reflector_problem(k->reflectors[i]);
	if (problem[0] == '\0' && k->ca_maps != NULL)
		problem = ca_maps_problem(k->ca_maps);
	return problem;
}

static double
trouble_of(const struct kubernetes *k, int i)
{
	return reflector_problem(k->reflectors[i])[0] != '\0';
}

static void
kubernetes_gauge(const struct kubernetes *k, struct metrics *to, const char *name, const char *help,
	double (*value)(const struct kubernetes *k, int i))
{
	char label[64];

	for (int i = 0; i < RESOURCES; i++)
		if (k->reflectors[i] != NULL)
			metric_gauge(to, name, help,
				metric_label(label, sizeof label, "resource", resources[i].name),
				value(k, i));
}

void
kubernetes_metrics(const struct kubernetes *k, struct metrics *to)
{
	static const struct figure figures[] = {
		FIGURE(struct reflector_stats, errors, "edgeway_hub_kubernetes_errors_total", NULL,
			"Requests that failed or were refused.", NULL),
		FIGURE(struct reflector_stats, refused, "edgeway_hub_kubernetes_refused_total",
			NULL, "Objects that were not understood or too large.", NULL),
	};
	char label[RESOURCES][64];
	const char *labels[RESOURCES];
	const void *of[RESOURCES];
	size_t n = 0;

	kubernetes_gauge(
		k, to, "edgeway_hub_kubernetes_objects", "Objects that count.", kubernetes_objects);
	kubernetes_gauge(k, to, "edgeway_hub_kubernetes_heard_seconds",
		"Since the last byte of the API server; -1: never.", kubernetes_heard_s);
	kubernetes_gauge(k, to, "edgeway_hub_kubernetes_trouble",
		"1 while the resource cannot be read; the state says why.", trouble_of);
	for (int i = 0; i < RESOURCES; i++) {
		if (k->reflectors[i] == NULL)
			continue;
		labels[n] = metric_label(label[n], sizeof label[n], "resource", resources[i].name);
		of[n++] = reflector_stats(k->reflectors[i]);
	}
	figures_metrics_of(FIGURES(figures), of, labels, n, to);
}
