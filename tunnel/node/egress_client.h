/*
 * The node's client for endpoints that it cannot dial itself, with one stream per connection to an
 * endpoint. The agent of the endpoint's own node is asked where it can be dialled
 * (tunnel/node/node_peers), else the hub: by one connection, opened when it is first needed and
 * closed after EGRESS_CLIENT_IDLE_MS without use. The hub dials the endpoint, or has the endpoint's
 * own node dial it. On the loop's thread.
 *
 * The caller holds one end of a pair of connected sockets (sock_pair) and passes the other end to
 * egress_client_open. One byte, EGRESS_CLIENT_JOINED, comes when the endpoint is connected; every
 * byte after it is the endpoint's. If the pair is closed instead, the endpoint was refused; the log
 * has the reason. If the hub or the other node is lost before it answered, or does not answer, the
 * request is sent again once a hub is reached: none of the caller's bytes have gone out by then.
 *
 *	egress_client_ask_of(outlet, &ask, service, endpoint, hops);
 *	egress_client_open(outlet, fd, &ask);
 */
#ifndef EDGEWAY_TUNNEL_NODE_EGRESS_CLIENT_H
#define EDGEWAY_TUNNEL_NODE_EGRESS_CLIENT_H

#include "model/service.h"
#include "tunnel/node/node_peers.h"
#include "tunnel/node/tunnel_client.h"

struct egress_client;
struct egress_client_trip;

enum {
	EGRESS_CLIENT_IDLE_MS = 60 * 1000,
	EGRESS_CLIENT_OPEN_MS = 4000, /* deadline to reach the hub */
	/* time that the dial of the endpoint's node is waited for before the hub is asked; and,
	 * where that cannot be reached, the time between tries */
	EGRESS_CLIENT_PEER_MS = 250,
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
	bool encrypted; /* nobody may dial the endpoint's node in clear text */
	struct addr peer; /* of its node's agent; no address: the hub alone, unless: */
	bool nat; /* its node's agent may be met across NAT */
};

/* uses its loop, heartbeat, mark and memory limit; `doubted` with up_arg */
struct egress_client *egress_client_new(const struct tunnel_client_config *config);
/* Asks other nodes' agents, at this port of their nodes, before the hub. peers: outlives the
 * client; NULL: the hub alone is asked. */
void egress_client_use_peers(struct egress_client *o, struct node_peers *peers, uint16_t port);
/* Nodes without an address that may be dialled are met across NAT. */
void egress_client_use_nat(struct egress_client *o, bool nat);
/* A node's agent is reached again: connections to its endpoints through the hub are better not kept
 * idle (egress_client_on_fading). */
void egress_client_peer_found(struct egress_client *o, const char *node);
/* A node's agent does not answer: what it was asked for is asked for at the hub. */
void egress_client_peer_silent(struct egress_client *o);
/* The request for an endpoint VIA_TUNNEL. */
void egress_client_ask_of(const struct egress_client *o, struct egress_client_ask *to,
	const struct service *s, const struct endpoint *e, unsigned hops);
/* Closes what is open. */
void egress_client_free(struct egress_client **o);
void egress_client_use(struct egress_client *o, const struct tunnel_client_hub *hub);
/* As tunnel_client_network, _multipath, _paths_lost and _probe. */
void egress_client_network(struct egress_client *o);
void egress_client_multipath(struct egress_client *o, bool several);
/* Are streams open? */
bool egress_client_busy(const struct egress_client *o);
bool egress_client_paths_lost(struct egress_client *o, struct in6_addr *local);
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
