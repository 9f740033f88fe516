/*
 * Cache of upstream answers, kept as long as their TTLs allow: pure and bounded, no I/O, the caller
 * supplies the clock. One per worker, used on its loop only. RFC 2308 (the SOA limits negative
 * answers), RFC 8767 (an expired answer is kept for a day, in case no upstream responds), RFC 9520
 * (failures are remembered for a second), RFC 2181 8 (TTLs above 2^31 are 0).
 *
 * Entries are whole messages as upstream sent them, with the offsets of their TTLs, so that a hit
 * is one copy with the TTLs counted down; dns/forward/rewrite turns it into a client's answer. Not
 * cached: answers to another question, truncated answers, answers with TTL 0, rcodes other than
 * NOERROR and NXDOMAIN, negative answers without SOA.
 *
 * The least recently used entries are evicted, those first that nobody has asked for again, then
 * those of the client that has most: one client's flood of random names does not evict what others
 * use, nor its expired copies, however often it asks for each.
 *
 *	cache_new(&c, &limits, seed);
 *	cache_key_init(&key, &query, NULL, client);
 *	if (cache_find(c, &key, now_ms, &answer) != CACHE_FRESH)
 *		... ask, then cache_put(c, &key, bytes, len, now_ms) or cache_fail(c, &key, now_ms)
 */
#ifndef EDGEWAY_DNS_FORWARD_CACHE_H
#define EDGEWAY_DNS_FORWARD_CACHE_H

#include "dns/answer/answer.h"

enum {
	CACHE_ANSWER_MAX = 4096, /* larger answers are not cached */
	CACHE_TTL_MAX_S = DNS_TTL_MAX_S,
	CACHE_NEGATIVE_MAX_S = 3 * 3600, /* RFC 2308 5 */
	CACHE_STALE_S = 86400, /* kept after the TTL has expired */
	CACHE_STALE_TTL_S = 30, /* the TTL in a stale answer, RFC 8767 4 */
	CACHE_FAILED_MS = 1000, /* RFC 9520: at least 1 s, at most 5 min */
};

/* Type, class, the other bits of the query that change the answer (RD, AD, CD, DO), and the name in
 * lower case. `client` asks (dns_client_key, 0: nobody): the answer is the same for all, but takes
 * of the client's share. */
struct cache_key {
	uint64_t client;
	uint16_t len;
	uint8_t bytes[5 + DNS_NAME_MAX];
};

/* Key of the question that upstream gets for `q`: its own, or the target's (unless NULL). */
void cache_key_init(struct cache_key *key, const struct dns_query *q,
	const struct dns_target *target, uint64_t client);

struct cache_limits {
	size_t entries, bytes;
};

struct cache_answer {
	size_t len;
	uint8_t bytes[CACHE_ANSWER_MAX];
};

enum cache_state {
	CACHE_MISS,
	CACHE_FRESH, /* the answer, with its remaining TTLs */
	CACHE_FAILED, /* no upstream answered a moment ago; no bytes */
	CACHE_STALE, /* expired: to be used if no upstream answers */
	CACHE_STALE_BACKOFF, /* stale, and no upstream answered a moment ago */
};

struct cache;

void cache_new(struct cache **c, const struct cache_limits *limits, uint64_t seed);
void cache_free(struct cache **c);

/* `answer` is filled unless the state is CACHE_MISS or CACHE_FAILED (len 0). */
enum cache_state cache_find(
	struct cache *c, const struct cache_key *key, uint64_t now_ms, struct cache_answer *answer);
/* Whether there is an expired answer. */
bool cache_has_stale(const struct cache *c, const struct cache_key *key, uint64_t now_ms);
/* False: the answer is not cached. The previous entry then stays only if `answer` is no valid
 * answer to this question. */
bool cache_put(struct cache *c, const struct cache_key *key, const uint8_t *answer, size_t len,
	uint64_t now_ms);
/* Records that no upstream answered this question. An older answer is kept. */
void cache_fail(struct cache *c, const struct cache_key *key, uint64_t now_ms);

/* From now on all answers are stale. */
void cache_expire(struct cache *c, uint64_t now_ms);

size_t cache_entries(const struct cache *c);
size_t cache_bytes(const struct cache *c);
uint64_t cache_evicted(const struct cache *c);

#endif
