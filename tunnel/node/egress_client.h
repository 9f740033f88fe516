/*
 * The node's client for endpoints that it cannot dial itself: one connection to the hub, opened
 * when it is first needed and closed after EGRESS_CLIENT_IDLE_MS without use, with one stream per
 * connection to an endpoint. The hub dials the endpoint, or has the endpoint's own node dial it. On
 * the loop's thread.
 *
 * The caller holds one end of a pair of connected sockets (sock_pair) and passes the other end to
 * egress_client_open. One byte, EGRESS_CLIENT_JOINED, comes when the endpoint is connected; every
 * byte after it is the endpoint's. If the pair is closed instead, the endpoint was refused; the log
 * has the reason. If the hub is lost before it answered, or does not answer, the request is sent
 * again once that hub or another one is reached: none of the caller's bytes have gone out by then.
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
	EGRESS_CLIENT_OPEN_MS = 4000, /* deadline to reach the hub */
	/* then for its answer, retries included: more than the hub's own deadline */
	EGRESS_CLIENT_ANSWER_MS = 9000,
	EGRESS_CLIENT_MOST = 4096, /* open at a time, including flows of datagrams */
	EGRESS_CLIENT_SERVICE_MAX = 2 * 253 + 1,
};

#define EGRESS_CLIENT_JOINED '+'

struct egress_client_ask { /* copied */
	char service[EGRESS_CLIENT_SERVICE_MAX + 1]; /* "namespace/name" */
	char node[254]; /* of the endpoint; "": it has none */
	char authority[ADDR_TEXT_MAX]; /* ip:port, as its node sees it */
	unsigned hops; /* base/core/hops.h, including this one */
};

/* uses its loop, heartbeat, mark and memory limit; `doubted` with up_arg */
struct egress_client *egress_client_new(const struct tunnel_client_config *config);
/* Closes what is open. */
void egress_client_free(struct egress_client **o);
void egress_client_use(struct egress_client *o, const struct tunnel_client_hub *hub);
/* As tunnel_client_network, tunnel_client_multipath and tunnel_client_probe. */
void egress_client_network(struct egress_client *o);
void egress_client_multipath(struct egress_client *o, bool several);
void egress_client_probe(struct egress_client *o);
/* fn is called for a connection whose endpoint's node, or whose hub, is about to stop: do not keep
 * such connections idle. doubted: or it does not answer, though other routes may lead there. */
void egress_client_on_fading(struct egress_client *o,
	void (*fn)(void *arg, const struct egress_client_ask *ask, bool doubted), void *arg);
/* fn is called when another connection has replaced one that did not answer: requests sent on the
 * old one may never be answered. */
void egress_client_on_rerouted(struct egress_client *o, loop_fn *fn, void *arg);
/* fd: taken. */
void egress_client_open(struct egress_client *o, int fd, const struct egress_client_ask *ask);
/* status 200: a datagram stream (dgram.h), which the receiver owns. Else NULL, and the trip is
 * freed; status 0: the hub gave no answer. */
typedef void egress_client_reached_fn(
	void *arg, struct stream *stream, unsigned status, const char *why);
/* `reached` comes once, never from within this call and not after egress_client_leave. The caller
 * must call that once it no longer uses the stream. NULL: too many. */
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
