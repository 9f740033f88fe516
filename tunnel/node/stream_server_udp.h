/*
 * Datagram flows among the streams that the hub opens at a node: a part of
 * tunnel/node/stream_server.c, which has already checked the rules. Each flow has a line in the log
 * at its end, like a connection. Everything on the loop's thread.
 *
 *	status = stream_server_udp_open(udp, st, &(struct stream_server_udp_ask){.caller = caller, .authority = text, .target = &target});
 */
#ifndef EDGEWAY_TUNNEL_NODE_STREAM_SERVER_UDP_H
#define EDGEWAY_TUNNEL_NODE_STREAM_SERVER_UDP_H

#include "base/core/metric.h"
#include "tunnel/h2/session.h"
#include "tunnel/node/dial_target.h"

struct stream_server_udp;

struct stream_server_udp_ask { /* copied */
	const char *caller, *authority; /* safe to log */
	const char *meant; /* another node reached from this one, or ""; safe to log */
	bool by_peer; /* another node's agent asks, not the hub */
	unsigned hops; /* base/core/hops.h, including this node */
	const struct dial_target *target;
};

struct stream_server_udp *stream_server_udp_new(struct loop *loop, uint32_t mark);
/* Resets what is open. */
void stream_server_udp_free(struct stream_server_udp **u);
/* Takes the stream. Returns the status that it was answered with. */
unsigned stream_server_udp_open(
	struct stream_server_udp *u, struct stream *st, const struct stream_server_udp_ask *ask);
/* Flows end once they are idle for a moment. */
void stream_server_udp_drain(struct stream_server_udp *u);
void stream_server_udp_metrics(const struct stream_server_udp *u, struct metrics *m);
/* An object. */
void stream_server_udp_state(const struct stream_server_udp *u, struct buf *out);

#endif
