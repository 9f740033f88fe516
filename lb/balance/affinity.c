#include "lb/balance/affinity.h"

#include <stdatomic.h>

#include "base/core/hash.h"

/*
 * 65536 clients in 1 MB; only pages in use are ever touched. A value is 40 bits of the endpoint's
 * hash, mixed with the key, above 24 bits of the second of the last use. A value left behind for
 * another key, after its slot changed owner, matches no endpoint and so counts as none.
 */
enum { SETS = 8192, WAYS = 8, TIME_BITS = 24, TIME_MASK = (1 << TIME_BITS) - 1 };

struct slot {
	_Atomic uint64_t key, value; /* 0: free */
};

struct affinity {
	uint64_t seed;
	struct slot slots[SETS][WAYS];
};

struct affinity *
affinity_new(void)
{
	struct affinity *a = xcalloc(1, sizeof *a);

	random_bytes(&a->seed, sizeof a->seed);
	return a;
}

void
affinity_free(struct affinity **a)
{
	free(take_ptr(a));
}

uint64_t
affinity_key(const struct affinity *a, uint32_t client, uint32_t service, uint16_t port)
{
	const uint32_t parts[3] = {client, service, port};

	return hash64(parts, sizeof parts, a->seed) | 1;
}

static uint32_t
affinity_second(uint64_t now_ms)
{
	return (uint32_t)(now_ms / 1000) & TIME_MASK;
}

static uint32_t
age_s(uint64_t value, uint64_t now_ms)
{
	return (affinity_second(now_ms) - (uint32_t)value) & TIME_MASK;
}

static uint64_t
affinity_make(uint64_t key, uint64_t node_hash, uint64_t now_ms)
{
	return ((node_hash ^ key) & ~(uint64_t)TIME_MASK) | affinity_second(now_ms);
}

bool
affinity_names(uint64_t seen, uint64_t key, uint64_t node_hash)
{
	return seen != 0 && ((seen ^ node_hash ^ key) & ~(uint64_t)TIME_MASK) == 0;
}

static struct slot *
set_of(struct affinity *a, uint64_t key)
{
	return a->slots[key >> 8 & (SETS - 1)];
}

static struct slot *
slot_of(struct affinity *a, uint64_t key)
{
	struct slot *set = set_of(a, key);

	for (int i = 0; i < WAYS; i++) {
		if (atomic_load(&set[i].key) == key)
			return &set[i];
	}
	return NULL;
}

/* A slot for a new key: a free one, else the least recently used. NULL: another worker has taken
 * it, maybe for the same key. */
static struct slot *
affinity_claim(struct affinity *a, uint64_t key, uint64_t now_ms)
{
	struct slot *set = set_of(a, key), *best = &set[0];
	uint32_t oldest = 0;
	uint64_t owner;

	for (int i = 0; i < WAYS; i++) {
		uint32_t age = age_s(atomic_load(&set[i].value), now_ms);

		owner = 0;
		if (atomic_compare_exchange_strong(&set[i].key, &owner, key))
			return &set[i];
		if (owner == key)
			return NULL;
		if (age >= oldest) {
			oldest = age;
			best = &set[i];
		}
	}
	owner = atomic_load(&best->key);
	return owner != key && atomic_compare_exchange_strong(&best->key, &owner, key) ? best
										       : NULL;
}

bool
affinity_find(struct affinity *a, uint64_t key, uint64_t now_ms, uint32_t timeout_s, uint64_t *seen)
{
	struct slot *s = slot_of(a, key);
	uint64_t fresh;

	*seen = s == NULL ? 0 : atomic_load(&s->value);
	if (*seen == 0 || age_s(*seen, now_ms) > timeout_s)
		return false;
	if (age_s(*seen, now_ms) == 0)
		return true;
	/* If another worker wins this exchange, the effect is the same. */
	fresh = (*seen & ~(uint64_t)TIME_MASK) | affinity_second(now_ms);
	if (atomic_compare_exchange_strong(&s->value, seen, fresh))
		*seen = fresh;
	return true;
}

uint64_t
affinity_put(struct affinity *a, uint64_t key, uint64_t seen, uint64_t node_hash, uint64_t now_ms)
{
	struct slot *s = slot_of(a, key);
	uint64_t fresh = affinity_make(key, node_hash, now_ms), old = seen;

	if (s == NULL) {
		s = affinity_claim(a, key, now_ms);
		if (s != NULL)
			old = atomic_load(&s->value); /* from the slot's previous owner */
		else
			s = slot_of(a, key);
	}
	if (s == NULL || atomic_compare_exchange_strong(&s->value, &old, fresh))
		/* other workers were faster and filled the set: not stored this time */
		return fresh;
	return old;
}
