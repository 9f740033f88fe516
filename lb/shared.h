/*
 * What all workers together know of an endpoint: connections in use, for services that limit them,
 * and the verdict of the health check, for services that have one. One for each address that such a
 * service names while some worker uses it; all other endpoints are known by each worker alone. What
 * services of a namespace say and meet counts in that namespace only (`owner`): who may write a
 * slice with the address of another's pod is not to speak for it. A service that has its endpoints
 * judged by what they answer (health checks, outlier-5xx) is alone with what it knows: another one
 * may ask them for other things. Getting one and giving it back takes a lock and happens when
 * endpoints change; reading and counting does not. Any thread; what health.c keeps in it is its
 * own, under the lock.
 *
 *	s = shares_get(all, shares_owner(all, service), &addr);
 *	if (shared_take(s, client, most))
 *		... shared_give(s, client);
 *	shares_put(all, &s);
 */
#ifndef EDGEWAY_LB_SHARED_H
#define EDGEWAY_LB_SHARED_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/core/sock.h"
#include "model/service.h"

enum {
	HEALTH_INTERVAL_MS = 2000, /* of services that say nothing */
	SHARED_CLIENTS =
		64, /* counters; a few clients that have one in common have its share in common */
	SHARED_REST =
		4, /* one of so many connections is for other clients than the one that has most */
};

struct shared {
	_Atomic uint32_t in_use;
	_Atomic bool ill;
	_Atomic uint64_t well_ms; /* since when it is not any more; 0: it never was */
	_Atomic uint16_t by_client[SHARED_CLIENTS]; /* of in_use */
	uint32_t seed; /* who has a counter in common with whom cannot be foretold */
	struct shared *next;
	struct addr addr;
	uint64_t owner; /* shares_owner() */
	unsigned refs;
	/* --- the health check: shares_check sets it --- */
	unsigned checkers; /* groups of endpoints that want it */
	unsigned check; /* which one it is: what an earlier one found does not count */
	char *host, *path; /* NULL: none */
	uint32_t interval_ms;
	uint64_t due_ms;
	unsigned good, bad; /* in a row */
	bool running;
};

struct shares {
	pthread_mutex_t lock;
	uint64_t seed;
	struct shared *first; /* a list: services that want this are few */
	_Atomic unsigned n_checks; /* how many have a path */
};

void shares_init(struct shares *all);
/* All must have been given back. */
void shares_fini(struct shares *all);
/* Whose knowledge it is, the namespace's or the service's own, in a word that nobody outside can
 * foretell. Until shares_fini. */
uint64_t shares_owner(const struct shares *all, const struct service *s);
struct shared *shares_get(struct shares *all, uint64_t owner, const struct addr *a);
void shares_put(struct shares *all, struct shared **s);
/* Its health is checked as this service wants it, whose own it is, from now on and until as many
 * shares_uncheck. A check that is another than before begins anew: with an endpoint that is
 * well. */
void shares_check(struct shares *all, struct shared *s, const struct service *service);
void shares_uncheck(struct shares *all, struct shared *s);

static inline void
shared_count(struct shared *s, int n)
{
	if (s != NULL)
		atomic_fetch_add_explicit(&s->in_use, (uint32_t)n, memory_order_relaxed);
}

static inline _Atomic uint16_t *
shared_client(struct shared *s, uint32_t client)
{
	return &s->by_client[((client ^ s->seed) * 0x9e3779b1u) >> 26];
}

/* Of `most` connections, those that one client may have: where there are a few, that is all. */
static inline uint32_t
shared_part(uint32_t most)
{
	return most - most / SHARED_REST;
}

static inline void
shared_give(struct shared *s, uint32_t client)
{
	shared_count(s, -1);
	atomic_fetch_sub_explicit(shared_client(s, client), 1, memory_order_relaxed);
}

/* One more connection of this client's, unless that is more than `most` (0: any number) or than its
 * part of them. Looked at and counted in one step, so of workers that ask at the same moment as
 * many get one as are left. True: shared_give is due. */
static inline bool
shared_take(struct shared *s, uint32_t client, uint32_t most)
{
	_Atomic uint16_t *own = shared_client(s, client);
	uint32_t all = atomic_load_explicit(&s->in_use, memory_order_relaxed);

	do {
		if (most > 0 && all >= most)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(
		&s->in_use, &all, all + 1, memory_order_relaxed, memory_order_relaxed));
	if (atomic_fetch_add_explicit(own, 1, memory_order_relaxed) < shared_part(most) ||
		most == 0)
		return true;
	shared_give(s, client);
	return false;
}

/* Are `most` connections in use, or has this client its part of them? */
static inline bool
shared_full(struct shared *s, uint32_t client, uint32_t most)
{
	return atomic_load_explicit(&s->in_use, memory_order_relaxed) >= most ||
		atomic_load_explicit(shared_client(s, client), memory_order_relaxed) >=
		shared_part(most);
}

#endif
