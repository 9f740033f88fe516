/*
 * The node's way to endpoints that it cannot dial itself: a connection to the hub that is made when
 * it is first needed and goes when it has been idle for OUTLET_IDLE_MS, with a stream for each
 * endpoint's connection. The hub dials, or has the endpoint's own node dial. On the loop's thread.
 *
 * Who wants to talk to an endpoint holds one end of a pair of connected sockets (sock_pair) and
 * gives the other end here: one byte, OUTLET_JOINED, comes when the endpoint is connected, and from
 * then on every byte is the endpoint's; a pair that is closed instead was refused, for the reason
 * in the log. A hub that is lost before it has answered, or that does not answer, is asked again
 * once it is back, or another one: nothing of who asked has gone out by then.
 *
 *	outlet_open(outlet, fd, &(struct outlet_ask){.service = "default/web", .node = "edge-2", .authority = "172.17.0.2:8080"});
 */
#ifndef EDGEWAY_TUNNEL_NODE_OUTLET_H
#define EDGEWAY_TUNNEL_NODE_OUTLET_H

#include "tunnel/node/link.h"

struct outlet;
struct outlet_trip;

enum {
	OUTLET_IDLE_MS = 60 * 1000,
	OUTLET_OPEN_MS = 4000, /* until the hub must have been reached */
	OUTLET_ANSWER_MS =
		/* and then have answered, however often it is asked: more than the hub's own
		 * deadline */
	9000,
	OUTLET_MOST = 4096, /* asked for at a time, flows of datagrams included */
	OUTLET_SERVICE_MAX = 2 * 253 + 1,
};

#define OUTLET_JOINED '+'

struct outlet_ask { /* copied */
	char service[OUTLET_SERVICE_MAX + 1]; /* "namespace/name" */
	char node[254]; /* of the endpoint, "" when it has none */
	char authority[ADDR_TEXT_MAX]; /* ip:port over there */
	unsigned hops; /* base/core/hops.h, this time included */
};

struct outlet *outlet_new(const struct link_config
		*config); /* its loop, heartbeat, mark and memory; `doubted` with up_arg */
/* Closes what is open. */
void outlet_free(struct outlet **o);
void outlet_use(struct outlet *o, const struct link_hub *hub);
/* As link_network and link_probe. */
void outlet_network(struct outlet *o);
void outlet_probe(struct outlet *o);
/* fn is told of what leads to an endpoint whose node, or to a hub that, is about to stop:
 * connections to it had better not be kept idle; doubted: or does not answer, though others may
 * lead there. */
void outlet_on_fading(struct outlet *o,
	void (*fn)(void *arg, const struct outlet_ask *ask, bool doubted), void *arg);
/* fn is told when another connection has taken the place of one that did not answer: what was asked
 * by that one may never be answered. */
void outlet_on_rerouted(struct outlet *o, loop_fn *fn, void *arg);
/* fd: taken. */
void outlet_open(struct outlet *o, int fd, const struct outlet_ask *ask);
/* status 200: a stream of datagrams (dgram.h), the receiver's. Else NULL, and the trip is gone: 0
 * where the hub gave no answer. */
typedef void outlet_reached_fn(void *arg, struct stream *stream, unsigned status, const char *why);
/* `reached` comes once, never from within this call, or never after outlet_leave, which is due once
 * the stream is not used any more. NULL: too many. */
struct outlet_trip *outlet_reach(
	struct outlet *o, const struct outlet_ask *ask, outlet_reached_fn *reached, void *arg);
void outlet_leave(struct outlet_trip **t);
void outlet_metrics(const struct outlet *o, struct metrics *m);
/* As session_streams. */
void outlet_streams(const struct outlet *o, const char *node, const char **comma, struct buf *out);
/* JSON object. */
void outlet_state(const struct outlet *o, struct buf *out);

#endif
