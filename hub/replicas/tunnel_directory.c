#include "hub/replicas/tunnel_directory.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/queue.h>

#include "base/core/hash.h"

enum { BUCKETS = 4096 };

struct claim {
	LIST_ENTRY(claim) of_node, of_peer;
	struct tunnel_directory_peer *peer;
	struct known *node;
	uint64_t epoch; /* 0: no tunnel, but the replica reports the node as joined */
	bool joined;
};

LIST_HEAD(claims, claim);

struct known {
	LIST_ENTRY(known) link; /* chain of the bucket */
	/* few: one per replica that has the node's tunnel, or knows its certificate */
	struct claims claims;
	uint64_t lost_ms; /* 0: never */
	uint64_t heard_ms; /* last report, or end of the last claim; used without claims */
	char name[];
};

struct tunnel_directory_peer {
	struct tunnel_directory *roster;
	void *owner;
	const char *id;
	struct claims claims;
	size_t n; /* claims with an epoch */
	bool suspended;
};

struct tunnel_directory {
	LIST_HEAD(, known) buckets[BUCKETS];
	size_t n, n_peers;
};

struct tunnel_directory *
tunnel_directory_new(void)
{
	return xcalloc(1, sizeof(struct tunnel_directory));
}

void
tunnel_directory_free(struct tunnel_directory **out)
{
	struct tunnel_directory *r = take_ptr(out);

	if (r == NULL)
		return;
	assert(r->n_peers == 0);
	for (size_t i = 0; i < BUCKETS; i++) {
		struct known *k;

		while ((k = LIST_FIRST(&r->buckets[i])) != NULL) {
			LIST_REMOVE(k, link);
			free(k);
		}
	}
	free(r);
}

static struct known *
tunnel_directory_find(const struct tunnel_directory *r, const char *node)
{
	struct known *k;

	LIST_FOREACH(k, &r->buckets[hash64(node, strlen(node), 0) % BUCKETS], link) {
		if (strcmp(k->name, node) == 0)
			return k;
	}
	return NULL;
}

/* Finds or adds the node. NULL: too many. */
static struct known *
tunnel_directory_know(struct tunnel_directory *r, const char *node, uint64_t now_ms)
{
	size_t len = strlen(node) + 1;
	struct known *k = tunnel_directory_find(r, node);

	if (k != NULL)
		k->heard_ms = now_ms;
	if (k != NULL || r->n >= TUNNEL_DIRECTORY_NODES_MAX)
		return k;
	k = xcalloc(1, sizeof *k + len);
	k->heard_ms = now_ms;
	memcpy(k->name, node, len);
	LIST_INSERT_HEAD(&r->buckets[hash64(node, len - 1, 0) % BUCKETS], k, link);
	r->n++;
	return k;
}

static struct claim *
claim_of(const struct known *k, const struct tunnel_directory_peer *p)
{
	struct claim *c;

	LIST_FOREACH(c, &k->claims, of_node) {
		if (c->peer == p)
			return c;
	}
	return NULL;
}

static void
set_epoch(struct claim *c, uint64_t epoch)
{
	c->peer->n += (epoch != 0) - (c->epoch != 0);
	c->epoch = epoch;
}

static void
drop_claim(struct claim *c, uint64_t now_ms)
{
	c->node->heard_ms = now_ms;
	set_epoch(c, 0);
	LIST_REMOVE(c, of_node);
	LIST_REMOVE(c, of_peer);
	free(c);
}

/* The replica no longer has this tunnel. */
static void
end_claim(struct claim *c, uint64_t now_ms)
{
	if (c->epoch != 0)
		c->node->lost_ms = now_ms;
	if (c->joined)
		set_epoch(c, 0);
	else
		drop_claim(c, now_ms);
}

/* Finds or adds the claim. NULL: too many. */
static struct claim *
use_claim(struct tunnel_directory_peer *p, const char *node, uint64_t now_ms)
{
	struct known *k = tunnel_directory_know(p->roster, node, now_ms);
	struct claim *c = k != NULL ? claim_of(k, p) : NULL;

	if (k == NULL || c != NULL)
		return c;
	c = xcalloc(1, sizeof *c);
	c->peer = p;
	c->node = k;
	LIST_INSERT_HEAD(&k->claims, c, of_node);
	LIST_INSERT_HEAD(&p->claims, c, of_peer);
	return c;
}

struct tunnel_directory_peer *
tunnel_directory_join(struct tunnel_directory *r, void *owner, const char *id)
{
	struct tunnel_directory_peer *p = xcalloc(1, sizeof *p);

	p->roster = r;
	p->owner = owner;
	p->id = id;
	r->n_peers++;
	return p;
}

void
tunnel_directory_leave(struct tunnel_directory_peer **out, uint64_t now_ms, bool taken_over)
{
	struct tunnel_directory_peer *p = take_ptr(out);
	struct claim *c;

	if (p == NULL)
		return;
	while ((c = LIST_FIRST(&p->claims)) != NULL) {
		if (!taken_over && c->epoch != 0)
			c->node->lost_ms = now_ms;
		drop_claim(c, now_ms);
	}
	p->roster->n_peers--;
	free(p);
}

int
tunnel_directory_claim(
	struct tunnel_directory_peer *p, const char *node, uint64_t epoch, uint64_t now_ms)
{
	struct claim *c;

	if (epoch == 0) {
		const struct known *k = tunnel_directory_find(p->roster, node);

		c = k != NULL ? claim_of(k, p) : NULL;
		if (c != NULL)
			end_claim(c, now_ms);
		return 0;
	}
	c = use_claim(p, node, now_ms);
	if (c == NULL)
		return -ENOSPC;
	set_epoch(c, epoch);
	return 0;
}

void
tunnel_directory_doubt(
	struct tunnel_directory *r, const char *node, uint64_t epoch, uint64_t now_ms)
{
	struct known *k = tunnel_directory_find(r, node);
	struct claim *c, *next;

	for (c = k != NULL ? LIST_FIRST(&k->claims) : NULL; c != NULL; c = next) {
		next = LIST_NEXT(c, of_node);
		if (c->epoch != epoch)
			continue;
		end_claim(c, now_ms);
	}
}

int
tunnel_directory_note(struct tunnel_directory_peer *p, const char *node, uint64_t now_ms)
{
	struct claim *c = use_claim(p, node, now_ms);

	if (c == NULL)
		return -ENOSPC;
	c->joined = true;
	return 0;
}

size_t
tunnel_directory_forget(struct tunnel_directory *r, uint64_t now_ms,
	bool (*wanted)(void *arg, const char *node), void *arg)
{
	size_t before = r->n;

	for (size_t i = 0; i < BUCKETS; i++) {
		struct known *k, *next;

		for (k = LIST_FIRST(&r->buckets[i]); k != NULL; k = next) {
			next = LIST_NEXT(k, link);
			if (!LIST_EMPTY(&k->claims) ||
				now_ms - k->heard_ms < TUNNEL_DIRECTORY_FORGET_MS ||
				wanted(arg, k->name))
				continue;
			LIST_REMOVE(k, link);
			free(k);
			r->n--;
		}
	}
	return before - r->n;
}

void
tunnel_directory_lost(struct tunnel_directory *r, const char *node, uint64_t now_ms)
{
	struct known *k = tunnel_directory_know(r, node, now_ms);

	if (k != NULL)
		k->lost_ms = now_ms;
}

static bool
tunnel_directory_better(const struct claim *a, const struct claim *b)
{
	if (b == NULL || a->epoch != b->epoch)
		return b == NULL || a->epoch > b->epoch;
	return strcmp(a->peer->id, b->peer->id) > 0;
}

void *
tunnel_directory_holder(const struct tunnel_directory *r, const char *node, uint64_t *epoch)
{
	const struct known *k = tunnel_directory_find(r, node);
	const struct claim *c, *best = NULL;

	for (c = k != NULL ? LIST_FIRST(&k->claims) : NULL; c != NULL; c = LIST_NEXT(c, of_node))
		if (c->epoch != 0 && !c->peer->suspended && tunnel_directory_better(c, best))
			best = c;
	*epoch = best != NULL ? best->epoch : 0;
	return best != NULL ? best->peer->owner : NULL;
}

void
tunnel_directory_suspend(struct tunnel_directory_peer *p, bool suspended)
{
	p->suspended = suspended;
}

uint64_t
tunnel_directory_claimed(const struct tunnel_directory *r, const char *node)
{
	const struct known *k = tunnel_directory_find(r, node);
	const struct claim *c;
	uint64_t epoch = 0;

	if (k != NULL)
		LIST_FOREACH(c, &k->claims, of_node)
			epoch = MAX(epoch, c->epoch);
	return epoch;
}

/* Returns true if a replica that does not answer now claims it. */
static bool
is_suspended(const struct known *k)
{
	const struct claim *c;

	LIST_FOREACH(c, &k->claims, of_node)
		if (c->epoch != 0 && c->peer->suspended)
			return true;
	return false;
}

bool
tunnel_directory_knows(const struct tunnel_directory *r, const char *node)
{
	return tunnel_directory_find(r, node) != NULL;
}

bool
tunnel_directory_awaits(const struct tunnel_directory *r, const char *node, uint64_t now_ms)
{
	const struct known *k = tunnel_directory_find(r, node);

	return k != NULL &&
		(is_suspended(k) ||
			(k->lost_ms != 0 && now_ms - k->lost_ms < TUNNEL_DIRECTORY_LATELY_MS));
}

size_t
tunnel_directory_claims(const struct tunnel_directory_peer *p)
{
	return p != NULL ? p->n : 0;
}

void
tunnel_directory_named(
	const struct tunnel_directory *r, void (*fn)(void *arg, const char *node), void *arg)
{
	const struct known *k;

	for (size_t i = 0; i < BUCKETS; i++)
		LIST_FOREACH(k, &r->buckets[i], link) {
			if (!LIST_EMPTY(&k->claims))
				fn(arg, k->name);
		}
}
