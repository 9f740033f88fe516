#include "lb/balance.h"

enum { EWMA_DECAY_MS = 10000 };

static bool
avoided(const struct balance_ask *ask, const struct balance_node *n)
{
	for (size_t i = 0; i < ask->n_avoid; i++) {
		if (ask->avoid[i] == n)
			return true;
	}
	return false;
}

static bool
usable(const struct balance_ask *ask, const struct balance_node *n, bool panic)
{
	return (panic || n->down_until_ms <= ask->now_ms) && !avoided(ask, n);
}

/* First usable node at or behind index `at`, round the corner. */
static struct balance_node *
next_usable(const struct balance *b, const struct balance_ask *ask, size_t at, bool panic,
	size_t *index)
{
	for (size_t i = 0; i < b->n; i++) {
		size_t k = (at + i) % b->n;

		if (usable(ask, b->nodes[k], panic)) {
			*index = k;
			return b->nodes[k];
		}
	}
	return NULL;
}

/* splitmix64's finalizer: spreads the bits of what it is given. */
static uint64_t
mix(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9u;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

/* Rendezvous hashing: a node that goes moves its own keys only, one that comes takes 1/n of each.
 */
static struct balance_node *
highest_hash(const struct balance *b, const struct balance_ask *ask, bool panic)
{
	struct balance_node *best = NULL;
	uint64_t best_score = 0;

	for (size_t i = 0; i < b->n; i++) {
		uint64_t score = mix(b->nodes[i]->hash ^ mix(ask->key));

		if (usable(ask, b->nodes[i], panic) && (best == NULL || score > best_score)) {
			best = b->nodes[i];
			best_score = score;
		}
	}
	return best;
}

static uint64_t
cost(const struct balance_ask *ask, const struct balance_node *n)
{
	if (ask->policy == LB_EWMA)
		return (uint64_t)n->ewma_us * (n->in_flight + 1);
	return n->in_flight;
}

/* Power of two choices: the better of two drawn at random. */
static struct balance_node *
better_of_two(const struct balance *b, const struct balance_ask *ask, bool panic)
{
	size_t i = (size_t)(ask->random >> 32) % b->n, j = (size_t)(uint32_t)ask->random % b->n;
	struct balance_node *one = next_usable(b, ask, i, panic, &i), *two;

	if (one == NULL)
		return NULL;
	if (i == j)
		j++;
	two = next_usable(b, ask, j, panic, &j);
	return cost(ask, two) < cost(ask, one) ? two : one;
}

static struct balance_node *
pick(struct balance *b, const struct balance_ask *ask, bool panic)
{
	struct balance_node *n;
	size_t index;

	switch (ask->policy) {
	case LB_ROUND_ROBIN:
		n = next_usable(b, ask, b->cursor, panic, &index);
		if (n != NULL)
			b->cursor = (index + 1) % b->n;
		return n;
	case LB_RANDOM:
		return next_usable(b, ask, (size_t)(ask->random % b->n), panic, &index);
	case LB_CONSISTENT_HASH:
		return highest_hash(b, ask, panic);
	case LB_DEFAULT:
	case LB_LEAST_REQUEST:
	case LB_EWMA:
		break;
	}
	return better_of_two(b, ask, panic);
}

struct balance_node *
balance_pick(struct balance *b, const struct balance_ask *ask)
{
	struct balance_node *n;

	if (b->n == 0)
		return NULL;
	n = pick(b, ask, false);
	return n != NULL ? n : pick(b, ask, true);
}

void
balance_observe(struct balance_node *n, uint32_t took_us, uint64_t now_ms)
{
	uint64_t dt = MIN(now_ms - n->seen_ms, (uint64_t)EWMA_DECAY_MS);

	/* Rises at once, falls with time: a node that became slow is known with one answer. */
	if (n->ewma_us == 0 || took_us > n->ewma_us)
		n->ewma_us = took_us;
	else
		n->ewma_us -= (uint32_t)((n->ewma_us - took_us) * dt / EWMA_DECAY_MS);
	n->seen_ms = now_ms;
}
