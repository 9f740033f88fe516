/*
 * What all workers together know of an endpoint: connections in use, for services that limit them,
 * and the health check's result, for services that have one. There is one for each address that
 * such a service names while some worker uses it; other endpoints are known only to each worker.
 * What services of a namespace declare and observe counts in that namespace only (`owner`):
 * somebody who can write a slice with the address of another's pod must not affect it. A service
 * whose endpoints are judged by their responses (health checks, outlier-5xx) shares its results
 * with no other service, which may send other requests. Getting and putting one takes a lock and
 * happens when endpoints change; reading and counting does not. Any thread; the fields of health.c
 * are under the lock.
 *
 *	s = shares_get(all, shares_owner(all, service), &addr, NULL);
 *	if (shared_take(s, client, most))
 *		... shared_give(s, client);
 *	shares_put(all, &s);
 */
#ifndef EDGEWAY_LB_BALANCE_SHARED_H
#define EDGEWAY_LB_BALANCE_SHARED_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/core/sock.h"
#include "model/service.h"

enum {
	HEALTH_INTERVAL_MS = 2000, /* for services that do not set it */
	SHARED_CLIENTS = 64, /* counters; a few clients that share a counter also share its part */
	/* one in so many connections is reserved for clients other than the busiest one */
	SHARED_REST = 4,
};

struct shared {
	_Atomic uint32_t in_use;
	_Atomic bool ill;
	_Atomic uint64_t well_ms; /* since when it is healthy again; 0: it never failed */
	_Atomic uint16_t by_client[SHARED_CLIENTS]; /* of in_use */
	uint32_t seed; /* makes it unpredictable which clients share a counter */
	struct shared *next;
	struct addr addr;
	struct addr other; /* its address of the other family; len 0: none */
	uint64_t owner; /* shares_owner() */
	unsigned refs;
	/* --- the health check: shares_check sets it --- */
	unsigned checkers; /* groups of endpoints that want it */
	unsigned check; /* number of the current check: results of earlier ones do not count */
	char *host, *path; /* NULL: none */
	struct backend_tls *tls; /* of the check; NULL: plain */
	uint32_t interval_ms;
	uint64_t due_ms;
	unsigned good, bad; /* in a row */
	bool running;
	bool at_other; /* checks dial `other`; for the worker that checks */
};

struct shares {
	pthread_mutex_t lock;
	uint64_t seed;
	struct shared *first; /* a list: few services need it */
	_Atomic unsigned n_checks; /* how many have a path */
	_Atomic bool news; /* a check was set, and who makes them may sleep */
};

void shares_init(struct shares *all);
/* All must have been put back before. */
void shares_fini(struct shares *all);
/* An unpredictable word that identifies the owner of the results: the namespace, or the service
 * itself. Valid until shares_fini. */
uint64_t shares_owner(const struct shares *all, const struct service *s);
/* other: the address of the other family, which goes with `a` and this owner; NULL: none. */
struct shared *shares_get(
	struct shares *all, uint64_t owner, const struct addr *a, const struct addr *other);
void shares_put(struct shares *all, struct shared **s);
/* Checks its health as this service wants (which owns it), until shares_uncheck was called as
 * often. A changed check starts anew, with the endpoint healthy. */
void shares_check(struct shares *all, struct shared *s, const struct service *service,
	struct backend_tls *tls);
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

/* How many of `most` connections one client may have; if `most` is small, all of them. */
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

/* Counts one more connection of this client, unless that exceeds `most` (0: any number) or the
 * client's part of it. Checks and counts in one step, so that workers that ask at the same moment
 * get no more than are left. If true, the caller must call shared_give. */
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

/* Returns whether `most` connections are in use, or this client has its part of them. */
static inline bool
shared_full(struct shared *s, uint32_t client, uint32_t most)
{
	return atomic_load_explicit(&s->in_use, memory_order_relaxed) >= most ||
		atomic_load_explicit(shared_client(s, client), memory_order_relaxed) >=
		shared_part(most);
}

#endif
