#include "tunnel/udp/flows.h"

#include <assert.h>
#include <string.h>

#include "base/core/hash.h"

enum { BUCKETS = 1024 };

TAILQ_HEAD(flow_ring, flow_entry);

struct flow_source {
	LIST_ENTRY(flow_source) same;
	struct in6_addr client;
	struct flow_ring flows; /* longest idle first */
	unsigned n;
};

struct flows {
	struct flows_limits limits;
	LIST_HEAD(, flow_entry) buckets[BUCKETS];
	LIST_HEAD(, flow_source) sources[BUCKETS];
	struct flow_ring ages[FLOW_CLASSES]; /* longest idle first */
	unsigned n;
	uint64_t seed;
};

struct flows *
flows_new(const struct flows_limits *limits)
{
	struct flows *f = xcalloc(1, sizeof *f);

	f->limits = *limits;
	for (unsigned c = 0; c < FLOW_CLASSES; c++)
		TAILQ_INIT(&f->ages[c]);
	/* clients choose the keys, so the hash needs a secret seed */
	random_bytes(&f->seed, sizeof f->seed);
	return f;
}

void
flows_free(struct flows **f)
{
	struct flows *old = take_ptr(f);

	assert(old == NULL || old->n == 0);
	free(old);
}

static size_t
flows_bucket(const struct flows *f, const struct flow_key *key)
{
	return hash64(key, sizeof *key, f->seed) % BUCKETS;
}

static size_t
source_bucket(const struct flows *f, const struct in6_addr *client)
{
	return hash64(client, sizeof *client, f->seed) % BUCKETS;
}

struct flow_entry *
flows_find(const struct flows *f, const struct flow_key *key)
{
	struct flow_entry *e;

	LIST_FOREACH(e, &f->buckets[flows_bucket(f, key)], same)
		if (memcmp(&e->key, key, sizeof *key) == 0)
			return e;
	return NULL;
}

static struct flow_source *
find_source(const struct flows *f, const struct in6_addr *client)
{
	struct flow_source *s;

	LIST_FOREACH(s, &f->sources[source_bucket(f, client)], same)
		if (memcmp(&s->client, client, sizeof *client) == 0)
			return s;
	return NULL;
}

struct flow_entry *
flows_victim(const struct flows *f, const struct flow_key *key)
{
	const struct flow_source *s = find_source(f, &key->client);
	struct flow_entry *oldest = NULL;

	if (s != NULL && s->n >= f->limits.of_source)
		return TAILQ_FIRST(&s->flows);
	if (f->n < f->limits.most)
		return NULL;
	if (!TAILQ_EMPTY(&f->ages[FLOW_REFUSED]))
		return TAILQ_FIRST(&f->ages[FLOW_REFUSED]);
	for (unsigned c = 0; c < FLOW_CLASSES; c++) {
		struct flow_entry *e = TAILQ_FIRST(&f->ages[c]);

		if (e != NULL && (oldest == NULL || e->moved_ms < oldest->moved_ms))
			oldest = e;
	}
	return oldest;
}

void
flows_add(struct flows *f, struct flow_entry *e, const struct flow_key *key, uint64_t now_ms)
{
	struct flow_source *s = find_source(f, &key->client);

	if (s == NULL) {
		s = xcalloc(1, sizeof *s);
		s->client = key->client;
		TAILQ_INIT(&s->flows);
		LIST_INSERT_HEAD(&f->sources[source_bucket(f, &s->client)], s, same);
	}
	e->key = *key;
	e->source = s;
	e->class = FLOW_LASTING;
	e->moved_ms = now_ms;
	TAILQ_INSERT_TAIL(&s->flows, e, of);
	s->n++;
	TAILQ_INSERT_TAIL(&f->ages[e->class], e, age);
	LIST_INSERT_HEAD(&f->buckets[flows_bucket(f, key)], e, same);
	f->n++;
}

void
flows_touch(struct flows *f, struct flow_entry *e, enum flow_class class, uint64_t now_ms)
{
	TAILQ_REMOVE(&f->ages[e->class], e, age);
	TAILQ_REMOVE(&e->source->flows, e, of);
	e->class = class;
	e->moved_ms = now_ms;
	TAILQ_INSERT_TAIL(&f->ages[class], e, age);
	TAILQ_INSERT_TAIL(&e->source->flows, e, of);
}

void
flows_remove(struct flows *f, struct flow_entry *e)
{
	struct flow_source *s = take_ptr(&e->source);

	LIST_REMOVE(e, same);
	TAILQ_REMOVE(&f->ages[e->class], e, age);
	TAILQ_REMOVE(&s->flows, e, of);
	f->n--;
	if (--s->n > 0)
		return;
	LIST_REMOVE(s, same);
	free(s);
}

struct flow_entry *
flows_expired(const struct flows *f, uint64_t now_ms)
{
	for (unsigned c = 0; c < FLOW_CLASSES; c++) {
		struct flow_entry *e = TAILQ_FIRST(&f->ages[c]);

		if (e != NULL && now_ms - e->moved_ms >= f->limits.idle_ms[c])
			return e;
	}
	return NULL;
}

void
flows_hurry(struct flows *f, uint64_t idle_ms)
{
	for (unsigned c = 0; c < FLOW_CLASSES; c++)
		f->limits.idle_ms[c] = MIN(f->limits.idle_ms[c], idle_ms);
}

unsigned
flows_count(const struct flows *f)
{
	return f->n;
}

struct flow_entry *
flows_next(const struct flows *f, const struct flow_entry *e)
{
	unsigned c = 0;

	if (e != NULL) {
		if (TAILQ_NEXT(e, age) != NULL)
			return TAILQ_NEXT(e, age);
		c = e->class + 1;
	}
	for (; c < FLOW_CLASSES; c++)
		if (!TAILQ_EMPTY(&f->ages[c]))
			return TAILQ_FIRST(&f->ages[c]);
	return NULL;
}
