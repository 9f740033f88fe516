/*
 * What upstreams answered, for as long as their TTLs allow: pure and bounded, no I/O, the caller
 * gives the clock. One per worker, used on its loop only. RFC 2308 (negative answers live by their
 * SOA), RFC 8767 (an expired answer is kept a day for when no upstream responds), RFC 9520
 * (failures are remembered for a second), RFC 2181 8 (TTLs above 2^31 are 0).
 *
 * Kept are whole messages as they came from upstream, with the offsets of their TTLs, so that a hit
 * is one copy with the TTLs counted down; dns/forward/rewrite makes a client's answer of it. Not
 * kept: answers to another question, truncated ones, with TTL 0, other rcodes than NOERROR and
 * NXDOMAIN, negative ones without SOA. The least recently used make room.
 *
 *	cache_new(&c, &limits, seed);
 *	cache_key_init(&key, &query, NULL);
 *	if (cache_find(c, &key, now_ms, &answer) != CACHE_FRESH)
 *		... ask, then cache_put(c, &key, bytes, len, now_ms) or cache_fail(c, &key, now_ms)
 */
#ifndef EDGEWAY_DNS_FORWARD_CACHE_H
#define EDGEWAY_DNS_FORWARD_CACHE_H

#include "dns/answer/answer.h"

enum {
	CACHE_ANSWER_MAX = 4096, /* bytes of an answer worth keeping */
	CACHE_TTL_MAX_S = DNS_TTL_MAX_S,
	CACHE_NEGATIVE_MAX_S = 3 * 3600, /* RFC 2308 5 */
	CACHE_STALE_S = 86400, /* kept beyond the TTL */
	CACHE_STALE_TTL_S = 30, /* what a stale answer says, RFC 8767 4 */
	CACHE_FAILED_MS = 1000, /* RFC 9520: at least 1 s, at most 5 min */
};

/* Type, class and what else of the query changes the answer (RD, AD, CD, DO), name in lower
 * case. */
struct cache_key {
	uint16_t len;
	uint8_t bytes[5 + DNS_NAME_MAX];
};

/* Of what upstream is asked for `q`: its question, or the target's (unless NULL). */
void cache_key_init(
	struct cache_key *key, const struct dns_query *q, const struct dns_target *target);

struct cache_limits {
	size_t entries, bytes;
};

struct cache_answer {
	size_t len;
	uint8_t bytes[CACHE_ANSWER_MAX];
};

enum cache_state {
	CACHE_MISS,
	CACHE_FRESH, /* the answer with the TTLs that are left */
	CACHE_FAILED, /* no upstream had an answer a moment ago; no bytes */
	CACHE_STALE, /* expired: good if no upstream answers */
	CACHE_RESTING, /* stale, and no upstream had an answer a moment ago */
};

struct cache;

void cache_new(struct cache **c, const struct cache_limits *limits, uint64_t seed);
void cache_free(struct cache **c);

/* `answer` is filled unless the state is CACHE_MISS or CACHE_FAILED (len 0). */
enum cache_state cache_find(
	struct cache *c, const struct cache_key *key, uint64_t now_ms, struct cache_answer *answer);
/* Whether an expired answer is there. */
bool cache_has_stale(const struct cache *c, const struct cache_key *key, uint64_t now_ms);
/* False: not one to be kept. What was there stays only if this is no answer at all. */
bool cache_put(struct cache *c, const struct cache_key *key, const uint8_t *answer, size_t len,
	uint64_t now_ms);
/* No upstream answers this question. An old answer is kept. */
void cache_fail(struct cache *c, const struct cache_key *key, uint64_t now_ms);

/* From now on all answers are stale. */
void cache_expire(struct cache *c, uint64_t now_ms);

size_t cache_entries(const struct cache *c);
size_t cache_bytes(const struct cache *c);
uint64_t cache_evicted(const struct cache *c);

#endif
