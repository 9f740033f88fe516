/*
 * The load-balancing policies, as pure functions: which endpoint gets the next request. No clock,
 * no random source of its own, no I/O. Nodes are grouped in tiers, the nearest first: the first
 * tier that has a usable node gets the request. A node is not usable if it is down (ejected, or
 * failing its health check), to be avoided (already tried for this request), or full (at the
 * service's connection limit). When no tier has a usable node, nodes that are down are used too
 * ("panic"), as a guess is better than a sure failure; but not while a node that is up is merely
 * full, since the request can wait for it. Full and already tried nodes are skipped in any case.
 *
 *	balance_init(&b, nodes, ends);	// takes nodes
 *	node = balance_pick(&b, &(struct balance_ask){ .policy = LB_LEAST_REQUEST, .random = r });
 */
#ifndef EDGEWAY_LB_BALANCE_BALANCE_H
#define EDGEWAY_LB_BALANCE_BALANCE_H

#include "lb/balance/shared.h"
#include "model/service.h"

enum { BALANCE_TIERS = TIER_TUNNEL + 1 };
#define BALANCE_NEW UINT64_MAX

struct balance_node {
	uint64_t down_until_ms; /* ejected until then */
	uint64_t back_ms; /* when it came (back), for slow start; 0: long ago, BALANCE_NEW: now */
	uint64_t seen_ms; /* when ewma_us was last updated */
	uint64_t hash; /* of the address, for consistent hashing */
	struct shared *shared; /* state shared with all workers; NULL: none */
	uint32_t in_flight; /* requests or connections of this worker in progress */
	uint32_t ewma_us; /* peak-EWMA of the time to the first byte; 0: unknown */
};

struct balance {
	struct balance_node **nodes; /* by tier */
	uint16_t *tables; /* maglev tables, one for each tier; built on first use */
	uint16_t ends[BALANCE_TIERS]; /* tier i: nodes from ends[i - 1] up to ends[i] */
	uint32_t cursor; /* round robin */
};

struct balance_ask {
	enum lb_policy policy; /* LB_DEFAULT: least-request */
	uint64_t now_ms;
	uint64_t random;
	uint64_t key; /* the key for consistent hashing */
	uint32_t max_connections; /* to one node; 0: no limit */
	uint32_t slow_start_ms; /* 0: no slow start */
	/* load that a node may have under consistent hashing, in percent of the mean; 0: any */
	uint32_t hash_balance;
	uint32_t client; /* the client, which is limited to its part of max_connections */
	struct balance_node *const *avoid;
	size_t n_avoid;
	const struct balance_node *passed; /* one more node to avoid; for balance.c only */
};

/* Takes `nodes`, a heap array; `ends` as in struct balance. The round-robin cursor is kept. */
void balance_init(
	struct balance *b, struct balance_node **nodes, const uint16_t ends[BALANCE_TIERS]);
void balance_fini(struct balance *b);
static inline size_t
balance_count(const struct balance *b)
{
	return b->ends[BALANCE_TIERS - 1];
}

/* Returns NULL when every node is to be avoided or full. */
struct balance_node *balance_pick(struct balance *b, const struct balance_ask *ask);
/* Returns whether this node may be used without panic. */
bool balance_usable(const struct balance_ask *ask, const struct balance_node *n);
/* Returns whether any node may be used without panic. */
bool balance_any(const struct balance *b, const struct balance_ask *ask);
/* Returns whether there is a node that was not tried. If balance_pick found none, that node was
 * full at that moment; it may have room again by now. */
bool balance_untried(const struct balance *b, const struct balance_ask *ask);
/* Returns whether a node that was not tried would be picked if it were not full. */
bool balance_full(const struct balance *b, const struct balance_ask *ask);
/* Records the time to the first byte of a response. */
void balance_observe(struct balance_node *n, uint32_t took_us, uint64_t now_ms);
/* The node failed: LB_EWMA counts that as a slow response. */
void balance_punish(struct balance_node *n, uint64_t now_ms);

#endif
