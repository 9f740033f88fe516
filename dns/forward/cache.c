#include "dns/forward/cache.h"

#include <string.h>

#include "base/core/hash.h"

enum {
	KEY_NAME = 5, /* offset of the name in a key */
	KEY_DO = 0x80, /* DO, in the same octet as RD 0x01, AD 0x20 and CD 0x10 */
	TTLS_MAX = 256,
	MALLOC_BYTES = 16, /* malloc's overhead, roughly */
	SOA_FIXED = 20,
	GREEDY_PART = 4, /* a client is greedy with more than a quarter of what is protected */
};

struct entry {
	struct entry *chain;
	struct entry *older, *newer; /* least recently used order of its segment */
	uint64_t hash;
	uint64_t stored_ms, expires_ms;
	uint64_t rest_ms; /* stale; upstream is not asked before this time */
	uint16_t key_len, len, n_ttls; /* len 0: a remembered failure */
	uint8_t segment; /* PROBATION, or PROTECTED + the slot of a client */
	uint8_t bytes[]; /* the key, the answer, two octets for each TTL's offset in the answer */
};

/* A segmented LRU. An entry begins in PROBATION, which alone makes room for new ones: a flood of
 * names of which each is asked once evicts nothing but itself. An answer that is asked for again is
 * protected. What is protected is bounded, and shared as in stochastic fair queueing: there is a
 * segment for each of many slots, to which clients are hashed, and when all together are too large,
 * the least recently used entry of the largest goes back to probation. */
enum { PROBATION, PROTECTED, SLOTS = 128, SEGMENTS = PROTECTED + SLOTS };

struct segment {
	struct entry *oldest, *newest;
	size_t n, bytes;
};

struct cache {
	struct cache_limits limits, protected; /* the latter are three quarters */
	struct cache_limits held; /* by all segments */
	uint64_t seed;
	struct entry **buckets; /* allocated with the first entry */
	size_t n_buckets; /* a power of two */
	struct segment segments[SEGMENTS];
	uint64_t evicted;
};

void
cache_key_init(struct cache_key *key, const struct dns_query *q, const struct dns_target *target,
	uint64_t client)
{
	const uint8_t *name = target != NULL ? target->name : q->name;
	size_t len = target != NULL ? target->len : q->name_len;
	unsigned bits = (q->flags & DNS_FLAG_RD) >> 8 | (q->flags & (DNS_FLAG_AD | DNS_FLAG_CD));

	dns_put16(key->bytes, q->type);
	dns_put16(key->bytes + 2, target != NULL ? DNS_CLASS_IN : q->class);
	key->bytes[4] = (uint8_t)(bits | (q->edns_do ? KEY_DO : 0));
	for (size_t i = 0; i < len; i++) {
		uint8_t c = name[i];

		key->bytes[KEY_NAME + i] = c >= 'A' && c <= 'Z' ? (uint8_t)(c | 0x20) : c;
	}
	key->len = (uint16_t)(KEY_NAME + len);
	key->client = client;
}

void
cache_new(struct cache **out, const struct cache_limits *limits, uint64_t seed)
{
	struct cache *c = xcalloc(1, sizeof *c);

	c->limits = *limits;
	c->protected.entries = limits->entries - limits->entries / 4;
	c->protected.bytes = limits->bytes - limits->bytes / 4;
	c->seed = seed;
	c->n_buckets = 16;
	while (c->n_buckets < limits->entries)
		c->n_buckets *= 2;
	*out = c;
}

void
cache_free(struct cache **out)
{
	struct cache *c = take_ptr(out);

	if (c == NULL)
		return;
	for (size_t i = 0; i < SEGMENTS; i++) {
		struct entry *e = c->segments[i].oldest;

		while (e != NULL) {
			struct entry *newer = e->newer;

			free(e);
			e = newer;
		}
	}
	free(c->buckets);
	free(c);
}

/* --- the table ------------------------------------------------------------------------------ */

static struct entry **
bucket_of(const struct cache *c, uint64_t hash)
{
	return &c->buckets[hash & (c->n_buckets - 1)];
}

static struct entry *
cache_find_entry(const struct cache *c, const struct cache_key *key)
{
	uint64_t hash = hash64(key->bytes, key->len, c->seed);

	if (c->buckets == NULL)
		return NULL;
	for (struct entry *e = *bucket_of(c, hash); e != NULL; e = e->chain) {
		if (e->hash == hash && e->key_len == key->len &&
			memcmp(e->bytes, key->bytes, key->len) == 0)
			return e;
	}
	return NULL;
}

static size_t
entry_bytes(const struct entry *e)
{
	return MALLOC_BYTES + sizeof *e + e->key_len + e->len + 2u * e->n_ttls;
}

static void
segment_remove(struct cache *c, struct entry *e)
{
	struct segment *s = &c->segments[e->segment];

	if (e->older != NULL)
		e->older->newer = e->newer;
	else
		s->oldest = e->newer;
	if (e->newer != NULL)
		e->newer->older = e->older;
	else
		s->newest = e->older;
	s->n--;
	s->bytes -= entry_bytes(e);
}

static void
segment_add(struct cache *c, struct entry *e, unsigned id)
{
	struct segment *s = &c->segments[id];

	e->segment = (uint8_t)id;
	e->newer = NULL;
	e->older = s->newest;
	if (s->newest != NULL)
		s->newest->newer = e;
	else
		s->oldest = e;
	s->newest = e;
	s->n++;
	s->bytes += entry_bytes(e);
}

static bool
cache_gone(const struct entry *e, uint64_t now_ms)
{
	uint64_t beyond_ms = e->len > 0 ? CACHE_STALE_S * UINT64_C(1000) : 0;

	return now_ms >= e->expires_ms + beyond_ms;
}

/* The entry that is protected no longer when all together are too many. */
static struct entry *
cache_least_protected(const struct cache *c, uint64_t now_ms)
{
	const struct segment *largest = &c->segments[PROTECTED];

	for (const struct segment *s = largest; s < c->segments + SEGMENTS; s++) {
		if (s->oldest != NULL && cache_gone(s->oldest, now_ms))
			return s->oldest;
		if (s->bytes > largest->bytes)
			largest = s;
	}
	return largest->oldest;
}

static void
cache_protect(struct cache *c, struct entry *e, uint64_t client, uint64_t now_ms)
{
	const struct segment *probation = &c->segments[PROBATION];
	unsigned id = e->segment;

	/* Nobody draws into its own share what is safe in another's; but what a greedy client has
	 * taken, whoever uses it gets. */
	if (id == PROBATION || c->segments[id].bytes > c->protected.bytes / GREEDY_PART)
		id = PROTECTED + (unsigned)(hash64(&client, sizeof client, c->seed) % SLOTS);
	segment_remove(c, e);
	segment_add(c, e, id);
	while (c->held.entries - probation->n > c->protected.entries ||
		c->held.bytes - probation->bytes > c->protected.bytes) {
		e = cache_least_protected(c, now_ms);
		segment_remove(c, e);
		segment_add(c, e, PROBATION);
	}
}

static void
cache_drop(struct cache *c, struct entry *e)
{
	struct entry **at = bucket_of(c, e->hash);

	while (*at != e)
		at = &(*at)->chain;
	*at = e->chain;
	segment_remove(c, e);
	c->held.entries--;
	c->held.bytes -= entry_bytes(e);
	free(e);
}

/* Replaces the key's previous entry: an answer that is renewed was asked for again, here or at
 * another worker. */
static void
cache_keep(struct cache *c, const struct cache_key *key, struct entry *e)
{
	struct entry *old = cache_find_entry(c, key), **at;
	bool again = old != NULL && old->len > 0;
	unsigned id = old != NULL ? old->segment : PROBATION;

	if (old != NULL)
		cache_drop(c, old);
	if (c->buckets == NULL)
		c->buckets = xcalloc(c->n_buckets, sizeof(struct entry *));
	memcpy(e->bytes, key->bytes, key->len);
	e->key_len = key->len;
	e->hash = hash64(key->bytes, key->len, c->seed);
	at = bucket_of(c, e->hash);
	e->chain = *at;
	*at = e;
	segment_add(c, e, id);
	c->held.entries++;
	c->held.bytes += entry_bytes(e);
	if (again)
		cache_protect(c, e, key->client, e->stored_ms);
	while (cache_entries(c) > c->limits.entries || cache_bytes(c) > c->limits.bytes) {
		cache_drop(c, c->segments[PROBATION].oldest);
		c->evicted++;
	}
}

/* --- what may be kept ----------------------------------------------------------------------- */

struct walk {
	const uint8_t *m;
	size_t len;
	uint16_t type; /* asked for */
	bool positive, soa;
	uint32_t live_s; /* the shortest TTL */
	unsigned n;
	uint16_t at[TTLS_MAX]; /* offsets of TTLs */
	uint32_t ttl_s[TTLS_MAX]; /* their remaining time at most */
};

/* The SOA's limit for a negative answer: the smaller of its TTL and MINIMUM. */
static bool
soa_ttl(const struct walk *w, const struct dns_record *rr, uint32_t *ttl_s)
{
	size_t at = dns_name_skip(w->m, rr->end, rr->data);
	const uint8_t *minimum = w->m + rr->end - 4;

	at = at > 0 ? dns_name_skip(w->m, rr->end, at) : 0;
	if (at == 0 || rr->end - at != SOA_FIXED)
		return false;
	*ttl_s = MIN(*ttl_s, (uint32_t)dns_get16(minimum) << 16 | dns_get16(minimum + 2));
	return true;
}

static bool
walk_record(struct walk *w, unsigned section, const struct dns_record *rr)
{
	uint32_t ttl_s = dns_ttl_s(rr->ttl_s);

	if (rr->type == DNS_OPT)
		return section == DNS_SECTION_ADDITIONAL && rr->ttl_s >> 24 == 0;
	if (section == DNS_SECTION_ANSWER && rr->type == w->type)
		w->positive = true;
	if (section == DNS_SECTION_AUTHORITY && rr->type == DNS_SOA && !w->positive) {
		if (!soa_ttl(w, rr, &ttl_s))
			return false;
		ttl_s = MIN(ttl_s, (uint32_t)CACHE_NEGATIVE_MAX_S);
		w->soa = true;
	}
	if (w->n == TTLS_MAX || ttl_s == 0)
		return false;
	w->at[w->n] = (uint16_t)(rr->data - 6);
	w->ttl_s[w->n++] = ttl_s;
	w->live_s = MIN(w->live_s, ttl_s);
	return true;
}

static bool
cache_walk(struct walk *w, size_t at)
{
	for (unsigned section = 0; section < 3; section++) {
		for (unsigned i = dns_get16(w->m + 6 + 2 * section); i > 0; i--) {
			struct dns_record rr;

			if (!dns_record_read(&rr, w->m, w->len, at) ||
				!walk_record(w, section, &rr))
				return false;
			at = rr.end;
		}
	}
	return true;
}

static bool
answers_key(const struct cache_key *key, const uint8_t *m, size_t len)
{
	size_t name_len = key->len - (size_t)KEY_NAME;

	return len >= DNS_HEADER + name_len + 4 && (m[2] & 0x80) && !(m[2] & DNS_FLAG_TC >> 8) &&
		dns_get16(m + 4) == 1 &&
		dns_name_equal(m + DNS_HEADER, key->bytes + KEY_NAME, name_len) &&
		memcmp(m + DNS_HEADER + name_len, key->bytes, 4) == 0;
}

bool
cache_put(struct cache *c, const struct cache_key *key, const uint8_t *answer, size_t len,
	uint64_t now_ms)
{
	struct walk w = {.m = answer, .len = len, .type = dns_get16(key->bytes)};
	unsigned rcode = len >= DNS_HEADER ? answer[3] & 15u : DNS_SERVFAIL;
	struct entry *e;
	uint8_t *copy;

	if ((rcode != DNS_NOERROR && rcode != DNS_NXDOMAIN) || !answers_key(key, answer, len))
		return false;
	w.live_s = CACHE_TTL_MAX_S;
	if (len > CACHE_ANSWER_MAX || w.type >= DNS_TKEY ||
		!cache_walk(&w, DNS_HEADER + (key->len - (size_t)KEY_NAME) + 4) ||
		!(w.positive || w.soa)) {
		/* It is newer all the same, so the old entry must not even be used as stale. */
		e = cache_find_entry(c, key);
		if (e != NULL)
			cache_drop(c, e);
		return false;
	}
	e = xcalloc(1, sizeof *e + key->len + len + 2u * w.n);
	e->stored_ms = now_ms;
	e->expires_ms = now_ms + w.live_s * UINT64_C(1000);
	e->len = (uint16_t)len;
	e->n_ttls = (uint16_t)w.n;
	copy = e->bytes + key->len;
	memcpy(copy, answer, len);
	copy[2] &= (uint8_t) ~(DNS_FLAG_AA >> 8); /* not authoritative once it is cached */
	for (unsigned i = 0; i < w.n; i++) {
		dns_put32(copy + w.at[i], w.ttl_s[i]);
		dns_put16(copy + len + 2u * i, w.at[i]);
	}
	cache_keep(c, key, e);
	return true;
}

void
cache_fail(struct cache *c, const struct cache_key *key, uint64_t now_ms)
{
	struct entry *e = cache_find_entry(c, key);

	if (e != NULL && e->len > 0) {
		e->rest_ms = now_ms + CACHE_FAILED_MS;
		return;
	}
	e = xcalloc(1, sizeof *e + key->len);
	e->stored_ms = now_ms;
	e->expires_ms = now_ms + CACHE_FAILED_MS;
	cache_keep(c, key, e);
}

/* --- look-up -------------------------------------------------------------------------------- */

static void
copy_out(const struct entry *e, uint64_t now_ms, struct cache_answer *answer)
{
	const uint8_t *m = e->bytes + e->key_len, *offsets = m + e->len;
	uint32_t age_s = (uint32_t)((now_ms - e->stored_ms) / 1000);

	answer->len = e->len;
	memcpy(answer->bytes, m, e->len);
	for (unsigned i = 0; i < e->n_ttls; i++) {
		uint8_t *p = answer->bytes + dns_get16(offsets + 2u * i);
		uint32_t ttl_s = (uint32_t)dns_get16(p) << 16 | dns_get16(p + 2);

		dns_put32(p, now_ms < e->expires_ms ? ttl_s - age_s : CACHE_STALE_TTL_S);
	}
}

enum cache_state
cache_find(
	struct cache *c, const struct cache_key *key, uint64_t now_ms, struct cache_answer *answer)
{
	struct entry *e = cache_find_entry(c, key);

	answer->len = 0;
	if (e == NULL)
		return CACHE_MISS;
	if (cache_gone(e, now_ms)) {
		cache_drop(c, e);
		return CACHE_MISS;
	}
	if (e->len == 0)
		return CACHE_FAILED;
	cache_protect(c, e, key->client, now_ms);
	copy_out(e, now_ms, answer);
	if (now_ms < e->expires_ms)
		return CACHE_FRESH;
	return now_ms < e->rest_ms ? CACHE_STALE_BACKOFF : CACHE_STALE;
}

bool
cache_has_stale(const struct cache *c, const struct cache_key *key, uint64_t now_ms)
{
	const struct entry *e = cache_find_entry(c, key);

	return e != NULL && e->len > 0 && now_ms >= e->expires_ms && !cache_gone(e, now_ms);
}

void
cache_expire(struct cache *c, uint64_t now_ms)
{
	for (size_t i = 0; i < SEGMENTS; i++) {
		for (struct entry *e = c->segments[i].oldest; e != NULL; e = e->newer) {
			e->expires_ms = MIN(e->expires_ms, now_ms);
			e->rest_ms = 0;
		}
	}
}

size_t
cache_entries(const struct cache *c)
{
	return c->held.entries;
}

size_t
cache_bytes(const struct cache *c)
{
	return c->held.bytes;
}

uint64_t
cache_evicted(const struct cache *c)
{
	return c->evicted;
}
