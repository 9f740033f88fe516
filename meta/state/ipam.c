#include "meta/state/ipam.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/core/hash.h"

struct entry {
	struct entry *next_key, *next_ip; /* chains of the two tables */
	struct entry *prev, *next; /* resting entries, longest released first */
	uint64_t freed_at_ms;
	uint32_t ip;
	bool resting;
	char key[];
};

/*
 * Entries outlive their services while their addresses rest. Allocated between a service's other
 * memory, each would keep a heap page from being freed; so entries with short keys have their own
 * blocks.
 */
enum { SLOT_BYTES = 96, BLOCK_SLOTS = 512 };

union slot {
	union slot *next; /* free */
	struct entry entry;
	char bytes[SLOT_BYTES];
};

struct block {
	struct block *next;
	union slot slots[BLOCK_SLOTS];
};

struct ipam {
	struct block *blocks;
	union slot *free_slots;
	uint32_t subnet; /* network address, never given */
	uint32_t size; /* addresses that can be given: subnet + 1 .. subnet + size */
	uint64_t last_ms;
	size_t used, resting;
	struct entry *head, *tail;
	size_t buckets; /* power of two */
	struct entry **by_key, **by_ip;
};

static size_t
key_slot(const struct ipam *ipam, const char *key)
{
	return hash64(key, strlen(key), 0) & (ipam->buckets - 1);
}

static size_t
ip_slot(const struct ipam *ipam, uint32_t ip)
{
	return ip & (ipam->buckets - 1);
}

static void
link_entry(struct ipam *ipam, struct entry *e)
{
	size_t k = key_slot(ipam, e->key), i = ip_slot(ipam, e->ip);

	e->next_key = ipam->by_key[k];
	ipam->by_key[k] = e;
	e->next_ip = ipam->by_ip[i];
	ipam->by_ip[i] = e;
}

static void
ipam_grow(struct ipam *ipam)
{
	struct entry **old = ipam->by_key;
	size_t n = ipam->buckets;

	if (ipam->used + ipam->resting < n)
		return;
	free(ipam->by_ip);
	ipam->buckets = n * 2;
	ipam->by_key = xcalloc(ipam->buckets, sizeof(*ipam->by_key));
	ipam->by_ip = xcalloc(ipam->buckets, sizeof(*ipam->by_ip));
	for (size_t i = 0; i < n; i++) {
		for (struct entry *e = old[i], *next; e != NULL; e = next) {
			next = e->next_key;
			link_entry(ipam, e);
		}
	}
	free(old);
}

static struct entry *
find_key(const struct ipam *ipam, const char *key)
{
	struct entry *e = ipam->by_key[key_slot(ipam, key)];

	while (e != NULL && strcmp(e->key, key) != 0)
		e = e->next_key;
	return e;
}

static struct entry *
find_ip(const struct ipam *ipam, uint32_t ip)
{
	struct entry *e = ipam->by_ip[ip_slot(ipam, ip)];

	while (e != NULL && e->ip != ip)
		e = e->next_ip;
	return e;
}

static bool
has_slot(size_t key_len)
{
	return sizeof(struct entry) + key_len + 1 <= SLOT_BYTES;
}

static struct entry *
entry_new(struct ipam *ipam, size_t key_len)
{
	union slot *slot = ipam->free_slots;
	struct block *block;

	if (!has_slot(key_len))
		return xcalloc(1, sizeof(struct entry) + key_len + 1);
	if (slot == NULL) {
		block = xcalloc(1, sizeof(*block));
		block->next = ipam->blocks;
		ipam->blocks = block;
		for (slot = block->slots; slot < block->slots + BLOCK_SLOTS - 1; slot++)
			slot->next = slot + 1;
		slot = block->slots;
	}
	ipam->free_slots = slot->next;
	memset(slot, 0, sizeof(*slot));
	return &slot->entry;
}

static void
entry_free(struct ipam *ipam, struct entry *e)
{
	union slot *slot;

	if (!has_slot(strlen(e->key))) {
		free(e);
		return;
	}
	slot = container_of(e, union slot, entry);
	slot->next = ipam->free_slots;
	ipam->free_slots = slot;
}

static struct entry *
ipam_add(struct ipam *ipam, const char *key, uint32_t ip)
{
	size_t len = strlen(key);
	struct entry *e = entry_new(ipam, len);

	ipam_grow(ipam);
	memcpy(e->key, key, len);
	e->ip = ip;
	link_entry(ipam, e);
	ipam->used++;
	return e;
}

static void
ipam_rest(struct ipam *ipam, struct entry *e, uint64_t now_ms)
{
	assert(!e->resting);
	e->resting = true;
	e->freed_at_ms = now_ms;
	e->next = NULL;
	e->prev = ipam->tail;
	if (ipam->tail != NULL)
		ipam->tail->next = e;
	else
		ipam->head = e;
	ipam->tail = e;
	ipam->used--;
	ipam->resting++;
}

static void
ipam_wake(struct ipam *ipam, struct entry *e)
{
	assert(e->resting);
	*(e->prev != NULL ? &e->prev->next : &ipam->head) = e->next;
	*(e->next != NULL ? &e->next->prev : &ipam->tail) = e->prev;
	e->prev = e->next = NULL;
	e->resting = false;
	ipam->used++;
	ipam->resting--;
}

/* The entry must not be resting. */
static void
ipam_drop(struct ipam *ipam, struct entry *e)
{
	struct entry **p = &ipam->by_key[key_slot(ipam, e->key)];

	while (*p != e)
		p = &(*p)->next_key;
	*p = e->next_key;
	p = &ipam->by_ip[ip_slot(ipam, e->ip)];
	while (*p != e)
		p = &(*p)->next_ip;
	*p = e->next_ip;
	ipam->used--;
	entry_free(ipam, e);
}

/* The clock went backwards: nothing can have been released in the future, so such addresses rest
 * from now on. */
static void
ipam_tick(struct ipam *ipam, uint64_t now_ms)
{
	if (now_ms < ipam->last_ms) {
		for (struct entry *e = ipam->head; e != NULL; e = e->next)
			e->freed_at_ms = MIN(e->freed_at_ms, now_ms);
	}
	ipam->last_ms = now_ms;
}

static bool
ipam_rested(const struct entry *e, uint64_t now_ms)
{
	return now_ms >= e->freed_at_ms && now_ms - e->freed_at_ms >= IPAM_REST_MS;
}

static bool
can_give(const struct ipam *ipam, uint32_t ip)
{
	return ip > ipam->subnet && ip - ipam->subnet <= ipam->size;
}

int
ipam_new(struct ipam **out, uint32_t subnet, uint32_t mask, struct err *err)
{
	struct ipam *ipam;

	if (~mask < 3)
		return err_set(err, EINVAL,
			"the mesh's subnet holds no address to give: at least /30 is needed");
	ipam = xcalloc(1, sizeof(*ipam));
	ipam->subnet = subnet & mask;
	ipam->size = ~mask - 1;
	ipam->buckets = 256;
	ipam->by_key = xcalloc(ipam->buckets, sizeof(*ipam->by_key));
	ipam->by_ip = xcalloc(ipam->buckets, sizeof(*ipam->by_ip));
	*out = ipam;
	return 0;
}

void
ipam_free(struct ipam **out)
{
	struct ipam *ipam = take_ptr(out);

	if (ipam == NULL)
		return;
	for (size_t i = 0; i < ipam->buckets; i++) {
		for (struct entry *e = ipam->by_key[i], *next; e != NULL; e = next) {
			next = e->next_key;
			entry_free(ipam, e);
		}
	}
	while (ipam->blocks != NULL) {
		struct block *b = ipam->blocks;

		ipam->blocks = b->next;
		free(b);
	}
	free(ipam->by_key);
	free(ipam->by_ip);
	free(ipam);
}

int
ipam_put(struct ipam *ipam, const char *key, uint32_t ip)
{
	if (!can_give(ipam, ip))
		return -ERANGE;
	if (find_ip(ipam, ip) != NULL || find_key(ipam, key) != NULL)
		return -EEXIST;
	ipam_add(ipam, key, ip);
	return 0;
}

int
ipam_put_resting(
	struct ipam *ipam, const char *key, uint32_t ip, uint64_t freed_at_ms, uint64_t now_ms)
{
	int rc = ipam_put(ipam, key, ip);

	if (rc == 0)
		ipam_rest(ipam, find_key(ipam, key), MIN(freed_at_ms, now_ms));
	return rc;
}

/* The first address, from the name's own choice on, that has no owner and no previous owner; 0:
 * none. */
static uint32_t
ipam_fresh(const struct ipam *ipam, const char *key)
{
	uint32_t at = (uint32_t)(hash64(key, strlen(key), 0) % ipam->size);

	if (ipam->used + ipam->resting >= ipam->size)
		return 0;
	for (uint32_t i = 0; i < ipam->size; i++) {
		uint32_t ip = ipam->subnet + 1 + at;

		if (find_ip(ipam, ip) == NULL)
			return ip;
		at = at + 1 < ipam->size ? at + 1 : 0;
	}
	return 0;
}

int
ipam_take(struct ipam *ipam, const char *key, uint64_t now_ms, uint32_t *ip)
{
	struct entry *e = find_key(ipam, key), *oldest = ipam->head;

	ipam_tick(ipam, now_ms);
	if (e != NULL) {
		if (e->resting)
			ipam_wake(ipam, e);
		*ip = e->ip;
		return 0;
	}
	*ip = ipam_fresh(ipam, key);
	if (*ip == 0) {
		if (oldest == NULL || !ipam_rested(oldest, now_ms))
			return -ENOSPC;
		*ip = oldest->ip;
		ipam_wake(ipam, oldest);
		ipam_drop(ipam, oldest);
	}
	ipam_add(ipam, key, *ip);
	return 0;
}

uint32_t
ipam_release(struct ipam *ipam, const char *key, uint64_t now_ms)
{
	struct entry *e = find_key(ipam, key);

	ipam_tick(ipam, now_ms);
	if (e == NULL || e->resting)
		return 0;
	ipam_rest(ipam, e, now_ms);
	return e->ip;
}

void
ipam_each_resting(const struct ipam *ipam, ipam_resting_fn *fn, void *arg)
{
	for (const struct entry *e = ipam->head; e != NULL; e = e->next)
		fn(arg, e->key, e->ip, e->freed_at_ms);
}

uint32_t
ipam_trim(struct ipam *ipam, uint64_t now_ms)
{
	struct entry *e = ipam->head;
	uint32_t ip;

	ipam_tick(ipam, now_ms);
	if (ipam->resting <= IPAM_RESTING_MAX || !ipam_rested(e, now_ms))
		return 0;
	ip = e->ip;
	ipam_wake(ipam, e);
	ipam_drop(ipam, e);
	return ip;
}

uint32_t
ipam_find(const struct ipam *ipam, const char *key)
{
	const struct entry *e = find_key(ipam, key);

	return e != NULL && !e->resting ? e->ip : 0;
}

struct ipam_counts
ipam_count(const struct ipam *ipam)
{
	return (struct ipam_counts){.size = ipam->size,
		.used = ipam->used,
		.resting = ipam->resting,
		.free = ipam->size - ipam->used - ipam->resting};
}
