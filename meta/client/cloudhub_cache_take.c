#include "meta/client/cloudhub_cache_private.h"

#include <errno.h>
#include <string.h>

/* --- objects -------------------------------------------------------------------------------- */

static uint64_t
version_of(const struct tree_node *object)
{
	const char *text = tree_text(tree_path(object, "metadata.resourceVersion"), "");

	if (*text == '\0' || strspn(text, "0123456789") != strlen(text) || strlen(text) > 19)
		return 0;
	return strtoull(text, NULL, 10);
}

static void
note_service(struct cloudhub_cache *m, const struct kube_object *o)
{
	const struct kube_service *k = &o->service;
	struct scope *s = cloudhub_cache_use_scope(m, o->ns, o->name);

	s->has_service = true;
	s->selects = k->selector.n > 0;
	s->plain = k->excluded || *k->external_name != '\0';
	cloudhub_cache_ask_about(m, s);
	if (cloudhub_cache_knows_scope(s))
		cloudhub_cache_look_at_scope(m, s);
}

static void
note_endpoints(struct cloudhub_cache *m, const char *ns, const char *name)
{
	struct scope *s = cloudhub_cache_use_scope(m, ns, name);

	s->endpoints_told = true;
	cloudhub_cache_look_at_scope(m, s);
}

/* Takes the object, unless a newer version is known. */
static int
cloudhub_cache_take_take(
	struct cloudhub_cache *m, struct object *known, struct kube_object **o, uint64_t version)
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
	return err_set(
		err, ENOSPC, "more than %d objects are not kept", CLOUDHUB_CACHE_OBJECTS_MAX);
}

int
cloudhub_cache_put(
	struct cloudhub_cache *m, const struct cloudhub_cache_object *of, struct err *err)
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
	if ((known = cloudhub_cache_use_object(m, o->kind, o->ns, o->name)) == NULL) {
		kube_object_free(&o);
		return too_many(err);
	}
	return cloudhub_cache_take_take(m, known, &o, version_of(of->content));
}

static void drop_pods(struct cloudhub_cache *m, struct scope *s, uint64_t version);

/* The object stays as `gone`, with its version. */
static void
remove_object(struct cloudhub_cache *m, struct object *known)
{
	struct scope *s = cloudhub_cache_find_scope(m, known->ns, known->name);

	known->gone = true;
	cluster_remove(m->cluster, "", known->kind, known->ns, known->name);
	if (s == NULL || known->kind == KUBE_POD)
		return;
	if (known->kind == KUBE_SERVICE) {
		s->has_service = false;
		drop_pods(m, s, 0);
		s->pods_told = s->endpoints_told = s->given_up = false;
	}
	cloudhub_cache_look_at_scope(m, s);
	cloudhub_cache_release_scope(m, s);
}

int
cloudhub_cache_delete(
	struct cloudhub_cache *m, const struct cloudhub_cache_object *of, struct err *err)
{
	struct object *known = cloudhub_cache_use_object(m, of->kind, of->ns, of->name);
	uint64_t version = version_of(of->content);

	if (known == NULL)
		return too_many(err);
	if (known->version != 0 && version != 0 && version < known->version)
		return 1;
	known->version = version != 0 ? version : known->version;
	remove_object(m, known);
	return 0;
}

/* --- lists ---------------------------------------------------------------------------------- */

/* Removes a pod from one pod list; if it is in no other list it is gone, unless it is newer than
 * the list. */
static void
leave_pod(struct cloudhub_cache *m, struct object *pod, uint64_t version)
{
	if (pod->n_scopes > 0)
		pod->n_scopes--;
	if (pod->n_scopes == 0 && !pod->gone && (version == 0 || pod->version <= version))
		remove_object(m, pod);
}

static void
drop_pods(struct cloudhub_cache *m, struct scope *s, uint64_t version)
{
	for (size_t i = 0; i < s->n_pods; i++)
		leave_pod(m, s->pods[i], version);
	free(s->pods);
	s->pods = NULL;
	s->n_pods = 0;
}

/* Processes one item; NULL when it has no usable name. */
static struct object *
take_item(struct cloudhub_cache *m, const struct cloudhub_cache_list *list,
	const struct tree_node *item, struct err *err)
{
	struct kube_object *o = NULL;
	struct object *known;
	const char *ns = tree_text(tree_path(item, "metadata.namespace"), "default");
	int rc = kube_decode(&o, "list", item, kube_kind_name(list->kind), err);

	if (rc == 0 && o->kind == list->kind) {
		known = cloudhub_cache_use_object(m, list->kind, o->ns, o->name);
		err->code = 0;
		if (known != NULL) {
			cloudhub_cache_take_take(m, known, &o, version_of(item));
			return known;
		}
		too_many(err);
	} else if (rc >= 0) {
		err_set(err, EINVAL, "an item is of another kind than the list");
	}
	kube_object_free(&o);
	return cloudhub_cache_find_object(
		m, list->kind, ns, tree_text(tree_path(item, "metadata.name"), ""));
}

static void
cloudhub_cache_take_sweep(struct cloudhub_cache *m, enum kube_kind kind, uint64_t version)
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

static void
end_pods(struct cloudhub_cache *m, const struct cloudhub_cache_list *list, struct object **pods,
	size_t n, uint64_t version)
{
	struct scope *s = cloudhub_cache_use_scope(m, list->ns, list->service);

	for (size_t i = 0; i < n; i++)
		pods[i]->n_scopes++;
	drop_pods(m, s, version);
	s->pods = pods;
	s->n_pods = n;
	s->pods_told = true;
	cloudhub_cache_look_at_scope(m, s);
}

int
cloudhub_cache_listed(
	struct cloudhub_cache *m, const struct cloudhub_cache_list *list, struct err *err)
{
	const struct tree_node *c = list->content, *items = c;
	uint64_t version = version_of(c);
	struct object **seen;
	struct err why;
	size_t n = 0, room = 1;
	int refused = 0;

	if (c != NULL && c->kind == TREE_MAP)
		items = tree_get(c, "items");
	/* Go also encodes an empty list as null. An empty list of all services must be explicit. */
	if (list->gone)
		items = NULL;
	else if (tree_is_null(items) ? list->service == NULL || c == NULL
				     : items->kind != TREE_LIST)
		return err_set(err, EINVAL, "a list expected");
	if (list->service != NULL && m->scopes.n >= CLOUDHUB_CACHE_OBJECTS_MAX)
		return too_many(err);
	tree_each(items, item)
		room++;
	seen = xcalloc(room, sizeof(struct object *));
	m->list++;
	tree_each(items, item) {
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
	cloudhub_cache_take_sweep(m, list->kind, version);
	if (list->kind == KUBE_SERVICE) {
		m->listed = true;
		cloudhub_cache_forget_gone(m);
		cloudhub_cache_look_at_all(m);
	}
	return refused;
}
