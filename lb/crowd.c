#include "lb/crowd.h"

#include <stdatomic.h>
#include <sys/resource.h>

#include "base/hash.h"

enum {
	CLIENTS = 4096,
	EACH = 2, /* descriptors that a connection takes, with the endpoint's */
	REST_SHARE = 8, /* one of so many is for everything else, and for second dials */
};

struct crowd {
	uint64_t seed;
	uint32_t limit;
	_Atomic uint32_t n, of[CLIENTS];
};

struct crowd *
crowd_new(size_t descriptors)
{
	struct crowd *c = xcalloc(1, sizeof *c);

	random_bytes(&c->seed, sizeof c->seed);
	c->limit = (uint32_t)MIN((descriptors - descriptors / REST_SHARE) / EACH, UINT32_MAX / 2);
	return c;
}

void
crowd_free(struct crowd **c)
{
	free(take_ptr(c));
}

static _Atomic uint32_t *
counter(struct crowd *c, uint32_t client)
{
	return &c->of[hash64(&client, sizeof client, c->seed) % CLIENTS];
}

/* Workers that enter at once may go a little over the limit: the rest of the descriptors bears it. */
bool
crowd_enter(struct crowd *c, uint32_t client)
{
	_Atomic uint32_t *mine = counter(c, client);
	uint32_t n = atomic_load_explicit(&c->n, memory_order_relaxed);

	if (n >= c->limit || atomic_load_explicit(mine, memory_order_relaxed) >= c->limit - n)
		return false;
	atomic_fetch_add_explicit(&c->n, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(mine, 1, memory_order_relaxed);
	return true;
}

void
crowd_leave(struct crowd *c, uint32_t client)
{
	atomic_fetch_sub_explicit(&c->n, 1, memory_order_relaxed);
	atomic_fetch_sub_explicit(counter(c, client), 1, memory_order_relaxed);
}

size_t
crowd_descriptors(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_NOFILE, &limit) < 0 ? 1024 : (size_t)limit.rlim_cur;
}
