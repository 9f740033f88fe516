#include "meta/client/cloudhub_cache_private.h"

#include <string.h>

/* --- questions ------------------------------------------------------------------------------ */

bool
cloudhub_cache_ask(struct cloudhub_cache *m, struct cloudhub_cache_question *q)
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
		*q = (struct cloudhub_cache_question){
			.kind = next == ASK_PODS ? KUBE_POD : KUBE_ENDPOINTS,
			.ns = s->ns,
			.service = s->name};
		return true;
	}
	return false;
}

void
cloudhub_cache_give_up(struct cloudhub_cache *m, const struct cloudhub_cache_question *q)
{
	struct scope *s = cloudhub_cache_find_scope(m, q->ns, q->service);

	if (s == NULL || (q->kind == KUBE_POD) != s->selects)
		return;
	s->given_up = true;
	cloudhub_cache_look_at_scope(m, s);
}

/* --- differences ---------------------------------------------------------------------------- */

static void
take_changes(struct cloudhub_cache *m)
{
	struct cluster_change c;

	while (cluster_next_change(m->cluster, &c)) {
		auto_free char *key = xasprintf("%s/%s", c.ns, c.name);
		struct entry *e = cloudhub_cache_use_entry(m, key);

		free(e->json);
		e->is_wanted = c.view != NULL;
		e->wanted = c.digest;
		e->json = take_ptr(&c.json);
		e->len = c.json_len;
		cloudhub_cache_look_at(m, e);
		cluster_change_fini(&c);
	}
}

/* Whether enough is known to store what the entry should be; otherwise the stored view stays in
 * use. */
static bool
is_settled(const struct cloudhub_cache *m, const struct entry *e)
{
	const struct scope *s = e->scope;

	if (!s->has_service && !e->is_wanted)
		return m->listed ||
			cloudhub_cache_find_object(m, KUBE_SERVICE, s->ns, s->name) != NULL;
	return cloudhub_cache_knows_scope(s) || (s->given_up && !e->is_stored);
}

static bool
cloudhub_cache_differs(const struct entry *e)
{
	return e->is_wanted != e->is_stored || (e->is_wanted && e->wanted != e->stored);
}

bool
cloudhub_cache_next(struct cloudhub_cache *m, struct cloudhub_cache_change *change)
{
	struct entry *e = m->last;

	m->last = NULL;
	if (e != NULL)
		cloudhub_cache_release_entry(m, e);
	take_changes(m);
	while ((e = TAILQ_FIRST(&m->ready)) != NULL) {
		TAILQ_REMOVE(&m->ready, e, ready);
		e->is_ready = false;
		if (!is_settled(m, e))
			continue; /* it is checked again when more is known */
		if (cloudhub_cache_differs(e)) {
			e->is_stored = e->is_wanted;
			e->stored = e->wanted;
			m->last = e;
			change->ns = e->scope->ns;
			change->name = strchr(e->key, '/') + 1;
			change->json = e->is_wanted ? e->json : NULL;
			change->len = e->is_wanted ? e->len : 0;
			return true;
		}
		cloudhub_cache_release_entry(m, e);
	}
	return false;
}

void
cloudhub_cache_again(struct cloudhub_cache *m)
{
	struct entry *e = take_ptr(&m->last);

	e->is_stored = !e->is_wanted;
	e->stored = 0;
	if (!e->is_ready)
		TAILQ_INSERT_HEAD(&m->ready, e, ready);
	e->is_ready = true;
}

/* --- start and end -------------------------------------------------------------------------- */

struct cloudhub_cache *
cloudhub_cache_new(void)
{
	struct cloudhub_cache *m = xcalloc(1, sizeof(*m));

	m->cluster = cluster_new();
	TAILQ_INIT(&m->ready);
	TAILQ_INIT(&m->asking);
	return m;
}

void
cloudhub_cache_begin(struct cloudhub_cache *m)
{
	struct table_node *n = NULL;
	size_t slot = 0;

	m->listed = false;
	while ((n = table_walk(&m->scopes, &slot, n)) != NULL) {
		struct scope *s = node_of(struct scope, n);

		s->next = ASK_PODS;
		s->given_up = false;
	}
	for (slot = 0, n = NULL; (n = table_walk(&m->objects, &slot, n)) != NULL;)
		node_of(struct object, n)->version = 0;
}

void
cloudhub_cache_forget_stored(struct cloudhub_cache *m)
{
	struct table_node *n = NULL;
	size_t slot = 0;

	while ((n = table_walk(&m->entries, &slot, n)) != NULL)
		node_of(struct entry, n)->is_stored = false;
}

void
cloudhub_cache_stored(struct cloudhub_cache *m, const char *key, uint64_t digest)
{
	struct entry *e = cloudhub_cache_use_entry(m, key);

	e->is_stored = true;
	e->stored = digest;
}

bool
cloudhub_cache_has_list(const struct cloudhub_cache *m)
{
	return m->listed;
}

size_t
cloudhub_cache_objects(const struct cloudhub_cache *m)
{
	return m->objects.n;
}

void
cloudhub_cache_free(struct cloudhub_cache **out)
{
	struct cloudhub_cache *m = take_ptr(out);

	if (m == NULL)
		return;
	cloudhub_cache_free_names(m);
	cluster_free(&m->cluster);
	free(m);
}
