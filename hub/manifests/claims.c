#include "hub/manifests/claims.h"

#include <assert.h>
#include <string.h>

#include "base/core/hash.h"

struct claims {
	struct claim **table;
	size_t n_table, n;
};

struct claims *
claims_new(void)
{
	struct claims *c = xcalloc(1, sizeof *c);

	c->n_table = 64;
	c->table = xcalloc(c->n_table, sizeof *c->table);
	return c;
}

void
claims_free(struct claims **out)
{
	struct claims *c = take_ptr(out);

	if (c == NULL)
		return;
	assert(c->n == 0);
	free(c->table);
	free(c);
}

static void
claims_grow(struct claims *c)
{
	size_t n = c->n_table * 2;
	struct claim **table = xcalloc(n, sizeof *table);

	for (size_t i = 0; i < c->n_table; i++) {
		for (struct claim *at = c->table[i], *next; at != NULL; at = next) {
			next = at->next_hash;
			at->next_hash = table[at->hash & (n - 1)];
			table[at->hash & (n - 1)] = at;
		}
	}
	free(c->table);
	c->table = table;
	c->n_table = n;
}

static uint64_t
hash_of(enum kube_kind kind, const char *ns, const char *name)
{
	return hash64(name, strlen(name), hash64(ns, strlen(ns), (uint64_t)kind));
}

static bool
same_object(const struct claim *a, enum kube_kind kind, const char *ns, const char *name)
{
	return a->kind == kind && strcmp(a->ns, ns) == 0 && strcmp(a->name, name) == 0;
}

struct claim *
claims_add(
	struct claims *c, enum kube_kind kind, const char *ns, const char *name, const char *file)
{
	struct claim *claim = xcalloc(1, sizeof *claim);
	struct claim **at;

	if (c->n >= c->n_table)
		claims_grow(c);
	claim->kind = kind;
	claim->ns = xstrdup(ns);
	claim->name = xstrdup(name);
	claim->file = file;
	claim->hash = hash_of(kind, ns, name);
	at = &c->table[claim->hash & (c->n_table - 1)];
	claim->next_hash = *at;
	*at = claim;
	c->n++;
	return claim;
}

struct claim *
claims_find(const struct claims *c, enum kube_kind kind, const char *ns, const char *name,
	const char *file)
{
	uint64_t hash = hash_of(kind, ns, name);
	struct claim *at = c->table[hash & (c->n_table - 1)];

	while (at != NULL &&
		(at->hash != hash || at->file != file || !same_object(at, kind, ns, name)))
		at = at->next_hash;
	return at;
}

void
claims_drop(struct claims *c, struct claim **out)
{
	struct claim *claim = take_ptr(out);
	struct claim **at = &c->table[claim->hash & (c->n_table - 1)];

	while (*at != claim)
		at = &(*at)->next_hash;
	*at = claim->next_hash;
	c->n--;
	free(claim->ns);
	free(claim->name);
	free(claim);
}

const struct claim *
claims_other(const struct claims *c, const struct claim *claim)
{
	const struct claim *first = NULL;

	for (const struct claim *at = c->table[claim->hash & (c->n_table - 1)]; at != NULL;
		at = at->next_hash) {
		if (at->hash != claim->hash || at->file == claim->file ||
			!same_object(at, claim->kind, claim->ns, claim->name))
			continue;
		if (first == NULL || strcmp(at->file, first->file) < 0)
			first = at;
	}
	return first;
}

size_t
claims_count(const struct claims *c)
{
	return c->n;
}
