#include "hub/identity/records.h"

#include <errno.h>
#include <string.h>

#include "base/core/hash.h"

static uint64_t
records_hash(const char *key)
{
	return hash64(key, strlen(key), 0);
}

/* --- groups --------------------------------------------------------------------------------- */

struct records_group {
	struct table_node node;
	size_t n;
	char name[];
};

static struct records_group *
records_group_find(const struct records *list, const char *name, size_t len)
{
	struct table_node *n = table_first(&list->groups, hash64(name, len, 0));
	struct records_group *g;

	for (; n != NULL; n = table_next(n)) {
		g = container_of(n, struct records_group, node);
		if (strncmp(g->name, name, len) == 0 && g->name[len] == '\0')
			return g;
	}
	return NULL;
}

size_t
records_count(const struct records *list, const char *group)
{
	const struct records_group *g = records_group_find(list, group, strlen(group));

	return g != NULL ? g->n : 0;
}

static void
records_group_add(struct records *list, const char *key)
{
	size_t len = strcspn(key, "/");
	struct records_group *g;

	if (!list->kind->grouped)
		return;
	g = records_group_find(list, key, len);
	if (g == NULL) {
		g = xcalloc(1, sizeof *g + len + 1);
		memcpy(g->name, key, len);
		table_add(&list->groups, &g->node, hash64(key, len, 0));
	}
	g->n++;
}

static void
records_group_remove(struct records *list, const char *key)
{
	struct records_group *g;

	if (!list->kind->grouped)
		return;
	g = records_group_find(list, key, strcspn(key, "/"));
	if (--g->n > 0)
		return;
	table_remove(&list->groups, &g->node);
	free(g);
}

/* --- records -------------------------------------------------------------------------------- */

void
records_fini(struct records *list)
{
	for (size_t i = 0; i < list->n; i++) {
		records_group_remove(list, ((const struct record *)list->all[i])->key);
		free(list->all[i]);
	}
	free(list->all);
	table_fini(&list->table);
	table_fini(&list->groups);
	*list = (struct records){.kind = list->kind};
}

void *
records_find(const struct records *list, const char *key)
{
	struct table_node *n = table_first(&list->table, records_hash(key));
	struct record *r;

	for (; n != NULL; n = table_next(n)) {
		r = container_of(n, struct record, node);
		if (strcmp(r->key, key) == 0)
			return r;
	}
	return NULL;
}

void *
records_use(struct records *list, const char *key)
{
	struct record *r = records_find(list, key);
	size_t size = list->kind->size;

	if (r != NULL)
		return r;
	r = xcalloc(1, size + strlen(key) + 1);
	r->key = strcpy((char *)r + size, key);
	table_add(&list->table, &r->node, records_hash(key));
	records_group_add(list, key);
	list->all = xrealloc(list->all, (list->n + 1) * sizeof *list->all);
	list->all[list->n++] = r;
	list->changes++;
	return r;
}

static void
records_release(struct records *list, struct record *r)
{
	table_remove(&list->table, &r->node);
	records_group_remove(list, r->key);
	free(r);
	list->changes++;
}

void
records_remove(struct records *list, void *record)
{
	size_t i = 0;

	while (list->all[i] != record)
		i++;
	memmove(&list->all[i], &list->all[i + 1], (--list->n - i) * sizeof *list->all);
	records_release(list, record);
}

void
records_drop(struct records *list, records_test_fn *test, int64_t now_s)
{
	size_t kept = 0;

	for (size_t i = 0; i < list->n; i++) {
		if (test(list, list->all[i], now_s))
			records_release(list, list->all[i]);
		else
			list->all[kept++] = list->all[i];
	}
	list->n = kept;
}

/* --- text and merging ----------------------------------------------------------------------- */

void
records_touch(struct record *r)
{
	r->archived_ms = 0;
	r->in_first = r->claimed = false;
}

void
records_claim(struct record *r, bool pending)
{
	r->claimed = pending;
	r->in_first = !pending;
}

static bool
records_is_first(const struct records *list, const struct record *r)
{
	return list->is_first == NULL || list->is_first(list->archive, r);
}

void
records_text(const struct records *list, bool first, struct buf *out)
{
	const char *comma = "\n";

	buf_printf(out, "\"%s\":[", list->kind->member);
	for (size_t i = 0; i < list->n; i++) {
		if (first && !records_is_first(list, list->all[i]))
			continue;
		buf_adds(out, comma);
		list->kind->text(list->all[i], out);
		comma = ",\n";
	}
	buf_adds(out, "]");
}

int
records_read(
	struct records *list, const struct tree_node *document, const char *name, struct err *err)
{
	const struct tree_node *all = tree_get(document, list->kind->member);
	int rc = 0;

	if (list->kind->needed && (all == NULL || all->kind != TREE_LIST))
		return err_set(
			err, EINVAL, "%s: there is no list \"%s\"", name, list->kind->member);
	tree_each(all, map) {
		if ((rc = list->kind->read(list, map, name, err)) < 0)
			break;
	}
	return rc;
}

bool
records_unite_one(struct records *to, const struct record *theirs, int64_t now_s)
{
	const struct record_kind *kind = to->kind;
	struct record *ours = records_find(to, theirs->key);

	if (kind->skips != NULL && kind->skips(to, theirs, now_s))
		return false;
	if (ours == NULL) {
		ours = records_use(to, theirs->key);
		memcpy(ours + 1, theirs + 1, kind->size - sizeof *ours);
		return true;
	}
	if (kind->merge == NULL || !kind->merge(to, ours, theirs))
		return false;
	records_touch(ours);
	return true;
}

bool
records_unite(struct records *to, const struct records *from, int64_t now_s)
{
	bool any = false;

	for (size_t i = 0; i < from->n; i++)
		any |= records_unite_one(to, from->all[i], now_s);
	return any;
}

bool
records_first_lacks(struct records *theirs, struct records *ours, int64_t now_s)
{
	bool lacks = false;

	for (size_t i = 0; i < ours->n; i++) {
		struct record *r = ours->all[i];

		r->in_first = !records_unite_one(theirs, r, now_s);
		r->claimed &= !r->in_first;
		lacks |= !r->in_first && records_is_first(ours, r);
	}
	return lacks;
}
