/*
 * One connection of a joining node (doc/protocol.md, "Joining"): a new node with a token, a node
 * waiting for an operator's approval, or a node that renews while its certificate is still valid.
 * It sends a request and gets a certificate. join_allow decides about the upgrade; then the
 * connection lives for one message or JOIN_TIMEOUT_MS. On the hub's loop.
 *
 * A token is bound to the key that uses it: the same key gets the same certificate again, so a lost
 * response does no harm; another key counts as another join, for which the token may be used up. A
 * token without a node name cannot give a name that anybody else has (join_bars_fn).
 *
 *	status = join_allow(&config, node, bearer, peer_name, address);	// 0, or 401, 503
 *	j = join_new(&config, conn, node, bearer, peer_name);
 */
#ifndef EDGEWAY_HUB_IDENTITY_JOIN_H
#define EDGEWAY_HUB_IDENTITY_JOIN_H

#include "base/http/ws.h"
#include "hub/identity/approvals.h"
#include "hub/identity/certs.h"
#include "hub/identity/share.h"
#include "hub/identity/tokens.h"
#include "model/mesh.h"

enum { JOIN_TIMEOUT_MS = 10000, JOIN_CSR_MAX = 16384 };

enum join_reason {
	JOIN_TOKEN, /* no valid token for this name */
	JOIN_USED_UP, /* the token has no join left */
	JOIN_TAKEN, /* another key holds the name */
	JOIN_BARRED, /* a token must not give this name away (join_bars_fn) */
	JOIN_OTHER,
	JOIN_REASONS,
};

struct join_stats {
	uint64_t issued, refused[JOIN_REASONS];
	/* The last refusal; last_s since 1970, 0: none. */
	char last_node[MESH_NODE_MAX + 1], last_peer[64], last_why[400];
	int64_t last_s;
};

const char *join_reason_text(enum join_reason reason);

struct join_config {
	struct loop *loop;
	struct certs *certs;
	struct share *share; /* NULL: no replicas */
	struct approvals *approvals; /* NULL: a token is needed */
	join_bars_fn *bars; /* NULL: a token may give every free name */
	void *bars_arg;
	struct join_stats *stats;
	bool held; /* nobody gets a certificate now: 503 */
};

struct join;

/* HTTP status to refuse the upgrade with, or 0. peer_name: from a verified client certificate, or
 * "". */
int join_allow(const struct join_config *config, const char *node, const char *secret,
	const char *peer_name, const char *address);
struct join *join_new(const struct join_config *config, struct ws_conn *conn, const char *node,
	const char *secret, const char *peer_name);
void join_free(struct join **j);
const char *join_node(const struct join *j);
/* Ends the connection without a response. */
void join_end(struct join *j, const char *why);
void join_text(struct join *j, const char *text, size_t len);

#endif
