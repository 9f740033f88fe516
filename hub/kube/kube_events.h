/*
 * Reports what the hub finds about a Service where its operator looks: an Event on the Service
 * (kubectl describe service), NotReachableOnEdge with the reason, and ReachableOnEdge when that is
 * over; in the same way what of a route does not count, on the HTTPRoute or GRPCRoute. Only a
 * finding that has lasted for KUBE_EVENTS_STABLE_MS is reported, once, and repeated from time to
 * time while it lasts, since the cluster deletes Events. The name of an Event follows from Service
 * and text, so that several hubs and restarts share one. At most KUBE_EVENTS_BURST at once and
 * then one every KUBE_EVENTS_PACE_MS, the longest waiting first.
 *
 * On the hub's loop. The owner reports all Services in each round:
 *
 *	kube_events_begin(e);
 *	// text "": no problem
 *	kube_events_tell(e, "default", "web", EVENT_UNREACHABLE, "pod web-0 has no ...");
 *	kube_events_end(e);	// Services that were not told are gone
 */
#ifndef EDGEWAY_HUB_KUBE_KUBE_EVENTS_H
#define EDGEWAY_HUB_KUBE_KUBE_EVENTS_H

#include "base/core/metric.h"
#include "hub/kube/kube_api.h"

enum {
	KUBE_EVENTS_STABLE_MS = 5000,
	KUBE_EVENTS_REPEAT_MS = 50 * 60 * 1000, /* the API server keeps them for an hour */
	KUBE_EVENTS_PACE_MS = 2000,
	KUBE_EVENTS_BURST = 20,
	KUBE_EVENTS_FORBIDDEN_MS = 30 * 1000,
};

#define EVENT_UNREACHABLE                                                                          \
	"NotReachableOnEdge" /* there is no route to some endpoint, or no endpoint */
#define EVENT_REFUSED                                                                              \
	"EndpointRefused" /* nodes refuse the address of some endpoint: model/dial_guard.h */
#define EVENT_SELECTOR "NodesSelectorInvalid" /* edgeway.io/nodes is no selector */
#define EVENT_ALLOW_FROM                                                                           \
	"AllowFromInvalid" /* edgeway.io/allow-from cannot be read: no client may connect */
#define EVENT_EXHAUSTED "FakeIPsExhausted" /* a node has no fake IP left for it */
#define EVENT_LIMITS                                                                               \
	"BeyondEdgeLimits" /* larger than nodes accept (model/limits.h), so not sent to them */
#define EVENT_PORTS                                                                                \
	"NodePortNotServed" /* a node cannot serve one of its ports to callers from outside */
#define EVENT_HELD "RefusedByNodes" /* a node does not accept it as it is */
/* A part of its DestinationRules has no effect; reported in addition to the others. */
#define EVENT_RULE "DestinationRulePartly"
/* all of it has effect, or there is none any more */
#define EVENT_RULE_WELL "DestinationRuleHonoured"
/* What a route says is not followed as it is. */
#define EVENT_HTTPROUTE "HTTPRouteNotFollowed"
#define EVENT_GRPCROUTE "GRPCRouteNotFollowed"
#define EVENT_WELL "ReachableOnEdge" /* none of the others applies any more */

struct kube_events;

struct kube_events *kube_events_new(struct loop *loop, struct kube_api *api);
void kube_events_free(struct kube_events **e);
void kube_events_begin(struct kube_events *e);
/* kind: the Event's reason, one of the above. Reports on a Service's rules are kept apart from the
 * rest: one of either per Service in a round. ns, name: of the Service, or of the route. */
void kube_events_tell(struct kube_events *e, const char *ns, const char *name, const char *kind,
	const char *text);
void kube_events_end(struct kube_events *e);
/* {"unreachable":..,"sent":..,"problem":".."} */
void kube_events_state(const struct kube_events *e, struct buf *out);

#endif
