/*
 * The policies, pure: which endpoint gets the next request. No clock, no randomness of its own, no
 *I/O. Endpoints that are down (ejected) or to be avoided (tried for this request) are passed over;
 *if all are down, all are used ("panic"), for a guess is better than a sure failure.
 *
 *	node = balance_pick(&group->balance, &(struct balance_ask){ .policy = LB_LEAST_REQUEST,
 *.random = r });
 */
#ifndef EDGEWAY_LB_BALANCE_H
#define EDGEWAY_LB_BALANCE_H

#include "model/service.h"

struct balance_node {
	uint64_t down_until_ms; /* ejected until then */
	uint64_t seen_ms; /* when ewma_us was last fed */
	uint64_t hash; /* of the address, for consistent hashing */
	uint32_t in_flight; /* requests or connections now */
	uint32_t ewma_us; /* peak-EWMA of the time to the first byte; 0: unknown */
};

struct balance {
	struct balance_node **nodes;
	size_t n;
	size_t cursor; /* round robin */
};

struct balance_ask {
	enum lb_policy policy; /* LB_DEFAULT: least-request */
	uint64_t now_ms;
	uint64_t random;
	uint64_t key; /* what consistent hashing hashes: the client's address */
	struct balance_node *const *avoid;
	size_t n_avoid;
};

/* NULL when every node is to be avoided. */
struct balance_node *balance_pick(struct balance *b, const struct balance_ask *ask);
/* Feeds the time to the first byte of an answer. */
void balance_observe(struct balance_node *n, uint32_t took_us, uint64_t now_ms);

#endif
