#include "meta/mirror.h"

#include <errno.h>
#include <string.h>
#include <sys/queue.h>

#include "base/hash.h"
#include "model/cluster.h"
#include "model/table.h"

#define node_of(type, entry) container_of(entry, type, node)

/* An object by name, of which a version is known; gone: only the version is, so that a late message does not bring it back. */
struct object {
	struct table_node node;
	enum kube_kind kind;
	uint64_t version; /* 0: not said */
	uint64_t seen; /* number of the last list with it */
	unsigned n_scopes; /* lists of pods that have it */
	bool gone;
	char *ns, *name;
};

struct scope;

/* A service, or a name of pods, as it is stored and as it should be. */
struct entry {
	struct table_node node;
	TAILQ_ENTRY(entry) of_scope, ready;
	struct scope *scope;
	bool is_ready, is_stored, is_wanted;
	uint64_t stored, wanted; /* digests */
	char *json; /* wanted; kept, as a lost store wants it again */
	size_t len;
	char *key; /* "ns/name" */
};

enum question { ASK_PODS, ASK_ENDPOINTS, ASKED };

/* A service with all that hangs on it. */
struct scope {
	struct table_node node;
	TAILQ_HEAD(, entry) entries;
	TAILQ_ENTRY(scope) asking;
	bool is_asking;
	bool has_service, selects, plain; /* plain: it needs neither pods nor endpoints */
	bool pods_told, endpoints_told, given_up;
	enum question next;
	struct object **pods; /* of the last list */
	size_t n_pods;
	char *ns, *name;
};

TAILQ_HEAD(entries, entry);

struct mirror {
	struct cluster *cluster;
	struct table objects, scopes, entries;
	struct entries ready;
	TAILQ_HEAD(, scope) asking;
	struct entry *last; /* that mirror_next gave */
	uint64_t list; /* number of the present list */
	bool listed;
};

/* --- names ---------------------------------------------------------------------------------------- */

static uint64_t
hash_name(unsigned kind, const char *ns, const char *name)
{
	return hash64(name, strlen(name), hash64(ns, strlen(ns), kind));
}

static struct object *
find_object(const struct mirror *m, enum kube_kind kind, const char *ns, const char *name)
{
	struct table_node *n = table_first(&m->objects, hash_name(kind, ns, name));

	for (; n != NULL; n = table_next(n)) {
		struct object *o = node_of(struct object, n);

		if (o->kind == kind && strcmp(o->name, name) == 0 && strcmp(o->ns, ns) == 0)
			return o;
	}
	return NULL;
}

static struct object *
use_object(struct mirror *m, enum kube_kind kind, const char *ns, const char *name)
{
	struct object *o = find_object(m, kind, ns, name);

	if (o != NULL || m->objects.n >= MIRROR_OBJECTS_MAX)
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

static struct scope *
find_scope(const struct mirror *m, const char *ns, const char *name)
{
	struct table_node *n = table_first(&m->scopes, hash_name(0, ns, name));

	for (; n != NULL; n = table_next(n)) {
		struct scope *s = node_of(struct scope, n);

		if (strcmp(s->name, name) == 0 && strcmp(s->ns, ns) == 0)
			return s;
	}
	return NULL;
}

static struct scope *
use_scope(struct mirror *m, const char *ns, const char *name)
{
	struct scope *s = find_scope(m, ns, name);

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

static void
release_scope(struct mirror *m, struct scope *s)
{
	if (s->has_service || s->pods_told || s->endpoints_told || !TAILQ_EMPTY(&s->entries))
		return;
	if (s->is_asking)
		TAILQ_REMOVE(&m->asking, s, asking);
	table_remove(&m->scopes, &s->node);
	free_scope(s);
}

static struct entry *
use_entry(struct mirror *m, const char *key)
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
	e->scope = use_scope(m, ns, dot != NULL ? dot + 1 : slash + 1);
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

static void
release_entry(struct mirror *m, struct entry *e)
{
	struct scope *s = e->scope;

	if (e->is_stored || e->is_wanted || e->is_ready)
		return;
	table_remove(&m->entries, &e->node);
	TAILQ_REMOVE(&s->entries, e, of_scope);
	free_entry(e);
	release_scope(m, s);
}

/* --- what is to be looked at ---------------------------------------------------------------------- */

static void
look_at(struct mirror *m, struct entry *e)
{
	if (e->is_ready)
		return;
	e->is_ready = true;
	TAILQ_INSERT_TAIL(&m->ready, e, ready);
}

static void
look_at_scope(struct mirror *m, struct scope *s)
{
	struct entry *e;

	TAILQ_FOREACH(e, &s->entries, of_scope)
	look_at(m, e);
}

static bool
is_known(const struct scope *s)
{
	return !s->has_service || s->plain || (s->selects ? s->pods_told : s->endpoints_told);
}

/* May the entry become what is wanted? Else what is stored counts on. */
static bool
is_settled(const struct mirror *m, const struct entry *e)
{
	const struct scope *s = e->scope;

	if (!s->has_service && !e->is_wanted)
		return m->listed || find_object(m, KUBE_SERVICE, s->ns, s->name) != NULL;
	return is_known(s) || (s->given_up && !e->is_stored);
}

static void
ask_about(struct mirror *m, struct scope *s)
{
	if (s->next == ASKED || s->is_asking)
		return;
	s->is_asking = true;
	TAILQ_INSERT_TAIL(&m->asking, s, asking);
}

/* --- objects -------------------------------------------------------------------------------------- */

static uint64_t
version_of(const struct tree_node *object)
{
	const char *text = tree_text(tree_path(object, "metadata.resourceVersion"), "");

	if (*text == '\0' || strspn(text, "0123456789") != strlen(text) || strlen(text) > 19)
		return 0;
	return strtoull(text, NULL, 10);
}

static void
note_service(struct mirror *m, const struct kube_object *o)
{
	const struct kube_service *k = &o->service;
	struct scope *s = use_scope(m, o->ns, o->name);

	s->has_service = true;
	s->selects = k->selector.n > 0;
	s->plain = k->excluded || *k->external_name != '\0';
	ask_about(m, s);
	if (is_known(s))
		look_at_scope(m, s);
}

static void
note_endpoints(struct mirror *m, const char *ns, const char *name)
{
	struct scope *s = use_scope(m, ns, name);

	s->endpoints_told = true;
	look_at_scope(m, s);
}

/* Takes the object, unless a younger one is known. */
static int
take(struct mirror *m, struct object *known, struct kube_object **o, uint64_t version)
{
	if (known->version != 0 && version != 0 && version < known->version) {
		kube_object_free(o);
		return 1;
	}
	known->version = version;
	known->gone = false;
	if (known->kind == KUBE_SERVICE)
		note_service(m, *o);
	else if (known->kind == KUBE_ENDPOINTS)
		note_endpoints(m, known->ns, known->name);
	cluster_put(m->cluster, "", o);
	return 0;
}

static int
too_many(struct err *err)
{
	return err_set(err, ENOSPC, "more than %d objects are not kept", MIRROR_OBJECTS_MAX);
}

int
mirror_put(struct mirror *m, const struct mirror_object *of, struct err *err)
{
	struct kube_object *o = NULL;
	struct object *known;
	int rc;

	if (of->content == NULL)
		return err_set(err, EINVAL, "an object expected");
	rc = kube_decode(&o, "object", of->content, kube_kind_name(of->kind), err);
	if (rc < 0)
		return rc;
	if (rc > 0 || o->kind != of->kind || strcmp(o->name, of->name) != 0 ||
		strcmp(o->ns, of->ns) != 0) {
		kube_object_free(&o);
		return err_set(err, EINVAL,
			"the object is of another kind or name than the resource says");
	}
	if ((known = use_object(m, o->kind, o->ns, o->name)) == NULL) {
		kube_object_free(&o);
		return too_many(err);
	}
	return take(m, known, &o, version_of(of->content));
}

static void drop_pods(struct mirror *m, struct scope *s, uint64_t version);

/* `gone` stays behind with its version. */
static void
remove_object(struct mirror *m, struct object *known)
{
	struct scope *s = find_scope(m, known->ns, known->name);

	known->gone = true;
	cluster_remove(m->cluster, "", known->kind, known->ns, known->name);
	if (s == NULL || known->kind == KUBE_POD)
		return;
	if (known->kind == KUBE_SERVICE) {
		s->has_service = false;
		drop_pods(m, s, 0);
		s->pods_told = s->endpoints_told = s->given_up = false;
	}
	look_at_scope(m, s);
	release_scope(m, s);
}

int
mirror_delete(struct mirror *m, const struct mirror_object *of, struct err *err)
{
	struct object *known = use_object(m, of->kind, of->ns, of->name);
	uint64_t version = version_of(of->content);

	if (known == NULL)
		return too_many(err);
	if (known->version != 0 && version != 0 && version < known->version)
		return 1;
	known->version = version != 0 ? version : known->version;
	remove_object(m, known);
	return 0;
}

/* --- lists ---------------------------------------------------------------------------------------- */

/* Takes a pod out of a list of pods; one that is in no other is gone, unless it is younger than the list. */
static void
leave_pod(struct mirror *m, struct object *pod, uint64_t version)
{
	if (pod->n_scopes > 0)
		pod->n_scopes--;
	if (pod->n_scopes == 0 && !pod->gone && (version == 0 || pod->version <= version))
		remove_object(m, pod);
}

static void
drop_pods(struct mirror *m, struct scope *s, uint64_t version)
{
	for (size_t i = 0; i < s->n_pods; i++)
		leave_pod(m, s->pods[i], version);
	free(s->pods);
	s->pods = NULL;
	s->n_pods = 0;
}

/* One item; NULL when it has no name that could be kept. */
static struct object *
take_item(struct mirror *m, const struct mirror_list *list, const struct tree_node *item,
	struct err *err)
{
	struct kube_object *o = NULL;
	struct object *known;
	const char *ns = tree_text(tree_path(item, "metadata.namespace"), "default");
	int rc = kube_decode(&o, "list", item, kube_kind_name(list->kind), err);

	if (rc == 0 && o->kind == list->kind) {
		known = use_object(m, list->kind, o->ns, o->name);
		err->code = 0;
		if (known != NULL) {
			take(m, known, &o, version_of(item));
			return known;
		}
		too_many(err);
	} else if (rc >= 0) {
		err_set(err, EINVAL, "an item is of another kind than the list");
	}
	kube_object_free(&o);
	return find_object(m, list->kind, ns, tree_text(tree_path(item, "metadata.name"), ""));
}

static void
sweep(struct mirror *m, enum kube_kind kind, uint64_t version)
{
	struct object **all = xcalloc(m->objects.n + 1, sizeof(struct object *));
	struct table_node *n = NULL;
	size_t slot = 0, count = 0;

	while ((n = table_walk(&m->objects, &slot, n)) != NULL)
		all[count++] = node_of(struct object, n);
	for (size_t i = 0; i < count; i++) {
		struct object *o = all[i];

		if (o->kind == kind && o->seen != m->list && !o->gone &&
			(version == 0 || o->version <= version))
			remove_object(m, o);
	}
	free(all);
}

/* Names that are gone need not be remembered once a list says so. */
static void
forget_gone(struct mirror *m)
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

static void
look_at_all(struct mirror *m)
{
	struct table_node *n = NULL;
	size_t slot = 0;

	while ((n = table_walk(&m->entries, &slot, n)) != NULL)
		look_at(m, node_of(struct entry, n));
}

static void
end_pods(struct mirror *m, const struct mirror_list *list, struct object **pods, size_t n,
	uint64_t version)
{
	struct scope *s = use_scope(m, list->ns, list->service);

	for (size_t i = 0; i < n; i++)
		pods[i]->n_scopes++;
	drop_pods(m, s, version);
	s->pods = pods;
	s->n_pods = n;
	s->pods_told = true;
	look_at_scope(m, s);
}

int
mirror_listed(struct mirror *m, const struct mirror_list *list, struct err *err)
{
	const struct tree_node *c = list->content, *items = c;
	uint64_t version = version_of(c);
	struct object **seen;
	struct err why;
	size_t n = 0, room = 1;
	int refused = 0;

	if (c != NULL && c->kind == TREE_MAP)
		items = tree_get(c, "items");
	/* Go writes an empty list as null, too. That there is no service at all must be said more clearly. */
	if (list->gone)
		items = NULL;
	else if (tree_is_null(items) ? list->service == NULL || c == NULL
				     : items->kind != TREE_LIST)
		return err_set(err, EINVAL, "a list expected");
	if (list->service != NULL && m->scopes.n >= MIRROR_OBJECTS_MAX)
		return too_many(err);
	tree_each(items, item) room++;
	seen = xcalloc(room, sizeof(struct object *));
	m->list++;
	tree_each(items, item)
	{
		struct object *o;

		why = (struct err){0};
		o = take_item(m, list, item, &why);
		if (why.code != 0 && refused++ == 0)
			*err = why;
		if (o == NULL || o->seen == m->list)
			continue;
		o->seen = m->list;
		seen[n++] = o;
	}
	if (list->service != NULL) {
		end_pods(m, list, seen, n, version);
		return refused;
	}
	free(seen);
	sweep(m, list->kind, version);
	if (list->kind == KUBE_SERVICE) {
		m->listed = true;
		forget_gone(m);
		look_at_all(m);
	}
	return refused;
}

bool
mirror_has_list(const struct mirror *m)
{
	return m->listed;
}

/* --- questions ------------------------------------------------------------------------------------ */

bool
mirror_ask(struct mirror *m, struct mirror_question *q)
{
	struct scope *s;

	while ((s = TAILQ_FIRST(&m->asking)) != NULL) {
		enum question next = s->next;

		if (next == ASKED || !s->has_service || s->plain) {
			TAILQ_REMOVE(&m->asking, s, asking);
			s->is_asking = false;
			continue;
		}
		s->next = next == ASK_PODS ? ASK_ENDPOINTS : ASKED;
		if (next == ASK_PODS && !s->selects)
			continue;
		*q = (struct mirror_question){.kind = next == ASK_PODS ? KUBE_POD : KUBE_ENDPOINTS,
			.ns = s->ns,
			.service = s->name};
		return true;
	}
	return false;
}

void
mirror_give_up(struct mirror *m, const struct mirror_question *q)
{
	struct scope *s = find_scope(m, q->ns, q->service);

	if (s == NULL || (q->kind == KUBE_POD) != s->selects)
		return;
	s->given_up = true;
	look_at_scope(m, s);
}

/* --- differences ---------------------------------------------------------------------------------- */

static void
take_changes(struct mirror *m)
{
	struct cluster_change c;

	while (cluster_next_change(m->cluster, &c)) {
		auto_free char *key = xasprintf("%s/%s", c.ns, c.name);
		struct entry *e = use_entry(m, key);

		free(e->json);
		e->is_wanted = c.view != NULL;
		e->wanted = c.digest;
		e->json = take_ptr(&c.json);
		e->len = c.json_len;
		look_at(m, e);
		cluster_change_fini(&c);
	}
}

static bool
differs(const struct entry *e)
{
	return e->is_wanted != e->is_stored || (e->is_wanted && e->wanted != e->stored);
}

bool
mirror_next(struct mirror *m, struct mirror_change *change)
{
	struct entry *e = m->last;

	m->last = NULL;
	if (e != NULL)
		release_entry(m, e);
	take_changes(m);
	while ((e = TAILQ_FIRST(&m->ready)) != NULL) {
		TAILQ_REMOVE(&m->ready, e, ready);
		e->is_ready = false;
		if (!is_settled(m, e))
			continue; /* whoever settles it looks again */
		if (differs(e)) {
			e->is_stored = e->is_wanted;
			e->stored = e->wanted;
			m->last = e;
			change->ns = e->scope->ns;
			change->name = strchr(e->key, '/') + 1;
			change->json = e->is_wanted ? e->json : NULL;
			change->len = e->is_wanted ? e->len : 0;
			return true;
		}
		release_entry(m, e);
	}
	return false;
}

void
mirror_again(struct mirror *m)
{
	struct entry *e = take_ptr(&m->last);

	e->is_stored = !e->is_wanted;
	e->stored = 0;
	if (!e->is_ready)
		TAILQ_INSERT_HEAD(&m->ready, e, ready);
	e->is_ready = true;
}

/* --- beginning and end ---------------------------------------------------------------------------- */

struct mirror *
mirror_new(void)
{
	struct mirror *m = xcalloc(1, sizeof(*m));

	m->cluster = cluster_new();
	TAILQ_INIT(&m->ready);
	TAILQ_INIT(&m->asking);
	return m;
}

void
mirror_begin(struct mirror *m)
{
	struct table_node *n = NULL;
	size_t slot = 0;

	m->listed = false;
	while ((n = table_walk(&m->scopes, &slot, n)) != NULL) {
		struct scope *s = node_of(struct scope, n);

		s->next = ASK_PODS;
		s->given_up = false;
	}
}

void
mirror_forget_stored(struct mirror *m)
{
	struct table_node *n = NULL;
	size_t slot = 0;

	while ((n = table_walk(&m->entries, &slot, n)) != NULL)
		node_of(struct entry, n)->is_stored = false;
}

void
mirror_stored(struct mirror *m, const char *key, uint64_t digest)
{
	struct entry *e = use_entry(m, key);

	e->is_stored = true;
	e->stored = digest;
}

size_t
mirror_objects(const struct mirror *m)
{
	return m->objects.n;
}

static void
free_tables(struct mirror *m)
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
}

void
mirror_free(struct mirror **out)
{
	struct mirror *m = take_ptr(out);

	if (m == NULL)
		return;
	free_tables(m);
	table_fini(&m->entries);
	table_fini(&m->scopes);
	table_fini(&m->objects);
	cluster_free(&m->cluster);
	free(m);
}
