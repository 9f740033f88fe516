#include "dns/forward/lookup.h"

#include <errno.h>
#include <string.h>

#include "base/core/hash.h"
#include "dns/forward/client_quota.h"
#include "dns/forward/rewrite.h"

enum { BUCKETS = 256 };

struct waiter {
	struct waiter *next;
	forward_fn *fn;
	void *arg;
	uint64_t client;
};

/* A question passed to the forwarder, and the clients that wait for it. */
struct pending_query {
	struct pending_query *chain;
	struct lookup *l;
	struct timer *stale; /* NULL: there is no stale answer */
	struct waiter *first, **last;
	unsigned n_waiting;
	bool told; /* upstream had its time: the stale answer is sent at once */
	uint64_t hash;
	struct cache_key key;
};

struct lookup {
	struct loop *loop;
	uint64_t seed;
	struct cache *cache;
	struct forward *forward;
	struct client_quota share;
	struct lookup_counters *count;
	lookup_learnt_fn *on_learnt; /* NULL: not called */
	void *on_learnt_arg;
	struct pending_query *flights[BUCKETS];
};

static void
lookup_add(_Atomic uint64_t *c, uint64_t n)
{
	atomic_store_explicit(
		c, atomic_load_explicit(c, memory_order_relaxed) + n, memory_order_relaxed);
}

static void
show_cache(struct lookup *l)
{
	struct lookup_counters *c = l->count;

	atomic_store_explicit(&c->entries, cache_entries(l->cache), memory_order_relaxed);
	atomic_store_explicit(&c->bytes, cache_bytes(l->cache), memory_order_relaxed);
}

static void
lookup_keep(struct lookup *l, const struct cache_key *key, const uint8_t *answer, size_t len)
{
	if (cache_put(l->cache, key, answer, len, loop_now_ms(l->loop)) && l->on_learnt != NULL)
		l->on_learnt(l->on_learnt_arg, key, answer, len);
	show_cache(l);
}

/* The clients have gone; the answer is cached for the next one that asks. */
static void
on_late(void *arg, const uint8_t *query, size_t query_len, const uint8_t *answer, size_t len)
{
	struct lookup *l = arg;
	struct cache_key key;
	struct dns_query q;

	if (dns_query_parse(&q, query, query_len) != DNS_PARSE_OK)
		return;
	cache_key_init(&key, &q, NULL, 0);
	lookup_keep(l, &key, answer, len);
}

void
lookup_on_learnt(struct lookup *l, lookup_learnt_fn *fn, void *arg)
{
	l->on_learnt = fn;
	l->on_learnt_arg = arg;
}

void
lookup_learn(struct lookup *l, const struct cache_key *key, const uint8_t *answer, size_t len)
{
	cache_put(l->cache, key, answer, len, loop_now_ms(l->loop));
	show_cache(l);
}

void
lookup_new(struct lookup **out, struct loop *loop, uint32_t mark, struct lookup_counters *counters)
{
	static const struct cache_limits limits = {LOOKUP_ENTRIES, LOOKUP_BYTES};
	struct lookup *l = xcalloc(1, sizeof *l);

	l->loop = loop;
	l->count = counters;
	random_bytes(&l->seed, sizeof l->seed);
	cache_new(&l->cache, &limits, l->seed);
	client_quota_init(&l->share, l->seed);
	forward_new(&l->forward, loop, mark, &counters->forward);
	forward_on_late(l->forward, on_late, l);
	*out = l;
}

void
lookup_free(struct lookup **out)
{
	struct lookup *l = take_ptr(out);

	if (l == NULL)
		return;
	forward_free(&l->forward); /* ends the open questions (flights) */
	cache_free(&l->cache);
	free(l);
}

void
lookup_use(struct lookup *l, const struct addr *upstreams, size_t n)
{
	/* The new upstreams may belong to another network with other names. */
	if (forward_use(l->forward, upstreams, n))
		cache_expire(l->cache, loop_now_ms(l->loop));
}

/* --- pending questions ---------------------------------------------------------------------- */

static struct pending_query **
flight_at(struct lookup *l, const struct cache_key *key, uint64_t hash)
{
	struct pending_query **at = &l->flights[hash % BUCKETS];

	while (*at != NULL &&
		((*at)->hash != hash || (*at)->key.len != key->len ||
			memcmp((*at)->key.bytes, key->bytes, key->len) != 0))
		at = &(*at)->chain;
	return at;
}

static struct pending_query *
flight_find(struct lookup *l, const struct cache_key *key)
{
	return *flight_at(l, key, hash64(key->bytes, key->len, l->seed));
}

static void
lookup_join(struct pending_query *fl, uint64_t client, forward_fn *fn, void *arg)
{
	struct waiter *w = xcalloc(1, sizeof *w);

	w->fn = fn;
	w->arg = arg;
	w->client = client;
	*fl->last = w;
	fl->last = &w->next;
	fl->n_waiting++;
}

/* A callback may ask the same question again and join the same flight, so its list is emptied
 * first. */
static void
lookup_tell(struct pending_query *fl, const uint8_t *answer, size_t len)
{
	struct waiter *w = fl->first;

	fl->first = NULL;
	fl->last = &fl->first;
	fl->n_waiting = 0;
	while (w != NULL) {
		struct waiter *next = w->next;

		client_quota_give(&fl->l->share, w->client);
		w->fn(w->arg, answer, len);
		free(w);
		w = next;
	}
}

/* False when there is no stale answer any more. */
static bool
tell_stale(struct pending_query *fl)
{
	struct lookup *l = fl->l;
	struct cache_answer answer;
	enum cache_state state = cache_find(l->cache, &fl->key, loop_now_ms(l->loop), &answer);

	if (state != CACHE_STALE && state != CACHE_STALE_BACKOFF)
		return false;
	lookup_add(&l->count->stale, fl->n_waiting);
	lookup_tell(fl, answer.bytes, answer.len);
	return true;
}

static void
on_stale(void *arg)
{
	struct pending_query *fl = arg;

	fl->told = true;
	tell_stale(fl);
}

static void
on_forwarded(void *arg, const uint8_t *answer, size_t len)
{
	struct pending_query *fl = arg;
	struct lookup *l = fl->l;

	if (len > 0)
		lookup_keep(l, &fl->key, answer, len);
	else
		cache_fail(l->cache, &fl->key, loop_now_ms(l->loop));
	show_cache(l);
	*flight_at(l, &fl->key, fl->hash) = fl->chain;
	timer_free(&fl->stale);
	if (len > 0 || !tell_stale(fl))
		lookup_tell(fl, answer, len);
	free(fl);
}

static int
lookup_start_query(struct lookup *l, const struct dns_query *q, const struct dns_target *target,
	const struct cache_key *key, struct pending_query **out)
{
	uint8_t query[DNS_FORWARD_MAX];
	struct pending_query *fl = xcalloc(1, sizeof *fl), **at;
	int rc = forward_ask(
		l->forward, query, dns_forward_build(query, q, target), on_forwarded, fl);

	if (rc < 0) {
		free(fl);
		return rc;
	}
	fl->l = l;
	fl->last = &fl->first;
	fl->key = *key;
	fl->hash = hash64(fl->key.bytes, fl->key.len, l->seed);
	at = flight_at(l, &fl->key, fl->hash);
	fl->chain = *at;
	*at = fl;
	if (cache_has_stale(l->cache, &fl->key, loop_now_ms(l->loop))) {
		fl->stale = timer_new(l->loop, on_stale, fl);
		timer_start(fl->stale, LOOKUP_STALE_MS, 0);
	}
	*out = fl;
	return 0;
}

/* --- entry points --------------------------------------------------------------------------- */

/* A stale answer will do when upstream had its time or cannot answer; in the second case it is
 * asked all the same, so that its return is noticed. */
static bool
stale_will_do(struct lookup *l, const struct dns_query *q, const struct dns_target *target,
	const struct cache_key *key)
{
	struct pending_query *fl = flight_find(l, key);

	if (fl != NULL && fl->told)
		return true;
	if (forward_hopeful(l->forward))
		return false;
	if (fl != NULL || lookup_start_query(l, q, target, key, &fl) == 0)
		fl->told = true;
	return true;
}

bool
lookup_now(struct lookup *l, const struct dns_query *q, const struct dns_target *target,
	uint64_t client, struct cache_answer *answer)
{
	struct cache_key key;

	cache_key_init(&key, q, target, client);
	switch (cache_find(l->cache, &key, loop_now_ms(l->loop), answer)) {
	case CACHE_FRESH:
	case CACHE_FAILED:
		lookup_add(&l->count->hits, 1);
		return true;
	case CACHE_STALE:
		if (!stale_will_do(l, q, target, &key))
			return false;
		break;
	case CACHE_STALE_BACKOFF:
		break;
	case CACHE_MISS:
	default:
		return false;
	}
	lookup_add(&l->count->stale, 1);
	return true;
}

int
lookup_wait(struct lookup *l, const struct dns_query *q, const struct dns_target *target,
	uint64_t client, forward_fn *fn, void *arg)
{
	struct cache_key key;
	struct pending_query *fl;
	int rc = 0;

	cache_key_init(&key, q, target, client);
	fl = flight_find(l, &key);
	if (!client_quota_take(&l->share, client)) {
		lookup_add(&l->count->over_quota, 1);
		return -EBUSY;
	}
	if (fl != NULL) {
		lookup_add(&l->count->joined, 1);
	} else {
		lookup_add(&l->count->misses, 1);
		rc = lookup_start_query(l, q, target, &key, &fl);
	}
	if (rc == 0)
		lookup_join(fl, client, fn, arg);
	else
		client_quota_give(&l->share, client);
	return rc;
}
