/*
 * Requests to the Kubernetes API: hub/https with the server and the credentials of a kubeconfig or of the pod,
 * which are read again before a request (at most once in KUBE_API_FRESH_MS). When they cannot be read
 * any more, the last good ones serve on. On the hub's loop.
 *
 *	kube_api_open(&api, loop, "", &err);	// in-cluster
 *	request = kube_api_start(api, &call);	// call.peer is filled in
 */
#ifndef EDGEWAY_HUB_KUBE_API_H
#define EDGEWAY_HUB_KUBE_API_H

#include "hub/https.h"

enum { KUBE_API_FRESH_MS = 1000 };

struct kube_api;

int kube_api_open(
	struct kube_api **api, struct loop *loop, const char *kubeconfig, struct err *err);
/* Every request must have ended or been stopped. */
void kube_api_close(struct kube_api **api);
struct https_request *kube_api_start(struct kube_api *api, const struct https_call *call);
const char *kube_api_server(const struct kube_api *api);
/* The namespace of the pod, or of the kubeconfig's context; "" when none is said. */
const char *kube_api_namespace(const struct kube_api *api);
/* Why the credentials in use may be old; "". */
const char *kube_api_problem(const struct kube_api *api);

#endif
