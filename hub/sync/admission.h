/*
 * Who is let in at the hub's port (doc/protocol.md): a node with a certificate for its talk, a
 * stranger with a token for his join. Judges by the path, headers and certificate of a request;
 * keeps nothing. A refusal is logged, not too often.
 *
 *	status = admission_status(&join, conn);	// in the websocket's `accept`
 */
#ifndef EDGEWAY_HUB_SYNC_ADMISSION_H
#define EDGEWAY_HUB_SYNC_ADMISSION_H

#include "base/http/ws.h"
#include "hub/identity/join.h"

/* 0: let in, with the heartbeat that a node has asked for; else the HTTP status that refuses it. */
int admission_status(const struct join_config *with, struct ws_conn *c);
/* The node of the client's certificate; "" without one, and of a revoked one, which proves
 * nothing. */
const char *admission_proven_name(const struct certs *certs, const struct ws_conn *c);

#endif
