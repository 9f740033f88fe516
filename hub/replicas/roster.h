/*
 * Which replica reaches which node, by what they tell of themselves: pure, a leaf of hub/peers. A
 * node that is reached by several counts as that one's who claims the highest epoch
 * (hub/replicas/tunnels.h); of equal ones, the higher id's, so that all hubs agree. What was heard
 * of once is remembered: a node is then at the edge, and one that was lost lately is worth waiting
 * for. It is forgotten when nobody has spoken of it for ROSTER_FORGET_MS, and nobody claims it or
 * says that it has joined.
 *
 *	p = roster_join(r, line, id);
 *	roster_claim(p, "edge-1", epoch, now_ms);	// now_ms: of the loop
 *	line = roster_holder(r, "edge-1", &epoch);	// NULL: nobody
 *	roster_leave(&p, now_ms);
 */
#ifndef EDGEWAY_HUB_REPLICAS_ROSTER_H
#define EDGEWAY_HUB_REPLICAS_ROSTER_H

#include "base/core/util.h"

enum {
	ROSTER_NODES_MAX = 65536, /* remembered at a time */
	ROSTER_LATELY_MS = 15000, /* a node that was lost is expected for so long */
	ROSTER_FORGET_MS = 3600 * 1000,
};

struct roster;
struct roster_peer;

struct roster *roster_new(void);
void roster_free(struct roster **r);

/* One who claims; owner, id: borrowed until roster_leave. */
struct roster_peer *roster_join(struct roster *r, void *owner, const char *id);
/* Its claims end. taken_over: another line of the same replica makes them, nothing is lost. */
void roster_leave(struct roster_peer **p, uint64_t now_ms, bool taken_over);
/* From now on it holds the node's tunnel of this epoch, or, with 0, none. -ENOSPC: too many
 * nodes. */
int roster_claim(struct roster_peer *p, const char *node, uint64_t epoch, uint64_t now_ms);
/* Takes the claim back, if it still has this epoch: the replica was asked and has no such
 * tunnel. */
void roster_doubt(struct roster *r, const char *node, uint64_t epoch, uint64_t now_ms);
/* The node is known to be one at the edge, as long as this replica is there. -ENOSPC as above. */
int roster_note(struct roster_peer *p, const char *node, uint64_t now_ms);
/* A tunnel of its own at this hub has ended. */
void roster_lost(struct roster *r, const char *node, uint64_t now_ms);

/* Forgets those that are due, but for `wanted` ones; how many. All are looked at: not often. */
size_t roster_forget(
	struct roster *r, uint64_t now_ms, bool (*wanted)(void *arg, const char *node), void *arg);

/* The replica does not answer now, or does again: its claims stand, and count for roster_claimed
 * alone. */
void roster_suspend(struct roster_peer *p, bool suspended);
/* The highest epoch that anybody claims, 0: none; of those who answer, roster_holder's. */
uint64_t roster_claimed(const struct roster *r, const char *node);
void *roster_holder(const struct roster *r, const char *node, uint64_t *epoch);
/* Has it been heard of? */
bool roster_knows(const struct roster *r, const char *node);
/* Was it lost lately, and may it come again in a moment? */
bool roster_awaits(const struct roster *r, const char *node, uint64_t now_ms);
size_t roster_claims(const struct roster_peer *p); /* NULL: 0 */
/* Calls fn for each node that somebody claims, or says to have joined. */
void roster_named(const struct roster *r, void (*fn)(void *arg, const char *node), void *arg);
/* Calls fn for each node that is claimed. */
void roster_each(const struct roster_peer *p, void (*fn)(void *arg, const char *node), void *arg);

#endif
