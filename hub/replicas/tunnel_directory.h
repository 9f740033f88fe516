/*
 * Which replica reaches which node, by what they tell of themselves: pure, a leaf of
 * hub/replicas/peers. A node that is reached by several counts as that one's who claims the highest
 * epoch (hub/replicas/tunnels.h); of equal ones, the higher id's, so that all hubs agree. What was
 * heard of once is remembered: a node is then at the edge, and one that was lost lately is worth
 * waiting for. It is forgotten when nobody has spoken of it for TUNNEL_DIRECTORY_FORGET_MS, and
 * nobody claims it or says that it has joined.
 *
 *	p = tunnel_directory_join(r, line, id);
 *	tunnel_directory_claim(p, "edge-1", epoch, now_ms);	// now_ms: of the loop
 *	line = tunnel_directory_holder(r, "edge-1", &epoch);	// NULL: nobody
 *	tunnel_directory_leave(&p, now_ms);
 */
#ifndef EDGEWAY_HUB_REPLICAS_TUNNEL_DIRECTORY_H
#define EDGEWAY_HUB_REPLICAS_TUNNEL_DIRECTORY_H

#include "base/core/util.h"

enum {
	TUNNEL_DIRECTORY_NODES_MAX = 65536, /* remembered at a time */
	TUNNEL_DIRECTORY_LATELY_MS = 15000, /* a node that was lost is expected for so long */
	TUNNEL_DIRECTORY_FORGET_MS = 3600 * 1000,
};

struct tunnel_directory;
struct tunnel_directory_peer;

struct tunnel_directory *tunnel_directory_new(void);
void tunnel_directory_free(struct tunnel_directory **r);

/* One who claims; owner, id: borrowed until tunnel_directory_leave. */
struct tunnel_directory_peer *tunnel_directory_join(
	struct tunnel_directory *r, void *owner, const char *id);
/* Its claims end. taken_over: another line of the same replica makes them, nothing is lost. */
void tunnel_directory_leave(struct tunnel_directory_peer **p, uint64_t now_ms, bool taken_over);
/* From now on it holds the node's tunnel of this epoch, or, with 0, none. -ENOSPC: too many
 * nodes. */
int tunnel_directory_claim(
	struct tunnel_directory_peer *p, const char *node, uint64_t epoch, uint64_t now_ms);
/* Takes the claim back, if it still has this epoch: the replica was asked and has no such
 * tunnel. */
void tunnel_directory_doubt(
	struct tunnel_directory *r, const char *node, uint64_t epoch, uint64_t now_ms);
/* The node is known to be one at the edge, as long as this replica is there. -ENOSPC as above. */
int tunnel_directory_note(struct tunnel_directory_peer *p, const char *node, uint64_t now_ms);
/* A tunnel of its own at this hub has ended. */
void tunnel_directory_lost(struct tunnel_directory *r, const char *node, uint64_t now_ms);

/* Forgets those that are due, but for `wanted` ones; how many. All are looked at: not often. */
size_t tunnel_directory_forget(struct tunnel_directory *r, uint64_t now_ms,
	bool (*wanted)(void *arg, const char *node), void *arg);

/* The replica does not answer now, or does again: its claims stand, and count for
 * tunnel_directory_claimed alone. */
void tunnel_directory_suspend(struct tunnel_directory_peer *p, bool suspended);
/* The highest epoch that anybody claims, 0: none; of those who answer,
 * tunnel_directory_holder's. */
uint64_t tunnel_directory_claimed(const struct tunnel_directory *r, const char *node);
void *tunnel_directory_holder(const struct tunnel_directory *r, const char *node, uint64_t *epoch);
/* Has it been heard of? */
bool tunnel_directory_knows(const struct tunnel_directory *r, const char *node);
/* Was it lost lately, and may it come again in a moment? */
bool tunnel_directory_awaits(const struct tunnel_directory *r, const char *node, uint64_t now_ms);
size_t tunnel_directory_claims(const struct tunnel_directory_peer *p); /* NULL: 0 */
/* Calls fn for each node that somebody claims, or says to have joined. */
void tunnel_directory_named(
	const struct tunnel_directory *r, void (*fn)(void *arg, const char *node), void *arg);

#endif
