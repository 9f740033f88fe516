/*
 * Requests to the Kubernetes API: hub/kube/https with the server and the credentials of a
 * kubeconfig or of the pod, which are read again before a request (at most once in
 * KUBE_API_FRESH_MS). If they cannot be read any more, the last good ones stay in use. On the hub's
 * loop.
 *
 *	kube_api_open(&api, loop, "", &err);	// in-cluster
 *	request = kube_api_start(api, &call);	// call.peer is filled in
 *
 * After a refusal or no response, repeat the request after kube_wait_ms: within a second, however
 * long the server was away, so that its return is noticed at once; jitter spreads the hubs over
 * that second. A server that starts refuses with 403 and 404 what it grants a moment later. So a
 * caller that had a good response before must not act on either until it has lasted for
 * KUBE_WAIT_DOUBT_MS.
 */
#ifndef EDGEWAY_HUB_KUBE_KUBE_API_H
#define EDGEWAY_HUB_KUBE_KUBE_API_H

#include "hub/kube/https.h"

enum {
	KUBE_API_FRESH_MS = 1000,
	KUBE_WAIT_FIRST_MS = 100,
	KUBE_WAIT_MOST_MS = 1000,
	KUBE_WAIT_REFUSALS =
		1000, /* in a row, about 13 minutes; then at most KUBE_WAIT_REFUSED_MS */
	KUBE_WAIT_REFUSED_MS = 10 * 1000,
	KUBE_WAIT_SPREAD_MS = 250,
	KUBE_WAIT_DOUBT_MS = 30 * 1000,
};

struct kube_api;

/* Back-off state: attempts in a row that failed in the same way. All zero: none. */
struct kube_wait {
	uint64_t first_ms; /* 0: KUBE_WAIT_FIRST_MS */
	unsigned failures;
	enum {
		KUBE_WAIT_UNANSWERED,
		KUBE_WAIT_BROKEN, /* 2xx, and then an error */
		KUBE_WAIT_REFUSED,
	} last;
	uint64_t doubt_ms; /* since when it gets 403 or 404; 0: it does not */
};

int kube_api_open(
	struct kube_api **api, struct loop *loop, const char *kubeconfig, struct err *err);
/* Every request must have ended or been stopped. */
void kube_api_close(struct kube_api **api);
struct https_request *kube_api_start(struct kube_api *api, const struct https_call *call);
const char *kube_api_server(const struct kube_api *api);
/* The namespace of the pod, or of the kubeconfig's context; "" if it has none. */
const char *kube_api_namespace(const struct kube_api *api);
/* Returns the back-off in ms before the next attempt: doubles each time that the failure is of the
 * same kind as the last one, random between half of it and all of it; or the server's Retry-After
 * (RFC 9110 10.2.3) and at most KUBE_WAIT_SPREAD_MS more. answer: NULL if the attempt failed for
 * another reason. */
uint64_t kube_wait_ms(struct kube_wait *w, const struct https_answer *answer);
/* An attempt has succeeded. */
void kube_wait_reset(struct kube_wait *w);
/* Returns true if this response, at now_ms of the loop's clock, is a 403 or 404 that has not lasted
 * yet. */
bool kube_wait_doubts(struct kube_wait *w, const struct https_answer *answer, uint64_t now_ms);
/* Why the credentials in use may be old; "": they are not. */
const char *kube_api_problem(const struct kube_api *api);

#endif
