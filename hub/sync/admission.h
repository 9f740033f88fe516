/*
 * Decides who is let in at the hub's port (doc/protocol.md): a node with a certificate for its
 * session, a stranger with a token for joining. Decides from the path, headers and certificate of a
 * request; keeps no state. A refusal is logged, at a limited rate.
 *
 *	status = admission_status(&join, conn);	// in the websocket's `accept`
 */
#ifndef EDGEWAY_HUB_SYNC_ADMISSION_H
#define EDGEWAY_HUB_SYNC_ADMISSION_H

#include "base/http/ws.h"
#include "hub/identity/join.h"

/* Returns 0 to let it in, with the heartbeat that the node asked for; else the HTTP status to
 * refuse it with. */
int admission_status(const struct join_config *with, struct ws_conn *c);
/* The node is to come later: tells it when, and returns the status to refuse it with. why: for the
 * log. */
int admission_busy(struct ws_conn *c, const char *why);
/* A node that keeps its connection by keep-alive probes shares its life with its tunnels, by its
 * name in `all`. */
void admission_share_life(struct ws_conn *c, struct liveness *all);
/* The node of the client's certificate; "" without a certificate or with a revoked one, which
 * proves nothing. */
const char *admission_proven_name(const struct certs *certs, const struct ws_conn *c);

#endif
