/*
 * The node's way to endpoints that it cannot dial itself: a connection to the hub that is made when
 * it is first needed and goes when it has been idle for EGRESS_CLIENT_IDLE_MS, with a stream for
 * each endpoint's connection. The hub dials, or has the endpoint's own node dial. On the loop's
 * thread.
 *
 * Who wants to talk to an endpoint holds one end of a pair of connected sockets (sock_pair) and
 * gives the other end here: one byte, EGRESS_CLIENT_JOINED, comes when the endpoint is connected,
 * and from then on every byte is the endpoint's; a pair that is closed instead was refused, for the
 * reason in the log. A hub that is lost before it has answered, or that does not answer, is asked
 * again once it is back, or another one: nothing of who asked has gone out by then.
 *
 *	egress_client_open(outlet, fd, &(struct egress_client_ask){.service = "default/web", .node = "edge-2", .authority = "172.17.0.2:8080"});
 */
#ifndef EDGEWAY_TUNNEL_NODE_EGRESS_CLIENT_H
#define EDGEWAY_TUNNEL_NODE_EGRESS_CLIENT_H

#include "tunnel/node/tunnel_client.h"

struct egress_client;
struct egress_client_trip;

enum {
	EGRESS_CLIENT_IDLE_MS = 60 * 1000,
	EGRESS_CLIENT_OPEN_MS = 4000, /* until the hub must have been reached */
	EGRESS_CLIENT_ANSWER_MS =
		/* and then have answered, however often it is asked: more than the hub's own
		 * deadline */
	9000,
	EGRESS_CLIENT_MOST = 4096, /* asked for at a time, flows of datagrams included */
	EGRESS_CLIENT_SERVICE_MAX = 2 * 253 + 1,
};

#define EGRESS_CLIENT_JOINED '+'

struct egress_client_ask { /* copied */
	char service[EGRESS_CLIENT_SERVICE_MAX + 1]; /* "namespace/name" */
	char node[254]; /* of the endpoint, "" when it has none */
	char authority[ADDR_TEXT_MAX]; /* ip:port over there */
	unsigned hops; /* base/core/hops.h, this time included */
};

struct egress_client *egress_client_new(const struct tunnel_client_config
		*config); /* its loop, heartbeat, mark and memory; `doubted` with up_arg */
/* Closes what is open. */
void egress_client_free(struct egress_client **o);
void egress_client_use(struct egress_client *o, const struct tunnel_client_hub *hub);
/* As tunnel_client_network and tunnel_client_probe. */
void egress_client_network(struct egress_client *o);
void egress_client_probe(struct egress_client *o);
/* fn is told of what leads to an endpoint whose node, or to a hub that, is about to stop:
 * connections to it had better not be kept idle; doubted: or does not answer, though others may
 * lead there. */
void egress_client_on_fading(struct egress_client *o,
	void (*fn)(void *arg, const struct egress_client_ask *ask, bool doubted), void *arg);
/* fn is told when another connection has taken the place of one that did not answer: what was asked
 * by that one may never be answered. */
void egress_client_on_rerouted(struct egress_client *o, loop_fn *fn, void *arg);
/* fd: taken. */
void egress_client_open(struct egress_client *o, int fd, const struct egress_client_ask *ask);
/* status 200: a stream of datagrams (dgram.h), the receiver's. Else NULL, and the trip is gone: 0
 * where the hub gave no answer. */
typedef void egress_client_reached_fn(
	void *arg, struct stream *stream, unsigned status, const char *why);
/* `reached` comes once, never from within this call, or never after egress_client_leave, which is
 * due once the stream is not used any more. NULL: too many. */
struct egress_client_trip *egress_client_reach(struct egress_client *o,
	const struct egress_client_ask *ask, egress_client_reached_fn *reached, void *arg);
void egress_client_leave(struct egress_client_trip **t);
void egress_client_metrics(const struct egress_client *o, struct metrics *m);
/* As session_streams. */
void egress_client_streams(
	const struct egress_client *o, const char *node, const char **comma, struct buf *out);
/* JSON object. */
void egress_client_state(const struct egress_client *o, struct buf *out);

#endif
