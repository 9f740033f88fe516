#include "lb/balance/balance.h"

#include "lb/balance/maglev.h"

enum { SLOW_LEAST = 20 /* a returning node starts with one in so many of its requests */ };
enum {
	EWMA_DECAY_MS = 10000,
	EWMA_TIMES = 4,
	PUNISH_US = 100 * 1000,
	PUNISH_MAX_US = 10 * 1000 * 1000
};

/* One tier. */
struct range {
	struct balance_node **nodes;
	uint32_t n;
	const uint16_t *table;
};

void
balance_init(struct balance *b, struct balance_node **nodes, const uint16_t ends[BALANCE_TIERS])
{
	b->nodes = nodes;
	for (int i = 0; i < BALANCE_TIERS; i++)
		b->ends[i] = ends[i];
}

void
balance_fini(struct balance *b)
{
	free(b->nodes);
	free(b->tables);
	*b = (struct balance){.cursor = b->cursor};
}

static bool
balance_avoided(const struct balance_ask *ask, const struct balance_node *n)
{
	for (size_t i = 0; i < ask->n_avoid; i++) {
		if (ask->avoid[i] == n)
			return true;
	}
	return n == ask->passed;
}

static bool
balance_node_full(const struct balance_ask *ask, const struct balance_node *n)
{
	return ask->max_connections > 0 && n->shared != NULL &&
		shared_full(n->shared, ask->client, ask->max_connections);
}

static bool
balance_down(const struct balance_ask *ask, const struct balance_node *n)
{
	return n->down_until_ms > ask->now_ms ||
		(n->shared != NULL && atomic_load_explicit(&n->shared->ill, memory_order_relaxed));
}

static bool
balance_node_usable(const struct balance_ask *ask, const struct balance_node *n, bool panic)
{
	return (panic || !balance_down(ask, n)) && !balance_avoided(ask, n) &&
		!balance_node_full(ask, n);
}

bool
balance_usable(const struct balance_ask *ask, const struct balance_node *n)
{
	return balance_node_usable(ask, n, false);
}

bool
balance_any(const struct balance *b, const struct balance_ask *ask)
{
	for (size_t i = 0; i < balance_count(b); i++) {
		if (balance_node_usable(ask, b->nodes[i], false))
			return true;
	}
	return false;
}

bool
balance_untried(const struct balance *b, const struct balance_ask *ask)
{
	for (size_t i = 0; i < balance_count(b); i++) {
		if (!balance_avoided(ask, b->nodes[i]))
			return true;
	}
	return false;
}

bool
balance_full(const struct balance *b, const struct balance_ask *ask)
{
	for (size_t i = 0; i < balance_count(b); i++) {
		if (!balance_avoided(ask, b->nodes[i]) && balance_node_full(ask, b->nodes[i]))
			return true;
	}
	return false;
}

/* First usable node at or after index `at`, wrapping around. */
static struct balance_node *
next_usable(const struct range *r, const struct balance_ask *ask, uint32_t at, bool panic,
	uint32_t *index)
{
	for (uint32_t i = 0; i < r->n; i++) {
		uint32_t k = (at + i) % r->n;

		if (balance_node_usable(ask, r->nodes[k], panic)) {
			*index = k;
			return r->nodes[k];
		}
	}
	return NULL;
}

/* The most that a node may have in progress: its fair part of the total including this request,
 * times the service's factor. */
static uint32_t
balance_bound(const struct range *r, const struct balance_ask *ask, bool panic)
{
	uint64_t total = 1, n = 0;

	if (ask->hash_balance == 0)
		return UINT32_MAX;
	for (uint32_t i = 0; i < r->n; i++) {
		if (!balance_node_usable(ask, r->nodes[i], panic))
			continue;
		total += r->nodes[i]->in_flight;
		n++;
	}
	return n == 0 ? 0 : (uint32_t)((total * ask->hash_balance + 100 * n - 1) / (100 * n));
}

/* The key's node; if that is not usable, the next one in the table. That differs from slot to slot,
 * so the keys of a node that is down spread evenly over all others, and return to it. */
static struct balance_node *
balance_hashed(const struct range *r, const struct balance_ask *ask, bool panic)
{
	uint32_t at = (uint32_t)(maglev_mix(ask->key) % MAGLEV_SLOTS), index;
	uint32_t most = balance_bound(r, ask, panic);

	for (uint32_t i = 0; i < MAGLEV_SLOTS; i++) {
		struct balance_node *n = r->nodes[r->table[(at + i) % MAGLEV_SLOTS]];

		if (n->in_flight < most && balance_node_usable(ask, n, panic))
			return n;
	}
	return next_usable(r, ask, 0, panic, &index); /* more nodes than slots */
}

/* Old measurements fade; otherwise one slow response would keep a node idle for ever. */
static uint64_t
faded_us(const struct balance_node *n, uint64_t now_ms)
{
	uint64_t age = MIN(now_ms - n->seen_ms, (uint64_t)EWMA_DECAY_MS);

	return n->ewma_us - n->ewma_us * age / EWMA_DECAY_MS;
}

/* A node that answers nobody would fade to nothing and get all: with requests open it counts as no
 * more than EWMA_TIMES quicker than the other one. */
static uint64_t
balance_cost(const struct balance_ask *ask, const struct balance_node *n,
	const struct balance_node *other)
{
	uint64_t us;

	if (ask->policy != LB_EWMA)
		return n->in_flight;
	us = faded_us(n, ask->now_ms);
	if (n->in_flight > 0)
		us = MAX(us, faded_us(other, ask->now_ms) / EWMA_TIMES);
	return us * (n->in_flight + 1);
}

/* Power of two choices: the better of two drawn at random. */
static struct balance_node *
better_of_two(const struct range *r, const struct balance_ask *ask, bool panic)
{
	uint32_t i = (uint32_t)(ask->random >> 32) % r->n, j = (uint32_t)ask->random % r->n;
	struct balance_node *one = next_usable(r, ask, i, panic, &i), *two;

	if (one == NULL)
		return NULL;
	if (i == j)
		j++;
	two = next_usable(r, ask, j, panic, &j);
	/* NULL: other workers have filled `one` meanwhile. */
	return two != NULL && balance_cost(ask, two, one) < balance_cost(ask, one, two) ? two : one;
}

static struct balance_node *
pick_alike(struct balance *b, const struct range *r, const struct balance_ask *ask, bool panic)
{
	struct balance_node *n;
	uint32_t index;

	switch (ask->policy) {
	case LB_ROUND_ROBIN:
		n = next_usable(r, ask, b->cursor % r->n, panic, &index);
		if (n != NULL)
			b->cursor = index + 1;
		return n;
	case LB_RANDOM:
		return next_usable(r, ask, (uint32_t)(ask->random % r->n), panic, &index);
	case LB_CONSISTENT_HASH:
		return balance_hashed(r, ask, panic);
	case LB_DEFAULT:
	case LB_LEAST_REQUEST:
	case LB_EWMA:
		break;
	}
	return better_of_two(r, ask, panic);
}

/* Returns whether a node in slow start leaves this request to another. Its share grows with
 * time. */
static bool
too_early(struct balance_node *n, const struct balance_ask *ask)
{
	uint64_t since, age, share;

	if (ask->slow_start_ms == 0)
		return false;
	if (n->back_ms == BALANCE_NEW)
		n->back_ms = ask->now_ms;
	since = n->shared == NULL ? 0
				  : atomic_load_explicit(&n->shared->well_ms, memory_order_relaxed);
	since = MAX(since, n->back_ms);
	age = ask->now_ms - MIN(since, ask->now_ms);
	if (since == 0 || age >= ask->slow_start_ms)
		return false;
	share = MAX(age, (uint64_t)ask->slow_start_ms / SLOW_LEAST);
	return maglev_mix(ask->random) % ask->slow_start_ms >= share;
}

static struct balance_node *
balance_pick_in_tier(
	struct balance *b, const struct range *r, const struct balance_ask *ask, bool panic)
{
	struct balance_node *n = pick_alike(b, r, ask, panic), *other;
	struct balance_ask again = *ask;

	if (n == NULL || ask->policy == LB_CONSISTENT_HASH || !too_early(n, ask))
		return n;
	again.passed = n;
	other = pick_alike(b, r, &again, panic);
	return other != NULL ? other : n;
}

/* The tier's nodes; n is 0 if it has none. */
static struct range
tier_range(const struct balance *b, int tier)
{
	uint32_t from = tier == 0 ? 0 : b->ends[tier - 1];

	return (struct range){
		.nodes = b->nodes + from,
		.n = b->ends[tier] - from,
		.table = b->tables == NULL ? NULL : b->tables + tier * MAGLEV_SLOTS,
	};
}

static void
make_tables(struct balance *b)
{
	int last = BALANCE_TIERS - 1;

	while (last > 0 && b->ends[last - 1] == b->ends[last])
		last--;
	b->tables = xcalloc((size_t)(last + 1) * MAGLEV_SLOTS, sizeof *b->tables);
	for (int tier = 0; tier <= last; tier++) {
		const struct range r = tier_range(b, tier);
		auto_free uint64_t *hashes = xcalloc(r.n + 1u, sizeof *hashes);

		for (uint32_t i = 0; i < r.n; i++)
			hashes[i] = r.nodes[i]->hash;
		if (r.n > 0)
			maglev_fill(b->tables + tier * MAGLEV_SLOTS, hashes, r.n);
	}
}

/* Is there a node that is up, and only has no room for now? */
static bool
balance_frees_up(const struct balance *b, const struct balance_ask *ask)
{
	for (size_t i = 0; ask->max_connections > 0 && i < balance_count(b); i++) {
		const struct balance_node *n = b->nodes[i];

		if (!balance_down(ask, n) && !balance_avoided(ask, n) && balance_node_full(ask, n))
			return true;
	}
	return false;
}

struct balance_node *
balance_pick(struct balance *b, const struct balance_ask *ask)
{
	if (ask->policy == LB_CONSISTENT_HASH && b->tables == NULL && balance_count(b) > 0)
		make_tables(b);
	for (int panic = 0; panic <= 1; panic++) {
		if (panic != 0 && balance_frees_up(b, ask))
			return NULL;
		for (int tier = 0; tier < BALANCE_TIERS; tier++) {
			const struct range r = tier_range(b, tier);
			struct balance_node *n =
				r.n == 0 ? NULL : balance_pick_in_tier(b, &r, ask, panic != 0);

			if (n != NULL)
				return n;
		}
	}
	return NULL;
}

void
balance_observe(struct balance_node *n, uint32_t took_us, uint64_t now_ms)
{
	uint64_t dt = MIN(now_ms - n->seen_ms, (uint64_t)EWMA_DECAY_MS);

	/* Rises at once, falls with time: one response is enough to show that a node became
	 * slow. */
	if (n->ewma_us == 0 || took_us > n->ewma_us)
		n->ewma_us = took_us;
	else
		n->ewma_us -= (uint32_t)((n->ewma_us - took_us) * dt / EWMA_DECAY_MS);
	n->seen_ms = now_ms;
}

void
balance_punish(struct balance_node *n, uint64_t now_ms)
{
	n->ewma_us =
		(uint32_t)MIN(MAX(2ull * n->ewma_us, (uint64_t)PUNISH_US), (uint64_t)PUNISH_MAX_US);
	n->seen_ms = now_ms;
}
