/*
 * The spine of a question that is not ours: cache, then upstream, asked once however many clients
 * wait for the same answer. One per worker, used on its loop only.
 *
 *	lookup_now ► fresh, or stale while no upstream can answer ► said at once
 *	      └ lookup_wait ► joins the query in flight, or starts it ► forward ► cache ► all who wait
 *
 * An expired answer is said (TTL 30) 80 ms after upstream was asked, while the query goes on; at
 * once when it fails or all upstreams are known to be dead (RFC 8767 with shorter times: the
 * resolver of a pod gives up soon).
 *
 *	lookup_new(&l, loop, mark, counters);
 *	lookup_use(l, upstreams, n);
 *	if (!lookup_now(l, &query, NULL, &answer))
 *		lookup_wait(l, &query, NULL, client, on_answer, me);
 *	lookup_free(&l);	// who waits gets what there is
 */
#ifndef EDGEWAY_DNS_FORWARD_LOOKUP_H
#define EDGEWAY_DNS_FORWARD_LOOKUP_H

#include "dns/forward/cache.h"
#include "dns/forward/forward.h"

enum {
	LOOKUP_ENTRIES = 4096, /* of each worker's cache */
	LOOKUP_BYTES = 1024 * 1024,
	LOOKUP_WAITERS_MAX = 256, /* of one question */
	LOOKUP_STALE_MS = 80, /* the second upstream was asked 60 ms after the first */
};

struct lookup;

/* Written by the worker, read by anyone. */
struct lookup_counters {
	struct forward_counters forward;
	_Atomic uint64_t hits; /* answered from the cache, failures remembered included */
	_Atomic uint64_t misses;
	_Atomic uint64_t stale; /* answered with what had expired */
	_Atomic uint64_t joined; /* waited for a query in flight instead of one of their own */
	/* refused: more than its share was waiting for a client already */
	_Atomic uint64_t crowded;
	_Atomic uint64_t evicted;
	_Atomic uint64_t entries, bytes;
};

void lookup_new(
	struct lookup **l, struct loop *loop, uint32_t mark, struct lookup_counters *counters);
void lookup_free(struct lookup **l);
/* Told of each answer that goes into the cache: for the caches of other workers. */
typedef void lookup_learnt_fn(
	void *arg, const struct cache_key *key, const uint8_t *answer, size_t len);
void lookup_on_learnt(struct lookup *l, lookup_learnt_fn *fn, void *arg);
/* Keeps what another worker was answered; lookup_learnt_fn is not told. */
void lookup_learn(struct lookup *l, const struct cache_key *key, const uint8_t *answer, size_t len);
void lookup_use(struct lookup *l, const struct addr *upstreams, size_t n);

/* True: `answer` is an upstream's message for dns/forward/rewrite, or nothing (len 0) when no
 * upstream had one a moment ago. `q` was parsed with DNS_PARSE_OK; target: whose addresses are
 * wanted instead, or NULL. */
bool lookup_now(struct lookup *l, const struct dns_query *q, const struct dns_target *target,
	struct cache_answer *answer);
/* After lookup_now said false. client: its address (dns/forward/client_quota). fn comes later, as
 * forward_fn says; or
 * -EBUSY, -ENETUNREACH, -ELOOP. */
int lookup_wait(struct lookup *l, const struct dns_query *q, const struct dns_target *target,
	uint32_t client, forward_fn *fn, void *arg);

#endif
