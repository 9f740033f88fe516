/*
 * A relay (tunnel/h2/relay.h) between a stream to a node and a caller's socket, on the worker's
 * loop that has the node's session: the bytes of a caller cross no loop. Everything here is called
 * on the owner's loop, and so is `ended`. Where the stream is not one of a worker's, the relay is
 * on the owner's loop.
 *
 *	relay = relay_worker_join(workers, &(struct relay_setup){.loop = loop, .stream = st, .ended = on_end, .arg = me}, fd);
 */
#ifndef EDGEWAY_HUB_REPLICAS_RELAY_WORKER_H
#define EDGEWAY_HUB_REPLICAS_RELAY_WORKER_H

#include "hub/replicas/tunnel_session.h"

struct relay_worker;

/* As relay_join. The stream, if it is one of a worker's, was opened with `held`; one that was not
 * stays on the owner's loop with `workers` NULL, as where there are none. */
struct relay_worker *relay_worker_join(
	struct session_workers *workers, const struct relay_setup *setup, int fd);
/* As relay_break. It waits for no worker: whoever has the other end of the socket closes it behind
 * `ended`, or the relay may see an end in good order before it knows of the break. */
void relay_worker_break(struct relay_worker *r, const char *why);
/* As relay_free. */
void relay_worker_free(struct relay_worker **r);

#endif
