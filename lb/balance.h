/*
 * The policies, pure: which endpoint gets the next request. No clock, no randomness of its own, no
 * I/O. Nodes come in tiers, the nearest first: the first tier that has a usable node gets the
 * request. Not usable are nodes that are down (ejected, or found ill by a health check), to be
 * avoided (tried for this request), or full (at the service's limit of connections). When no tier has
 * a usable node, nodes that are down are used too ("panic"), for a guess is better than a sure
 * failure; but not while a node that is up is merely full, which the request can wait for. The limit
 * holds in a panic as well, and what was tried is not tried again.
 *
 *	balance_init(&b, nodes, n, ends);	// takes nodes
 *	node = balance_pick(&b, &(struct balance_ask){ .policy = LB_LEAST_REQUEST, .random = r });
 */
#ifndef EDGEWAY_LB_BALANCE_H
#define EDGEWAY_LB_BALANCE_H

#include "lb/shared.h"
#include "model/service.h"

enum { BALANCE_TIERS = TIER_TUNNEL + 1 };
#define BALANCE_NEW UINT64_MAX

struct balance_node {
	uint64_t down_until_ms; /* ejected until then */
	uint64_t back_ms; /* when it came (back): slow start; 0: long ago, BALANCE_NEW: now */
	uint64_t seen_ms; /* when ewma_us was last fed */
	uint64_t hash; /* of the address, for consistent hashing */
	struct shared *shared; /* with all workers; NULL: nothing */
	uint32_t in_flight; /* requests or connections of this worker now */
	uint32_t ewma_us; /* peak-EWMA of the time to the first byte; 0: unknown */
};

struct balance {
	struct balance_node **nodes; /* by tier */
	uint16_t *tables; /* maglev's, one for each tier; made when first asked for */
	uint16_t ends[BALANCE_TIERS]; /* tier i: nodes from ends[i - 1] up to ends[i] */
	uint32_t cursor; /* round robin */
};

struct balance_ask {
	enum lb_policy policy; /* LB_DEFAULT: least-request */
	uint64_t now_ms;
	uint64_t random;
	uint64_t key; /* what consistent hashing hashes */
	uint32_t max_connections; /* to one node, 0: no limit */
	uint32_t slow_start_ms; /* 0: none */
	/* percent of the mean that a node may have in consistent hashing, 0: any */
	uint32_t hash_balance;
	uint32_t client; /* who asks: has a share of max_connections */
	struct balance_node *const *avoid;
	size_t n_avoid;
	const struct balance_node *passed; /* one more to be avoided, balance.c's own */
};

/* `nodes` is a heap array, `ends` as in struct balance. The round robin goes on. */
void balance_init(
	struct balance *b, struct balance_node **nodes, const uint16_t ends[BALANCE_TIERS]);
void balance_fini(struct balance *b);
static inline size_t
balance_count(const struct balance *b)
{
	return b->ends[BALANCE_TIERS - 1];
}

/* NULL when every node is to be avoided or full. */
struct balance_node *balance_pick(struct balance *b, const struct balance_ask *ask);
/* May this node be used, without panic? */
bool balance_usable(const struct balance_ask *ask, const struct balance_node *n);
/* Is there any such node? */
bool balance_any(const struct balance *b, const struct balance_ask *ask);
/* Is there one that was not tried? Where balance_pick found nobody, it was full at that moment; it
 * need not be any more. */
bool balance_untried(const struct balance *b, const struct balance_ask *ask);
/* Would one that was not tried be picked, were it not full? */
bool balance_full(const struct balance *b, const struct balance_ask *ask);
/* Feeds the time to the first byte of an answer. */
void balance_observe(struct balance_node *n, uint32_t took_us, uint64_t now_ms);
/* It failed: to LB_EWMA that is a slow answer. */
void balance_punish(struct balance_node *n, uint64_t now_ms);

#endif
