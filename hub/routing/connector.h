/*
 * From a name at the ingress to a stream that is connected to it: finds the ways and asks the rules
 * (hub/routing/routes.h), opens a stream through a node's tunnel, another replica or the hub
 * itself, and tries the next way when the first cannot be dialled. A node's own tunnel comes first,
 * here or at another replica; where there is none, its neighbours. On the hub's loop.
 *
 *	reaching = connector_start(reach, &(struct connector_request){.caller = &caller, .host = "edge-1", .port = 10250}, on_reached, c);
 *
 * The answer comes once, never from within connector_start, after CONNECTOR_MS at the latest:
 * kube-apiserver waits for it for ever.
 *
 * A node's ways are tried in this order: its own tunnel here, its own tunnel at another replica. A
 * node that was lost a moment ago, here or at another replica, or that has not come yet to a hub
 * that has just started, is waited for, CONNECTOR_AWAIT_MS at most; and a dial that waits in a
 * tunnel for an answer begins anew where the node has a newer one. A stream that was refused before
 * anything was done, as by one who drains, is asked for again a few times. A dial of TCP whose
 * tunnel breaks under it is begun again a few times, by all ways that there are, and the node is
 * waited for as above also without replicas, unless bytes of the caller have gone out in it: a
 * map's caller need not wait for a second round trip, but nothing is sent twice. The same where a
 * tunnel, or a replica, answers neither the dial nor a ping (tunnel/h2/session.h, `silent`). What
 * goes round (base/core/hops.h) is 508. At most CONNECTOR_AWAIT_NODE wait for one node,
 * CONNECTOR_AWAIT_MOST in all; the others are told 503 at once.
 */
#ifndef EDGEWAY_HUB_ROUTING_CONNECTOR_H
#define EDGEWAY_HUB_ROUTING_CONNECTOR_H

#include "base/core/metric.h"
#include "base/http/traceparent.h"
#include "hub/replicas/peers.h"
#include "hub/replicas/tunnels.h"
#include "hub/routing/local_dial.h"
#include "hub/routing/routes.h"

enum {
	CONNECTOR_MS = 8000,
	CONNECTOR_AWAIT_MS = 5000,
	CONNECTOR_AWAIT_NODE = 256,
	CONNECTOR_AWAIT_MOST = 2048,
};

struct connector;
struct reaching;

struct connector_config {
	struct loop *loop;
	struct routes_finder *ways; /* these five outlive it */
	struct tunnels *tunnels;
	struct local_dial *cloud;
	/* The other replicas; outlives it. NULL: there are none. */
	struct peers *peers;
	struct neighbours *neighbours; /* NULL: none */
};

struct connector_request {
	const struct caller *caller;
	const char *host; /* name or address without brackets */
	uint16_t port;
	/* then host is the endpoint, host:port, and dest its node; NULL: none in particular */
	const char *service;
	const char *dest; /* IP:port as the node `host` sees it, in place of port; NULL none */
	/* the node that asks lets only those of its pods through that may call the service */
	bool enforces;
	bool udp; /* datagrams: the port is one of UDP, and so is the stream */
	const struct trace_context *trace; /* the span that asks; NULL: none */
	unsigned hops; /* of a request of HTTP: as caller->hops, by its CDN-Loop */
	const char *full; /* why this caller gets nothing now (429); NULL: it may ask */
	/* what the caller has said: goes with the dial, and stays in it; outlives the reaching.
	 * NULL: it waits for the answer */
	const struct buf *first;
};

struct connector_answer {
	unsigned status; /* 200, else 400, 403, 404, 421, 429, 502, 503, 504 or 508 */
	const char *reason; /* one line */
	/* with 200: the receiver's; nobody is told of its events until stream_use */
	struct stream *stream;
	/* for the audit: "edge-1:10250 via edge-1", "192.168.1.12:10250 for edge-2 via edge-1" */
	const char *target;
	const char *node; /* the node that is meant; "" where it is something else */
	const char
		*via; /* with 200: the node whose tunnel it goes through; "" the hub's own dial */
	const char *meant; /* with 200: the node beside that one which it dials; "" none */
	const char *at; /* with 200: the replica where that tunnel ends; "" here */
	const struct acl_target *where; /* with 200: what the rules were asked for */
	size_t sent; /* with 200: so much of `first` has gone out in the stream */
};

/* The texts are the answer's: for the call only. The reaching is gone afterwards. */
typedef void connector_fn(void *arg, const struct connector_answer *answer);

struct connector *connector_new(const struct connector_config *config);
/* What is being reached must be cancelled before. */
void connector_free(struct connector **r);
struct reaching *connector_start(struct connector *r, const struct connector_request *request,
	connector_fn *done, void *arg);
/* Do the rules open the target to the caller? It is dialled, or waited for. */
bool connector_is_let_in(const struct reaching *x);
/* There is more in `first`. */
void connector_more(struct reaching *x);
void connector_cancel(struct reaching **x);
/* The node can be reached in another way than before; NULL: this may be so for any. */
void connector_changed(struct connector *r, const char *node);
/* How many are being reached. */
unsigned connector_pending(const struct connector *r);
/* How often something was not reached since it goes round (508). */
uint64_t connector_loops(const struct connector *r);
void connector_metrics(const struct connector *r, struct metrics *m);

#endif
