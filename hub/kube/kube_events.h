/*
 * What the hub finds about a Service, said where its operator looks: an Event on the Service
 * (kubectl describe service), NotReachableOnEdge with the reason, ReachableOnEdge when it has gone.
 * Only what has held for KUBE_EVENTS_STABLE_MS is said, once, and again from time to time while it
 * holds, since Events are forgotten by the cluster; the name of an Event follows from Service and
 * text, so that several hubs and restarts share one. At most KUBE_EVENTS_BURST at once and then one
 * each KUBE_EVENTS_PACE_MS, who has waited for longest first.
 *
 * On the hub's loop. The owner tells all Services again and again:
 *
 *	kube_events_begin(e);
 *	kube_events_tell(e, "default", "web", EVENT_UNREACHABLE, "pod web-0 has no ...");	// "": all is well
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
	"NotReachableOnEdge" /* there is no way to some endpoint, or no endpoint */
#define EVENT_REFUSED                                                                              \
	"EndpointRefused" /* nodes refuse the address of some endpoint: model/dial_guard.h */
#define EVENT_SELECTOR "NodesSelectorInvalid" /* edgeway.io/nodes is no selector */
#define EVENT_ALLOW_FROM                                                                           \
	"AllowFromInvalid" /* edgeway.io/allow-from cannot be read: nobody may call */
#define EVENT_EXHAUSTED "FakeIPsExhausted" /* a node has no address left for it */
#define EVENT_LIMITS                                                                               \
	"BeyondEdgeLimits" /* it is larger than nodes take (model/limits.h), and not told */
#define EVENT_HELD "RefusedByNodes" /* a node does not take it as it is */
/* Some of its DestinationRules does not count; told beside the others. */
#define EVENT_RULE "DestinationRulePartly"
#define EVENT_RULE_WELL "DestinationRuleHonoured" /* all of it does, or there is none any more */
#define EVENT_WELL "ReachableOnEdge" /* none of the others any more */

struct kube_events;

struct kube_events *kube_events_new(struct loop *loop, struct kube_api *api);
void kube_events_free(struct kube_events **e);
void kube_events_begin(struct kube_events *e);
/* kind: the Event's reason, one of the above. What is said of a Service's rules and the rest are
 * told apart: each Service once in a round for either. */
void kube_events_tell(struct kube_events *e, const char *ns, const char *name, const char *kind,
	const char *text);
void kube_events_end(struct kube_events *e);
/* {"unreachable":..,"sent":..,"problem":".."} */
void kube_events_state(const struct kube_events *e, struct buf *out);
void kube_events_metrics(const struct kube_events *e, struct metrics *to);

#endif
