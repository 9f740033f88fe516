/*
 * Changes of objects only mark joints; cluster_next_change joins them, one joint at a time and only
 * as far as needed for the next change. So many changes of one service cost one join, and the
 * caller can serve its loop in between.
 */
#include "model/cluster/cluster.h"

#include <errno.h>
#include <string.h>

#include "base/core/buf.h"
#include "base/core/hash.h"
#include "model/cluster/cluster_private.h"
#include "model/selector.h"

void
cluster_use_dials(struct cluster *c, cluster_dials_fn *dials, void *arg)
{
	c->dials = dials;
	c->dials_arg = arg;
	cluster_mark_all(c);
}

/* --- objects and their sources -------------------------------------------------------------- */

static void
free_record(struct cluster *c, struct record *r)
{
	table_remove(&c->records, &r->node);
	free(r);
}

static bool
same_addresses(const struct kube_node *a, const struct kube_node *b)
{
	if (a->n_addresses != b->n_addresses)
		return false;
	for (size_t i = 0; i < a->n_addresses; i++)
		if (strcmp(a->addresses[i], b->addresses[i]) != 0)
			return false;
	return true;
}

static bool
same_node(const struct kube_object *a, const struct kube_object *b)
{
	return a != NULL && b != NULL && strcmp(a->node.site, b->node.site) == 0 &&
		strcmp(a->node.zone, b->node.zone) == 0 &&
		strcmp(a->node.public_ip, b->node.public_ip) == 0 &&
		strcmp(a->node.public_ip6, b->node.public_ip6) == 0 &&
		a->node.is_public == b->node.is_public && same_addresses(&a->node, &b->node);
}

/* Makes the object of the source that sorts first the current one, and frees `before` if it was
 * replaced. */
static void
cluster_settle(struct cluster *c, struct record *r, struct kube_object *before)
{
	const struct kube_object *old = r->object;
	const struct said *first = r->said;

	for (const struct said *s = r->said; s != NULL; s = s->next)
		if (strcmp(s->source->name, first->source->name) < 0)
			first = s;
	if (old != NULL) {
		cluster_mark_affected(c, r);
		cluster_unlink(c, r);
		c->count[r->kind]--;
	}
	r->object = first != NULL ? first->object : NULL;
	if (r->object != NULL) {
		r->ns = r->object->ns;
		r->name = r->object->name;
		cluster_link(c, r);
		cluster_mark_affected(c, r);
		c->count[r->kind]++;
	}
	if (r->kind == KUBE_NODE &&
		(old == NULL || r->object == NULL ||
			!kube_labels_equal(&old->node.labels, &r->object->node.labels)))
		cluster_callers_touch(c, r->name);
	if (r->kind == KUBE_NODE && !same_node(old, r->object))
		cluster_mark_all(c);
	if (r->kind == KUBE_NODE &&
		(!same_node(old, r->object) ||
			strcmp(old->node.pod_cidr, r->object->node.pod_cidr) != 0 ||
			!kube_labels_equal(&old->node.labels, &r->object->node.labels)))
		c->node_changes++;
	kube_object_free(&before);
	if (r->said == NULL)
		free_record(c, r);
}

static struct source *
use_source(struct cluster *c, const char *name)
{
	uint64_t hash = hash64(name, strlen(name), 0);
	struct table_node *n = table_first(&c->sources, hash);
	struct source *s;

	for (; n != NULL; n = table_next(n))
		if (strcmp(node_of(struct source, n)->name, name) == 0)
			return node_of(struct source, n);
	s = xcalloc(1, sizeof *s + strlen(name) + 1);
	memcpy(s->name, name, strlen(name) + 1);
	TAILQ_INIT(&s->said);
	table_add(&c->sources, &s->node, hash);
	return s;
}

static void
release_source(struct cluster *c, struct source *s)
{
	if (!TAILQ_EMPTY(&s->said))
		return;
	table_remove(&c->sources, &s->node);
	free(s);
}

static struct said *
find_said(const struct record *r, const struct source *source)
{
	struct said *s = r != NULL ? r->said : NULL;

	while (s != NULL && s->source != source)
		s = s->next;
	return s;
}

static struct record *
use_record(struct cluster *c, const struct kube_object *o)
{
	struct record *r = cluster_find_record(c, o->kind, o->ns, o->name);

	if (r != NULL)
		return r;
	r = xcalloc(1, sizeof *r);
	r->kind = o->kind;
	table_add(&c->records, &r->node, cluster_record_hash(o->kind, o->ns, o->name));
	return r;
}

static void
cluster_say(struct cluster *c, struct source *source, struct kube_object *o)
{
	struct record *r = use_record(c, o);
	struct said *s = find_said(r, source);
	struct kube_object *before = NULL;

	if (s == NULL) {
		s = xcalloc(1, sizeof *s);
		s->source = source;
		s->record = r;
		s->next = r->said;
		r->said = s;
		TAILQ_INSERT_TAIL(&source->said, s, of_source);
	} else {
		before = s->object;
	}
	s->object = o;
	s->generation = c->generation;
	cluster_settle(c, r, before);
}

static void
cluster_unsay(struct cluster *c, struct said *s)
{
	struct record *r = s->record;
	struct said **at = &r->said;

	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	TAILQ_REMOVE(&s->source->said, s, of_source);
	cluster_settle(c, r, s->object);
	free(s);
}

void
cluster_put(struct cluster *c, const char *source, struct kube_object **o)
{
	cluster_say(c, use_source(c, source), take_ptr(o));
}

bool
cluster_remove(struct cluster *c, const char *source, enum kube_kind kind, const char *ns,
	const char *name)
{
	struct source *from = use_source(c, source);
	struct said *s = find_said(cluster_find_record(c, kind, ns, name), from);

	if (s != NULL)
		cluster_unsay(c, s);
	release_source(c, from);
	return s != NULL;
}

void
cluster_replace(struct cluster *c, const char *source, struct kube_batch *b)
{
	struct source *from = use_source(c, source);
	struct said *s, *next;

	c->generation++;
	for (size_t i = 0; b != NULL && i < b->n; i++)
		if (b->objects[i] != NULL)
			cluster_say(c, from, take_ptr(&b->objects[i]));
	for (s = TAILQ_FIRST(&from->said); s != NULL && (b == NULL || b->n_wrong == 0); s = next) {
		next = TAILQ_NEXT(s, of_source);
		if (s->generation != c->generation)
			cluster_unsay(c, s);
	}
	release_source(c, from);
}

uint64_t
cluster_mark(struct cluster *c)
{
	return ++c->generation;
}

bool
cluster_keep(struct cluster *c, const char *source, enum kube_kind kind, const char *ns,
	const char *name)
{
	struct source *from = use_source(c, source);
	struct said *s = find_said(cluster_find_record(c, kind, ns, name), from);

	if (s != NULL)
		s->generation = c->generation;
	release_source(c, from);
	return s != NULL;
}

size_t
cluster_sweep(struct cluster *c, const char *source, enum kube_kind kind, uint64_t mark)
{
	struct source *from = use_source(c, source);
	struct said *next;
	size_t n = 0;

	for (struct said *s = TAILQ_FIRST(&from->said); s != NULL; s = next) {
		next = TAILQ_NEXT(s, of_source);
		if (s->record->kind != kind || s->generation >= mark)
			continue;
		cluster_unsay(c, s);
		n++;
	}
	release_source(c, from);
	return n;
}

/* --- changes -------------------------------------------------------------------------------- */

static void
release_joint(struct cluster *c, struct joint *j)
{
	if (j->n_records > 0 || j->n_told > 0 || j->dirty)
		return;
	cluster_near_forget(c, j);
	table_remove(&c->joints, &j->node);
	cluster_joint_free(j);
}

static void
cluster_push(struct cluster *c, const struct joint *j, const char *name, struct joined *now,
	struct buf *json)
{
	struct pending *p = xcalloc(1, sizeof *p);

	p->change.ns = xstrdup(j->ns);
	p->change.name = xstrdup(name);
	p->change.json_len = buf_len(json);
	if (now != NULL) {
		p->change.view = take_ptr(&now->view);
		p->change.nodes = xstrdup(now->nodes);
		p->change.digest = view_digest(buf_at(json), buf_len(json));
		p->change.json = buf_take_str(json);
	}
	TAILQ_INSERT_TAIL(&c->pending, p, entry);
}

void
cluster_note(struct cluster *c, char *text)
{
	struct note *note = xcalloc(1, sizeof *note);

	note->text = text;
	TAILQ_INSERT_TAIL(&c->notes, note, entry);
}

static void
note_refused(
	struct cluster *c, const struct joint *j, const struct told *now, const struct told *before)
{
	if (now->why.problem == CLUSTER_REFUSED &&
		(before == NULL || before->why.problem != CLUSTER_REFUSED ||
			strcmp(before->why.text, now->why.text) != 0))
		cluster_note(c, xasprintf("%s service=%s/%s", now->why.text, j->ns, now->name));
}

/* Nodes keep their last view. `told` keeps its digest for the next comparison. */
static void
cluster_hold_back(
	struct cluster *c, const struct joint *j, struct told *told, const struct told *before)
{
	told->beyond = true;
	told->digest = before != NULL ? before->digest : 0;
	told->nodes = before != NULL ? before->nodes : 0;
	if (before == NULL || !before->beyond)
		cluster_note(c,
			xasprintf("a service is refused, nodes keep what they know of it; split "
				  "it, or take endpoints or ports away service=%s/%s reason=\"%s\"",
				j->ns, told->name, told->why.text));
}

/* Takes over the view; before: what was last sent for it, NULL: nothing. */
static struct told
look_at(struct cluster *c, const struct joint *j, struct joined *now, const struct told *before)
{
	struct told told = {.name = xstrdup(now->view->name),
		.nodes = hash64(now->nodes, strlen(now->nodes), 0),
		.restricted = view_restricted(now->view) || http_routes_scoped(now->view->routes)};
	auto_buf struct buf json;

	buf_init(&json, BUF_UNLIMITED);
	if (!now->beyond)
		told.digest = view_build(&json, now->view);
	cluster_check_limits(now, &json);
	told.why = now->why;
	told.why.refused &= !now->beyond;
	told.reason_len = told.why.text != NULL ? strlen(told.why.text) : 0;
	if (now->beyond)
		cluster_hold_back(c, j, &told, before);
	else if (before == NULL || before->digest != told.digest || before->nodes != told.nodes)
		cluster_push(c, j, told.name, now, &json);
	note_refused(c, j, &told, before);
	c->n_refused += told.why.refused;
	if (!now->beyond && before != NULL && before->beyond)
		cluster_note(c,
			xasprintf("a service is within the limits again service=%s/%s", j->ns,
				told.name));
	view_free(&now->view);
	return told;
}

/* Sorts the service itself first. */
static int
compare_names(const char *a, const char *b)
{
	bool x = strchr(a, '.') != NULL, y = strchr(b, '.') != NULL;

	return x != y ? (int)x - (int)y : strcmp(a, b);
}

static int
compare_joined(const void *a, const void *b)
{
	return compare_names(
		((const struct joined *)a)->view->name, ((const struct joined *)b)->view->name);
}

/* Joins again, and queues a change for each difference from what was last sent: both lists are
 * sorted by name. */
static void
join_again(struct cluster *c, struct joint *j)
{
	struct told *old = j->told, *told;
	size_t n_old = j->n_told, k = 0;
	struct joined *now;
	size_t n = cluster_join(c, j, &now);
	auto_buf struct buf none;

	buf_init(&none, BUF_UNLIMITED);
	if (n > 1)
		qsort(now, n, sizeof *now, compare_joined);
	for (size_t i = 0; i < n; i++)
		cluster_backend_tls_attach(c, j, &now[i]);
	cluster_route_attach(c, j, n > 0 && !now[0].beyond ? now[0].view : NULL);
	told = xcalloc(n + 1, sizeof *told);
	for (size_t i = 0; i < n_old; i++)
		c->n_restricted -= old[i].restricted;
	for (size_t i = 0; i < n || k < n_old;) {
		int order = i == n   ? 1
			: k == n_old ? -1
				     : compare_names(now[i].view->name, old[k].name);

		if (order > 0) {
			cluster_push(c, j, old[k++].name, NULL, &none);
			continue;
		}
		told[i] = look_at(c, j, &now[i], order == 0 ? &old[k] : NULL);
		c->n_restricted += told[i].restricted;
		i++;
		k += order == 0;
	}
	free(now);
	for (k = 0; k < n_old; k++)
		c->n_refused -= old[k].why.refused;
	cluster_told_free(old, n_old);
	cluster_rule_look(c, j, n > 0);
	j->told = told;
	j->n_told = n;
	if (j->is_pod && n == 0)
		cluster_pod_forget(c, j);
	cluster_near_mark(c, j);
}

bool
cluster_next_change(struct cluster *c, struct cluster_change *change)
{
	struct pending *p;
	struct joint *j;

	while ((p = TAILQ_FIRST(&c->pending)) == NULL) {
		if ((j = TAILQ_FIRST(&c->waiting)) == NULL)
			return false;
		TAILQ_REMOVE(&c->waiting, j, waiting);
		j->dirty = false;
		join_again(c, j);
		release_joint(c, j);
	}
	TAILQ_REMOVE(&c->pending, p, entry);
	*change = p->change;
	free(p);
	return true;
}

void
cluster_change_fini(struct cluster_change *change)
{
	free(change->ns);
	free(change->name);
	free(change->json);
	free(change->nodes);
	view_free(&change->view);
	*change = (struct cluster_change){0};
}

bool
cluster_dirty(const struct cluster *c)
{
	return !TAILQ_EMPTY(&c->waiting) || !TAILQ_EMPTY(&c->pending);
}

/* --- queries -------------------------------------------------------------------------------- */

int
cluster_node(const struct cluster *c, const char *name, const char **site, const char **zone)
{
	const struct kube_object *o = cluster_find(c, KUBE_NODE, "", name);

	*site = o != NULL ? o->node.site : "";
	*zone = o != NULL ? o->node.zone : "";
	return o != NULL ? 0 : -ENOENT;
}

const struct kube_labels *
cluster_node_labels(const struct cluster *c, const char *name)
{
	const struct kube_object *o = cluster_find(c, KUBE_NODE, "", name);

	return o != NULL ? &o->node.labels : NULL;
}

uint64_t
cluster_node_changes(const struct cluster *c)
{
	return c->node_changes;
}

size_t
cluster_count_refused(const struct cluster *c)
{
	return c->n_refused;
}

size_t
cluster_count(const struct cluster *c, enum kube_kind kind)
{
	return c->count[kind];
}

struct cluster *
cluster_new(void)
{
	struct cluster *c = xcalloc(1, sizeof *c);

	TAILQ_INIT(&c->waiting);
	TAILQ_INIT(&c->pods);
	TAILQ_INIT(&c->unmatched);
	TAILQ_INIT(&c->pending);
	TAILQ_INIT(&c->notes);
	TAILQ_INIT(&c->callers_waiting);
	TAILQ_INIT(&c->routes_waiting);
	return c;
}

void
cluster_free(struct cluster **c)
{
	struct cluster *gone = take_ptr(c);
	struct table_node *n;
	struct pending *p;
	char *note;
	size_t slot;

	if (gone == NULL)
		return;
	while ((note = cluster_next_note(gone)) != NULL)
		free(note);
	while ((p = TAILQ_FIRST(&gone->pending)) != NULL) {
		TAILQ_REMOVE(&gone->pending, p, entry);
		cluster_change_fini(&p->change);
		free(p);
	}
	for (slot = 0; (n = table_walk(&gone->records, &slot, NULL)) != NULL;)
		cluster_unsay(gone, node_of(struct record, n)->said);
	for (slot = 0; (n = table_walk(&gone->sources, &slot, NULL)) != NULL;)
		release_source(gone, node_of(struct source, n));
	for (slot = 0; (n = table_walk(&gone->joints, &slot, NULL)) != NULL;) {
		table_remove(&gone->joints, n);
		cluster_joint_free(node_of(struct joint, n));
	}
	cluster_callers_fini(gone);
	free(gone->ranges);
	table_fini(&gone->records);
	table_fini(&gone->sources);
	table_fini(&gone->joints);
	for (size_t i = 0; i < ARRAY_LEN(gone->linked); i++)
		table_fini(&gone->linked[i]);
	free(gone);
}
