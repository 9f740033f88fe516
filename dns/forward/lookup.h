/*
 * Resolves a question outside our zones: from the cache, otherwise from upstream, which is asked
 * once however many clients wait for the same answer. One per worker, used on its loop only.
 *
 *	lookup_now ► fresh, or stale while no upstream can answer ► answered at once
 *	      └ lookup_wait ► joins the pending query, or starts it ► forward ► cache ► all waiters
 *
 * An expired answer is sent (TTL 30) 80 ms after upstream was asked, while the query goes on; at
 * once if the query fails or all upstreams are known to be dead (RFC 8767 with shorter times,
 * because a pod's resolver gives up soon).
 *
 *	lookup_new(&l, loop, mark, counters);
 *	lookup_use(l, upstreams, n);
 *	if (!lookup_now(l, &query, NULL, client, &answer))
 *		lookup_wait(l, &query, NULL, client, on_answer, me);
 *	lookup_free(&l);	// waiting clients get a stale answer, or none
 */
#ifndef EDGEWAY_DNS_FORWARD_LOOKUP_H
#define EDGEWAY_DNS_FORWARD_LOOKUP_H

#include "dns/forward/cache.h"
#include "dns/forward/forward.h"

enum {
	LOOKUP_ENTRIES = 4096, /* of each worker's cache */
	LOOKUP_BYTES = 1024 * 1024,
	LOOKUP_STALE_MS = 80, /* the second upstream was asked 60 ms after the first */
};

struct lookup;

/* Written by the worker, read by anyone. */
struct lookup_counters {
	struct forward_counters forward;
	_Atomic uint64_t hits; /* answered from the cache, remembered failures included */
	_Atomic uint64_t misses;
	_Atomic uint64_t stale; /* answered with an expired answer */
	_Atomic uint64_t joined; /* waited for a query already pending instead of sending another */
	_Atomic uint64_t over_quota; /* refused: the client's quota was used up, or that of all */
	_Atomic uint64_t entries, bytes;
};

void lookup_new(
	struct lookup **l, struct loop *loop, uint32_t mark, struct lookup_counters *counters);
void lookup_free(struct lookup **l);
/* Called for each answer that enters the cache: to share it with the other workers' caches. */
typedef void lookup_learnt_fn(
	void *arg, const struct cache_key *key, const uint8_t *answer, size_t len);
void lookup_on_learnt(struct lookup *l, lookup_learnt_fn *fn, void *arg);
/* Caches an answer that another worker received; lookup_learnt_fn is not called. */
void lookup_learn(struct lookup *l, const struct cache_key *key, const uint8_t *answer, size_t len);
void lookup_use(struct lookup *l, const struct addr *upstreams, size_t n);

/* True: `answer` is an upstream's message for dns/forward/rewrite, or empty (len 0) when no
 * upstream answered a moment ago. `q` was parsed with DNS_PARSE_OK; target: the name whose
 * addresses are wanted instead, or NULL; client: dns_client_key. False: a stale one, or empty. */
bool lookup_now(struct lookup *l, const struct dns_query *q, const struct dns_target *target,
	uint64_t client, struct cache_answer *answer);
/* To be called after lookup_now returned false. fn is called later, see forward_fn; or returns
 * -EBUSY, -ENETUNREACH, -ELOOP. */
int lookup_wait(struct lookup *l, const struct dns_query *q, const struct dns_target *target,
	uint64_t client, forward_fn *fn, void *arg);

#endif
