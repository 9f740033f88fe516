#include "base/core/fair_share.h"

#include <stdatomic.h>

#include "base/core/hash.h"

enum { IPV6_PREFIX_BYTES = 8 };

struct fair_share {
	uint64_t limit;
	_Atomic uint64_t used, of[FAIR_SHARE_SLOTS];
};

struct fair_share *
fair_share_new(uint64_t limit)
{
	struct fair_share *s = xcalloc(1, sizeof *s);

	s->limit = MIN(limit, (uint64_t)INT64_MAX);
	return s;
}

void
fair_share_free(struct fair_share **s)
{
	free(take_ptr(s));
}

uint16_t
fair_share_slot(const void *key, size_t len, uint64_t seed)
{
	return (uint16_t)(hash64(key, len, seed) % FAIR_SHARE_SLOTS);
}

uint16_t
fair_share_slot_of(const struct addr *a, uint64_t seed)
{
	struct in6_addr ip;

	if (!addr_ip(a, &ip))
		return fair_share_slot("", 0, seed); /* Unix sockets: this machine */
	if (IN6_IS_ADDR_V4MAPPED(&ip))
		return fair_share_slot(&ip.s6_addr[12], 4, seed);
	return fair_share_slot(&ip, IPV6_PREFIX_BYTES, seed);
}

static uint64_t
fair_share_load(const _Atomic uint64_t *v)
{
	return atomic_load_explicit(v, memory_order_relaxed);
}

bool
fair_share_take(struct fair_share *s, uint16_t slot, uint64_t n)
{
	if (n > fair_share_room(s, slot))
		return false;
	fair_share_charge(s, slot, n);
	return true;
}

void
fair_share_charge(struct fair_share *s, uint16_t slot, uint64_t n)
{
	atomic_fetch_add_explicit(&s->used, n, memory_order_relaxed);
	atomic_fetch_add_explicit(&s->of[slot], n, memory_order_relaxed);
}

void
fair_share_give(struct fair_share *s, uint16_t slot, uint64_t n)
{
	atomic_fetch_sub_explicit(&s->used, n, memory_order_relaxed);
	atomic_fetch_sub_explicit(&s->of[slot], n, memory_order_relaxed);
}

static uint64_t
fair_share_left(const struct fair_share *s)
{
	uint64_t used = fair_share_load(&s->used);

	return used < s->limit ? s->limit - used : 0;
}

uint64_t
fair_share_room(const struct fair_share *s, uint16_t slot)
{
	uint64_t left = fair_share_left(s), mine = fair_share_load(&s->of[slot]);

	return mine < left ? left - mine : 0;
}

uint64_t
fair_share_excess(const struct fair_share *s, uint16_t slot)
{
	uint64_t left = fair_share_left(s), mine = fair_share_load(&s->of[slot]);

	return mine > left ? mine - left : 0;
}

uint64_t
fair_share_held(const struct fair_share *s, uint16_t slot)
{
	return fair_share_load(&s->of[slot]);
}

uint16_t
fair_share_greediest(const struct fair_share *s)
{
	uint16_t most = 0;

	for (uint16_t i = 1; i < FAIR_SHARE_SLOTS; i++) {
		if (fair_share_load(&s->of[i]) > fair_share_load(&s->of[most]))
			most = i;
	}
	return most;
}

uint64_t
fair_share_used(const struct fair_share *s)
{
	return fair_share_load(&s->used);
}

uint64_t
fair_share_limit(const struct fair_share *s)
{
	return s->limit;
}
