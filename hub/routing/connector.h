/*
 * Connects a request at the ingress to its target: finds the routes and checks the access rules
 * (hub/routing/routes.h), opens a stream through a node's tunnel, through another replica or from
 * the hub itself, and tries the next route when the first cannot be dialled. A node's own tunnel
 * comes first, here or at another replica; if there is none, its neighbours. On the hub's loop.
 *
 *	reaching = connector_start(reach, &(struct connector_request){.caller = &caller, .host = "edge-1", .port = 10250}, on_reached, c);
 *
 * The answer comes once, never from within connector_start, after CONNECTOR_MS at the latest:
 * kube-apiserver has no deadline of its own here.
 *
 * A node's own tunnel here is tried first, then its own tunnel at another replica. A request waits,
 * at most CONNECTOR_AWAIT_MS, for a node that was lost a moment ago, here or at another replica, or
 * that has not connected yet to a hub that has just started. A dial that waits in a tunnel for its
 * answer starts again when the node has a newer tunnel. A node that stops is waited for as well,
 * since its agent may be restarted, but not by a node that has other endpoints to try. A stream
 * that was refused before anything was done, for example by a draining node, is retried a few
 * times. If the tunnel breaks during a TCP dial, the dial is repeated a few times over all routes,
 * and the node is waited for as above, even without replicas. This does not apply once bytes of the
 * caller have gone out in the dial: early bytes save a map's caller a round trip, but nothing is
 * sent twice. A tunnel or replica that answers neither the dial nor a ping (tunnel/h2/session.h,
 * `silent`) is treated like a broken one. A loop (base/core/hops.h) is answered with 508. At most
 * CONNECTOR_AWAIT_NODE requests wait for one node, CONNECTOR_AWAIT_MOST in all; further ones get
 * 503 at once.
 */
#ifndef EDGEWAY_HUB_ROUTING_CONNECTOR_H
#define EDGEWAY_HUB_ROUTING_CONNECTOR_H

#include "base/core/metric.h"
#include "base/http/traceparent.h"
#include "hub/port/grant.h"
#include "hub/replicas/peers.h"
#include "hub/replicas/tunnels.h"
#include "hub/routing/local_dial.h"
#include "hub/routing/routes.h"
#include "hub/routing/stream_pool.h"

enum {
	CONNECTOR_MS = 8000,
	CONNECTOR_AWAIT_MS = 5000,
	CONNECTOR_AWAIT_NODE = 256,
	CONNECTOR_AWAIT_MOST = 2048,
};

struct connector;
struct connect_op;

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
	/* if set, host is the endpoint (host:port) and dest its node; NULL: no particular
	 * endpoint */
	const char *service;
	const char *dest; /* IP:port as the node `host` sees it, replaces port; NULL: none */
	enum routes_names names; /* what host may be, without service and dest */
	/* the calling node itself admits only those of its pods that may call the service */
	bool enforces;
	bool encrypted; /* no neighbour, which would dial in clear text, may be asked */
	bool udp; /* datagrams: port is a UDP port, and the stream carries datagrams */
	const struct trace_context *trace; /* the caller's span; NULL: none */
	unsigned hops; /* of an HTTP request: like caller->hops, from its CDN-Loop */
	const char *full; /* why this caller is refused now (429); NULL: it is within its limits */
	/* the caller's first bytes: sent along with the dial, and not removed from this buffer;
	 * outlives the reaching. NULL: the caller waits for the answer */
	const struct buf *first;
	bool kept; /* HTTP/1.1 requests, one after the other: the stream may serve another one */
	bool held; /* the stream is for relay_worker_join (hub/replicas/relay_worker.h) */
};

struct connector_answer {
	unsigned status; /* 200, else 400, 403, 404, 421, 429, 502, 503, 504 or 508 */
	const char *reason; /* one line */
	/* with 200: owned by the receiver; its events are dropped until stream_use */
	struct stream *stream;
	/* for the audit: "edge-1:10250 via edge-1", "192.168.1.12:10250 for edge-2 via edge-1" */
	const char *target;
	const char *node; /* the requested node; "" where the target is something else */
	const char *via; /* with 200: the node whose tunnel carries it; "": the hub's own dial */
	/* with 200: the node that the `via` node dials as a neighbour; "": none */
	const char *final_node;
	const char *at; /* with 200: the replica where that tunnel ends; "": here */
	const struct acl_target *where; /* with 200: the target that the rules were checked for */
	size_t sent; /* with 200: number of bytes of `first` that have gone out in the stream */
	/* with 200, and `kept` in the request: owned by the receiver, for connector_finish; may be
	 * NULL */
	struct stream_use *use;
};

/* The texts belong to the answer and are valid for this call only. The reaching is freed
 * afterwards. */
typedef void connector_fn(void *arg, struct connector_answer *answer);

struct connector *connector_new(const struct connector_config *config);
/* All pending requests must be cancelled before. */
void connector_free(struct connector **r);
struct connect_op *connector_start(struct connector *r, const struct connector_request *request,
	connector_fn *done, void *arg);
/* For every answer: the target is joined only if the present rules and the node's limit still allow
 * it. Else the stream is closed, and the answer has another status and reason. */
void connector_grant(
	struct connector_answer *answer, struct grant *grant, const struct caller *caller);
/* Does at once what connector_start and connector_grant do, if there is an idle stream for the
 * caller and the target (hub/routing/stream_pool.h) and the request has `kept`: the rules are asked
 * as for a dial. The answer is 200. False: no stream, or not granted: call connector_start. */
bool connector_reuse(struct connector *r, const struct connector_request *request,
	struct grant *grant, struct connector_answer *answer);
/* Takes a stream whose last response is complete. use: of its answer, taken; NULL: the stream
 * serves no other request. */
void connector_finish(struct connector *r, struct stream **stream, struct stream_use **use);
/* Ends the streams that are kept for other requests. */
void connector_settle(struct connector *r);
/* True if the rules open the target to the caller: it is being dialled, or waited for. */
bool connector_is_let_in(const struct connect_op *x);
/* `first` has more bytes. */
void connector_more(struct connect_op *x);
void connector_cancel(struct connect_op **x);
/* The routes to the node have changed; NULL: perhaps those to any node. */
void connector_changed(struct connector *r, const char *node);
/* Number of pending requests. */
unsigned connector_pending(const struct connector *r);
/* Number of requests refused as loops (508). */
uint64_t connector_loops(const struct connector *r);
void connector_metrics(const struct connector *r, struct metrics *m);

#endif
