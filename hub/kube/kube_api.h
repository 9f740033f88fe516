/*
 * Requests to the Kubernetes API: hub/kube/https with the server and the credentials of a
 * kubeconfig or of the pod, which are read again before a request (at most once in
 * KUBE_API_FRESH_MS). When they cannot be read any more, the last good ones serve on. On the hub's
 * loop.
 *
 *	kube_api_open(&api, loop, "", &err);	// in-cluster
 *	request = kube_api_start(api, &call);	// call.peer is filled in
 *
 * Who is refused or not answered asks again after kube_wait_ms: within a second, however long the
 * server was away, so that its return is noticed at once; hubs come back spread over that second.
 * While it starts it refuses with 403 and 404 what it grants a moment later, so that neither is
 * believed before it has lasted for KUBE_WAIT_DOUBT_MS, by who had an answer before.
 */
#ifndef EDGEWAY_HUB_KUBE_KUBE_API_H
#define EDGEWAY_HUB_KUBE_KUBE_API_H

#include "hub/kube/https.h"

enum {
	KUBE_API_FRESH_MS = 1000,
	KUBE_WAIT_FIRST_MS = 100,
	KUBE_WAIT_MOST_MS = 1000,
	KUBE_WAIT_REFUSALS =
		1000, /* in a row, some 13 minutes; then at most KUBE_WAIT_REFUSED_MS */
	KUBE_WAIT_REFUSED_MS = 10 * 1000,
	KUBE_WAIT_SPREAD_MS = 250,
	KUBE_WAIT_DOUBT_MS = 30 * 1000,
};

struct kube_api;

/* Attempts in a row that failed. All zero: none. */
struct kube_wait {
	uint64_t first_ms; /* 0: KUBE_WAIT_FIRST_MS */
	unsigned failures;
	bool refused; /* the last one was answered, by no 2xx */
	uint64_t doubt_ms; /* since when it is refused with 403 or 404; 0: it is not */
};

int kube_api_open(
	struct kube_api **api, struct loop *loop, const char *kubeconfig, struct err *err);
/* Every request must have ended or been stopped. */
void kube_api_close(struct kube_api **api);
struct https_request *kube_api_start(struct kube_api *api, const struct https_call *call);
const char *kube_api_server(const struct kube_api *api);
/* The namespace of the pod, or of the kubeconfig's context; "" when none is said. */
const char *kube_api_namespace(const struct kube_api *api);
/* How long to wait, in ms, before the next attempt: twice as long each time, at random between half
 * of it and all of it; what the server asks for by Retry-After (RFC 9110 10.2.3) and at most
 * KUBE_WAIT_SPREAD_MS more. answer: NULL: of an attempt that failed for another reason. */
uint64_t kube_wait_ms(struct kube_wait *w, const struct https_answer *answer);
/* An attempt went well. */
void kube_wait_reset(struct kube_wait *w);
/* Is this answer, of now_ms on the loop's clock, a 403 or 404 that has not lasted yet? */
bool kube_wait_doubts(struct kube_wait *w, const struct https_answer *answer, uint64_t now_ms);
/* Why the credentials in use may be old; "". */
const char *kube_api_problem(const struct kube_api *api);

#endif
