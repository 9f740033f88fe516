/*
 * The Kubernetes source: Services, EndpointSlices, Pods and Nodes of an API server, loaded into a
 * model/cluster/cluster as source "". Endpoints are read only from a server without EndpointSlices,
 * DestinationRules and the Gateway API's routes only if configured; if the server does not know or
 * allow them, the source does not wait for them.
 *
 * The server filters: it never sends Services for another proxy
 * (service.kubernetes.io/service-proxy-name) and pods that have ended. `changed` comes
 * KUBERNETES_SETTLE_MS after the first of several changes, once for all: the slices of a service
 * are re-packed in several events. It does not come before everything has been listed once.
 *
 * On the hub's loop. The state that was read stays in use while the API server is away.
 *
 *	kubernetes_start(&k, loop, &config, &err);
 *	if (kubernetes_ready(k))	// in `changed`
 */
#ifndef EDGEWAY_HUB_KUBE_KUBERNETES_H
#define EDGEWAY_HUB_KUBE_KUBERNETES_H

#include "base/core/loop.h"
#include "base/core/metric.h"
#include "hub/kube/kube_events.h"
#include "model/cluster/cluster.h"

enum { KUBERNETES_SETTLE_MS = 10 };

struct kubernetes;

/* Are HTTPRoutes, GRPCRoutes and ReferenceGrants read? AUTO: where the server has them. */
enum kubernetes_gateway { KUBERNETES_GATEWAY_AUTO, KUBERNETES_GATEWAY_ON, KUBERNETES_GATEWAY_OFF };

struct kubernetes_config {
	const char *kubeconfig; /* "": in-cluster */
	bool rules; /* also read DestinationRules */
	/* also read NetworkPolicies and Namespaces; `changed` does not come before they are read */
	bool policies;
	enum kubernetes_gateway gateway;
	uint64_t silence_ms; /* of a watch; 0: the default of hub/kube/reflector.h */
	struct cluster *cluster;
	loop_fn *changed;
	void *arg;
};

/* Fails only for a kubeconfig that cannot be read; it waits for a server that is away. */
int kubernetes_start(struct kubernetes **k, struct loop *loop,
	const struct kubernetes_config *config, struct err *err);
/* The objects stay in the cluster: free that too. */
void kubernetes_stop(struct kubernetes **k);
/* Returns true once everything has been listed once. */
bool kubernetes_ready(const struct kubernetes *k);
/* The Events on Services, see hub/kube/kube_events.h: NULL before everything is read. */
struct kube_events *kubernetes_events(struct kubernetes *k);
/* For other requests to the same server; valid until kubernetes_stop. */
struct kube_api *kubernetes_api(const struct kubernetes *k);
/* The first problem of the resources that are read; "": none. Borrowed for the call. */
const char *kubernetes_problem(const struct kubernetes *k);
/* Calls fn for each resource that cannot be read now. Texts are borrowed. */
void kubernetes_each_problem(const struct kubernetes *k,
	void (*fn)(void *arg, const char *resource, const char *problem), void *arg);
/* {"server":..,"ready":..,"problem":..,"services":{..},"endpointslices":{..},...} */
void kubernetes_state(const struct kubernetes *k, struct buf *out);
void kubernetes_metrics(const struct kubernetes *k, struct metrics *to);

#endif
