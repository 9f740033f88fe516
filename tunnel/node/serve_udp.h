/*
 * The flows of datagrams among the streams that the hub opens at a node: a part of
 * tunnel/node/serve.c, which has judged them. A line in the log for each at its end, as for a
 * connection. Everything on the loop's thread.
 *
 *	status = serve_udp_open(udp, st, &(struct serve_udp_ask){.caller = caller, .authority = text, .target = &target});
 */
#ifndef EDGEWAY_TUNNEL_NODE_SERVE_UDP_H
#define EDGEWAY_TUNNEL_NODE_SERVE_UDP_H

#include "base/core/metric.h"
#include "tunnel/h2/session.h"
#include "tunnel/node/target.h"

struct serve_udp;

struct serve_udp_ask { /* copied */
	const char *caller, *authority; /* fit for the log */
	const char *meant; /* a node beside this one, or ""; the same */
	unsigned hops; /* base/core/hops.h, this node included */
	const struct target *target;
};

struct serve_udp *serve_udp_new(struct loop *loop, uint32_t mark);
/* Resets what is open. */
void serve_udp_free(struct serve_udp **u);
/* The stream is taken. What it was answered. */
unsigned serve_udp_open(struct serve_udp *u, struct stream *st, const struct serve_udp_ask *ask);
/* Flows end once they have been quiet for a moment. */
void serve_udp_drain(struct serve_udp *u);
void serve_udp_metrics(const struct serve_udp *u, struct metrics *m);
/* An object. */
void serve_udp_state(const struct serve_udp *u, struct buf *out);

#endif
