/*
 * Which replica reaches which node, as the replicas report it: pure, a leaf of hub/replicas/peers.
 * If several replicas reach a node, the one with the highest epoch counts (hub/replicas/tunnels.h);
 * with equal epochs the one with the higher id, so that all hubs agree. A node that was ever
 * reported is remembered: it is then an edge node, and if it was lost lately, it is worth waiting
 * for. A node is forgotten when no replica has reported it for TUNNEL_DIRECTORY_FORGET_MS, and none
 * claims it or reports it as joined.
 *
 *	p = tunnel_directory_join(r, line, id);
 *	tunnel_directory_claim(p, "edge-1", epoch, now_ms);	// now_ms: of the loop
 *	line = tunnel_directory_holder(r, "edge-1", &epoch);	// NULL: nobody
 *	tunnel_directory_leave(&p, now_ms, false);
 */
#ifndef EDGEWAY_HUB_REPLICAS_TUNNEL_DIRECTORY_H
#define EDGEWAY_HUB_REPLICAS_TUNNEL_DIRECTORY_H

#include "base/core/util.h"

enum {
	TUNNEL_DIRECTORY_NODES_MAX = 65536, /* remembered at the same time */
	TUNNEL_DIRECTORY_LATELY_MS = 15000, /* how long a lost node is expected back */
	TUNNEL_DIRECTORY_FORGET_MS = 3600 * 1000,
};

struct tunnel_directory;
struct tunnel_directory_peer;

struct tunnel_directory *tunnel_directory_new(void);
void tunnel_directory_free(struct tunnel_directory **r);

/* Adds a replica; owner, id: borrowed until tunnel_directory_leave. */
struct tunnel_directory_peer *tunnel_directory_join(
	struct tunnel_directory *r, void *owner, const char *id);
/* Ends its claims. taken_over: another connection to the same replica makes the same claims, so no
 * node is lost. */
void tunnel_directory_leave(struct tunnel_directory_peer **p, uint64_t now_ms, bool taken_over);
/* From now on it has the node's tunnel of this epoch, or none if 0. -ENOSPC: too many nodes. */
int tunnel_directory_claim(
	struct tunnel_directory_peer *p, const char *node, uint64_t epoch, uint64_t now_ms);
/* Withdraws the claim, if it still has this epoch: the replica answered that it has no such
 * tunnel. */
void tunnel_directory_doubt(
	struct tunnel_directory *r, const char *node, uint64_t epoch, uint64_t now_ms);
/* Records that the node is an edge node, as long as this replica is there. -ENOSPC as above. */
int tunnel_directory_note(struct tunnel_directory_peer *p, const char *node, uint64_t now_ms);
/* The node's tunnel at this hub has ended. */
void tunnel_directory_lost(struct tunnel_directory *r, const char *node, uint64_t now_ms);

/* Forgets the nodes that are due, except `wanted` ones; returns how many. Scans all nodes: call it
 * rarely. */
size_t tunnel_directory_forget(struct tunnel_directory *r, uint64_t now_ms,
	bool (*wanted)(void *arg, const char *node), void *arg);

/* The replica does not answer now, or does again: its claims stay, but while it is suspended only
 * tunnel_directory_claimed counts them. */
void tunnel_directory_suspend(struct tunnel_directory_peer *p, bool suspended);
/* _claimed: the highest epoch that any replica claims, 0: none. _holder: the same among the
 * replicas that answer. */
uint64_t tunnel_directory_claimed(const struct tunnel_directory *r, const char *node);
void *tunnel_directory_holder(const struct tunnel_directory *r, const char *node, uint64_t *epoch);
/* Returns true if any replica has reported the node. */
bool tunnel_directory_knows(const struct tunnel_directory *r, const char *node);
/* Returns true if the node was lost lately and may be back in a moment. */
bool tunnel_directory_awaits(const struct tunnel_directory *r, const char *node, uint64_t now_ms);
size_t tunnel_directory_claims(const struct tunnel_directory_peer *p); /* NULL: 0 */
/* Calls fn for each node that a replica claims or reports as joined. */
void tunnel_directory_named(
	const struct tunnel_directory *r, void (*fn)(void *arg, const char *node), void *arg);

#endif
