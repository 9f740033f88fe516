#include "meta/client/cloudhub_cache_private.h"

#include <string.h>

#include "base/core/hash.h"

static uint64_t
hash_name(unsigned kind, const char *ns, const char *name)
{
	return hash64(name, strlen(name), hash64(ns, strlen(ns), kind));
}

struct object *
cloudhub_cache_find_object(
	const struct cloudhub_cache *m, enum kube_kind kind, const char *ns, const char *name)
{
	struct table_node *n = table_first(&m->objects, hash_name(kind, ns, name));

	for (; n != NULL; n = table_next(n)) {
		struct object *o = node_of(struct object, n);

		if (o->kind == kind && strcmp(o->name, name) == 0 && strcmp(o->ns, ns) == 0)
			return o;
	}
	return NULL;
}

struct object *
cloudhub_cache_use_object(
	struct cloudhub_cache *m, enum kube_kind kind, const char *ns, const char *name)
{
	struct object *o = cloudhub_cache_find_object(m, kind, ns, name);

	if (o != NULL || m->objects.n >= CLOUDHUB_CACHE_OBJECTS_MAX)
		return o;
	o = xcalloc(1, sizeof(*o));
	o->kind = kind;
	o->gone = true;
	o->ns = xstrdup(ns);
	o->name = xstrdup(name);
	table_add(&m->objects, &o->node, hash_name(kind, ns, name));
	return o;
}

static void
free_object(struct object *o)
{
	free(o->ns);
	free(o->name);
	free(o);
}

struct scope *
cloudhub_cache_find_scope(const struct cloudhub_cache *m, const char *ns, const char *name)
{
	struct table_node *n = table_first(&m->scopes, hash_name(0, ns, name));

	for (; n != NULL; n = table_next(n)) {
		struct scope *s = node_of(struct scope, n);

		if (strcmp(s->name, name) == 0 && strcmp(s->ns, ns) == 0)
			return s;
	}
	return NULL;
}

struct scope *
cloudhub_cache_use_scope(struct cloudhub_cache *m, const char *ns, const char *name)
{
	struct scope *s = cloudhub_cache_find_scope(m, ns, name);

	if (s != NULL)
		return s;
	s = xcalloc(1, sizeof(*s));
	TAILQ_INIT(&s->entries);
	s->ns = xstrdup(ns);
	s->name = xstrdup(name);
	table_add(&m->scopes, &s->node, hash_name(0, ns, name));
	return s;
}

static void
free_scope(struct scope *s)
{
	free(s->pods);
	free(s->ns);
	free(s->name);
	free(s);
}

void
cloudhub_cache_release_scope(struct cloudhub_cache *m, struct scope *s)
{
	if (s->has_service || s->pods_told || s->endpoints_told || !TAILQ_EMPTY(&s->entries))
		return;
	if (s->is_asking)
		TAILQ_REMOVE(&m->asking, s, asking);
	table_remove(&m->scopes, &s->node);
	free_scope(s);
}

struct entry *
cloudhub_cache_use_entry(struct cloudhub_cache *m, const char *key)
{
	uint64_t hash = hash64(key, strlen(key), 0);
	struct table_node *n = table_first(&m->entries, hash);
	const char *slash = strchr(key, '/'), *dot;
	auto_free char *ns = NULL;
	struct entry *e;

	for (; n != NULL; n = table_next(n))
		if (strcmp(node_of(struct entry, n)->key, key) == 0)
			return node_of(struct entry, n);
	e = xcalloc(1, sizeof(*e));
	e->key = xstrdup(key);
	ns = xstrndup(key, (size_t)(slash - key));
	dot = strchr(slash, '.'); /* <hostname>.<service> */
	e->scope = cloudhub_cache_use_scope(m, ns, dot != NULL ? dot + 1 : slash + 1);
	TAILQ_INSERT_TAIL(&e->scope->entries, e, of_scope);
	table_add(&m->entries, &e->node, hash);
	return e;
}

static void
free_entry(struct entry *e)
{
	free(e->json);
	free(e->key);
	free(e);
}

void
cloudhub_cache_release_entry(struct cloudhub_cache *m, struct entry *e)
{
	struct scope *s = e->scope;

	if (e->is_stored || e->is_wanted || e->is_ready)
		return;
	table_remove(&m->entries, &e->node);
	TAILQ_REMOVE(&s->entries, e, of_scope);
	free_entry(e);
	cloudhub_cache_release_scope(m, s);
}

void
cloudhub_cache_look_at(struct cloudhub_cache *m, struct entry *e)
{
	if (e->is_ready)
		return;
	e->is_ready = true;
	TAILQ_INSERT_TAIL(&m->ready, e, ready);
}

void
cloudhub_cache_look_at_scope(struct cloudhub_cache *m, struct scope *s)
{
	struct entry *e;

	TAILQ_FOREACH(e, &s->entries, of_scope)
		cloudhub_cache_look_at(m, e);
}

bool
cloudhub_cache_knows_scope(const struct scope *s)
{
	return !s->has_service || s->plain || (s->selects ? s->pods_told : s->endpoints_told);
}

void
cloudhub_cache_ask_about(struct cloudhub_cache *m, struct scope *s)
{
	if (s->next == ASKED || s->is_asking)
		return;
	s->is_asking = true;
	TAILQ_INSERT_TAIL(&m->asking, s, asking);
}

void
cloudhub_cache_look_at_all(struct cloudhub_cache *m)
{
	struct table_node *n = NULL;
	size_t slot = 0;

	while ((n = table_walk(&m->entries, &slot, n)) != NULL)
		cloudhub_cache_look_at(m, node_of(struct entry, n));
}

void
cloudhub_cache_forget_gone(struct cloudhub_cache *m)
{
	struct object **gone = xcalloc(m->objects.n + 1, sizeof(struct object *));
	struct table_node *n = NULL;
	size_t slot = 0, count = 0;

	while ((n = table_walk(&m->objects, &slot, n)) != NULL) {
		struct object *o = node_of(struct object, n);

		if (o->gone && o->n_scopes == 0)
			gone[count++] = o;
	}
	for (size_t i = 0; i < count; i++) {
		table_remove(&m->objects, &gone[i]->node);
		free_object(gone[i]);
	}
	free(gone);
}

void
cloudhub_cache_free_names(struct cloudhub_cache *m)
{
	struct table_node *n;
	size_t slot;

	for (slot = 0; (n = table_walk(&m->entries, &slot, NULL)) != NULL;) {
		table_remove(&m->entries, n);
		free_entry(node_of(struct entry, n));
	}
	for (slot = 0; (n = table_walk(&m->scopes, &slot, NULL)) != NULL;) {
		table_remove(&m->scopes, n);
		free_scope(node_of(struct scope, n));
	}
	for (slot = 0; (n = table_walk(&m->objects, &slot, NULL)) != NULL;) {
		table_remove(&m->objects, n);
		free_object(node_of(struct object, n));
	}
	table_fini(&m->entries);
	table_fini(&m->scopes);
	table_fini(&m->objects);
}
