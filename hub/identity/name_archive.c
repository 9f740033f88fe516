#include "hub/identity/name_archive.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/conf/tree.h"
#include "base/core/gzip.h"
#include "base/core/hash.h"
#include "hub/port/route.h"
#include "model/json.h"

struct entry {
	struct record record; /* key: the name */
	struct name_archive_entry entry;
};

enum { LISTS_MAX = 32 * 1024 * 1024 }; /* of joins and revocations, unpacked */
enum { ARCHIVED_NAMES, ARCHIVED_JOINS, ARCHIVED_REVOKED, ARCHIVED_LISTS };

struct name_archive {
	struct records names;
	struct records *lists[ARCHIVED_LISTS]; /* &names, then those of name_archive_use_lists */
	uint64_t now_ms;
	char cas[CA_LIST_TEXT]; /* name_archive_cas */
	int64_t cas_since_s;
	bool archives;
	bool with_lists; /* of a text: its writer archives joins and revocations too */
	uint64_t older_until_ms, older_lists_until_ms;
	bool overflows; /* too many records are in no Secret for the first one to have them */
	bool read[NAME_ARCHIVE_ARCHIVES]; /* archives that have been read */
};

static bool
name_archive_is_forgotten(const struct name_archive_entry *entry)
{
	return entry->serial[0] == '\0';
}

static bool
is_later(const struct name_archive_entry *a, const struct name_archive_entry *b)
{
	if (a->signed_s != b->signed_s)
		return a->signed_s > b->signed_s;
	if (name_archive_is_forgotten(a) != name_archive_is_forgotten(b))
		return name_archive_is_forgotten(a);
	if (strcmp(a->serial, b->serial) != 0)
		return strcmp(a->serial, b->serial) > 0;
	return a->cas[0] != '\0' && b->cas[0] == '\0'; /* an older hub rewrote the entry */
}

static bool
name_archive_merge_entry(struct records *names, void *record, const void *other)
{
	struct entry *e = record;
	const struct name_archive_entry *entry = &((const struct entry *)other)->entry;

	if (!is_later(entry, &e->entry))
		return false;
	names->changes += name_archive_is_forgotten(&e->entry) != name_archive_is_forgotten(entry);
	e->entry = *entry;
	records_touch(&e->record);
	return true;
}

static const struct record_kind name_archive_kind = {
	.size = sizeof(struct entry), .merge = name_archive_merge_entry};

/* --- where a record is ---------------------------------------------------------------------- */

static unsigned
name_archive_home(const struct record *e)
{
	return (unsigned)(hash64(e->key, strlen(e->key), 0) % NAME_ARCHIVE_ARCHIVES);
}

static bool
name_archive_is_first(const struct name_archive *r, const struct record *e, uint64_t older_until_ms)
{
	if (!r->archives)
		return true;
	if (e->archived_ms == 0)
		return e->in_first || e->claimed ||
			(r->read[name_archive_home(e)] && !r->overflows);
	if (r->now_ms < older_until_ms)
		return e->in_first;
	return e->in_first && r->now_ms - e->archived_ms < NAME_ARCHIVE_MOVED_MS;
}

static bool
name_archive_is_in(const struct record *e, unsigned i)
{
	return name_archive_home(e) == i && !e->claimed;
}

static bool
name_archive_name_is_first(const void *archive, const struct record *e)
{
	const struct name_archive *r = archive;

	return name_archive_is_first(r, e, r->older_until_ms);
}

static bool
name_archive_listed_is_first(const void *archive, const struct record *e)
{
	const struct name_archive *r = archive;

	return name_archive_is_first(r, e, MAX(r->older_until_ms, r->older_lists_until_ms));
}

struct name_archive *
name_archive_new(void)
{
	struct name_archive *r = xcalloc(1, sizeof *r);

	r->names.kind = &name_archive_kind;
	r->names.is_first = name_archive_name_is_first;
	r->names.archive = r;
	r->lists[ARCHIVED_NAMES] = &r->names;
	return r;
}

void
name_archive_use_lists(struct name_archive *r, struct records *joins, struct records *revoked)
{
	r->lists[ARCHIVED_JOINS] = joins;
	r->lists[ARCHIVED_REVOKED] = revoked;
	for (int i = ARCHIVED_JOINS; i < ARCHIVED_LISTS; i++) {
		r->lists[i]->is_first = name_archive_listed_is_first;
		r->lists[i]->archive = r;
	}
}

static size_t
name_archive_records(const struct name_archive *r)
{
	size_t n = 0;

	for (int i = 0; i < ARCHIVED_LISTS && r->lists[i] != NULL; i++)
		n += r->lists[i]->n;
	return n;
}

void
name_archive_free(struct name_archive **out)
{
	struct name_archive *r = take_ptr(out);

	if (r == NULL)
		return;
	records_fini(&r->names);
	free(r);
}

void
name_archive_add(struct name_archive *r, const char *node, const struct name_archive_entry *entry)
{
	const struct entry theirs = {.entry = *entry};
	struct entry *e = records_find(&r->names, node);

	if (e != NULL) {
		name_archive_merge_entry(&r->names, e, &theirs);
		return;
	}
	e = records_use(&r->names, node);
	e->entry = *entry;
}

void
name_archive_sign(struct name_archive *r, const char *node, const struct name_archive_entry *entry)
{
	const struct entry *e = records_find(&r->names, node);
	struct name_archive_entry last = *entry;

	if (e != NULL && strcmp(e->entry.serial, entry->serial) == 0)
		return;
	if (e != NULL)
		last.signed_s =
			/* the new entry must be the later one, whatever the clock says */
			MAX(last.signed_s, e->entry.signed_s + 1);
	name_archive_add(r, node, &last);
}

void
name_archive_put_back(
	struct name_archive *r, const char *node, const struct name_archive_entry *entry)
{
	struct entry *e = records_find(&r->names, node);

	if (e != NULL) {
		e->entry = *entry;
		records_touch(&e->record);
	}
}

void
name_archive_claim(struct name_archive *r, const char *node, bool pending)
{
	struct entry *e = records_find(&r->names, node);

	if (e != NULL)
		records_claim(&e->record, pending);
}

void
name_archive_remove(struct name_archive *r, const char *node)
{
	struct entry *e = records_find(&r->names, node);

	if (e != NULL)
		records_remove(&r->names, e);
}

const struct name_archive_entry *
name_archive_last(const struct name_archive *r, const char *node)
{
	const struct entry *e = records_find(&r->names, node);

	return e != NULL ? &e->entry : NULL;
}

const struct name_archive_entry *
name_archive_find(const struct name_archive *r, const char *node)
{
	const struct name_archive_entry *e = r != NULL ? name_archive_last(r, node) : NULL;

	return e != NULL && !name_archive_is_forgotten(e) ? e : NULL;
}

void
name_archive_forget(struct name_archive *r, const char *node, int64_t now_s)
{
	const struct name_archive_entry *e = name_archive_last(r, node);

	name_archive_add(r, node,
		&(struct name_archive_entry){
			.signed_s = e != NULL ? MAX(now_s, e->signed_s + 1) : now_s});
}

uint64_t
name_archive_changes(const struct name_archive *r)
{
	return r->names.changes;
}

size_t
name_archive_count(const struct name_archive *r)
{
	return r->names.n;
}

static const char *
name_archive_walk_those(const struct name_archive *r, bool forgotten, size_t *at)
{
	while (*at < r->names.n) {
		const struct entry *e = r->names.all[(*at)++];

		if (name_archive_is_forgotten(&e->entry) == forgotten)
			return e->record.key;
	}
	return NULL;
}

const char *
name_archive_walk(const struct name_archive *r, size_t *at)
{
	return name_archive_walk_those(r, false, at);
}

const char *
name_archive_walk_forgotten(const struct name_archive *r, size_t *at)
{
	return name_archive_walk_those(r, true, at);
}

/* --- texts ---------------------------------------------------------------------------------- */

/* The CAs of the majority (found by Boyer-Moore majority vote): written once; names with other CAs
 * have them in their own entry. */
static const char *
name_archive_usual_cas(const struct name_archive *r)
{
	const char *usual = "";
	size_t votes = 0;

	for (size_t i = 0; i < r->names.n; i++) {
		const struct entry *e = r->names.all[i];
		const char *cas = e->entry.cas;

		if (votes == 0)
			usual = cas;
		if (strcmp(cas, usual) == 0)
			votes++;
		else
			votes--;
	}
	return usual;
}

static void
name_archive_add_text(const struct entry *e, const char *usual, const char **comma, struct buf *out)
{
	buf_printf(out,
		"%s\n{\"node\":\"%s\",\"serial\":\"%s\",\"signed\":%lld,\"expires\":%lld,\"key\":"
		"\"%s\"",
		*comma, e->record.key, e->entry.serial, (long long)e->entry.signed_s,
		(long long)e->entry.expires_s, e->entry.key);
	if (strcmp(e->entry.cas, usual) != 0)
		buf_printf(out, ",\"cas\":\"%s\"", e->entry.cas);
	buf_adds(out, "}");
	*comma = ",";
}

void
name_archive_use_cas(struct name_archive *r, const char *list, int64_t now_s)
{
	if (strcmp(r->cas, list) == 0)
		return;
	snprintf(r->cas, sizeof r->cas, "%s", list);
	r->cas_since_s = MAX(now_s, r->cas_since_s + 1);
}

const char *
name_archive_cas(const struct name_archive *r)
{
	return r->cas;
}

/* With equal times both replicas choose the same list. */
static bool
name_archive_has_older_cas(const struct name_archive *r, const struct name_archive *other)
{
	if (r->cas_since_s != other->cas_since_s)
		return r->cas_since_s < other->cas_since_s;
	return strcmp(r->cas, other->cas) < 0;
}

void
name_archive_text(const struct name_archive *r, struct buf *out)
{
	const char *comma = "", *usual = name_archive_usual_cas(r);

	if (r->cas[0] != '\0')
		buf_printf(out, "\"inUse\":{\"cas\":\"%s\",\"since\":%lld},", r->cas,
			(long long)r->cas_since_s);
	if (r->archives)
		buf_printf(out, "\"archives\":%d,", NAME_ARCHIVE_ARCHIVES);
	buf_printf(out, "\"archivedLists\":true,\"cas\":\"%s\",\"nodes\":[", usual);
	for (size_t i = 0; i < r->names.n; i++) {
		if (name_archive_name_is_first(r, r->names.all[i]))
			name_archive_add_text(r->names.all[i], usual, &comma, out);
	}
	buf_adds(out, "]");
}

void
name_archive_archive_text(const struct name_archive *r, unsigned i, struct buf *out)
{
	const char *comma = "", *usual = name_archive_usual_cas(r);

	buf_printf(out, "{\"cas\":\"%s\",\"nodes\":[", usual);
	for (size_t k = 0; k < r->names.n; k++) {
		if (name_archive_is_in(r->names.all[k], i))
			name_archive_add_text(r->names.all[k], usual, &comma, out);
	}
	buf_adds(out, "]}\n");
}

static int
read_entry(struct name_archive *r, const struct tree_node *map, const char *usual, struct err *err)
{
	const char *name = tree_text(tree_get(map, "node"), ""),
		   *serial = tree_text(tree_get(map, "serial"), ""),
		   *key = tree_text(tree_get(map, "key"), ""), /* older hubs do not write it */
			   *cas = tree_text(tree_get(map, "cas"), usual); /* nor this */
	struct name_archive_entry entry = {0};

	/* a later signature must be possible */
	if (!node_name_ok(name) || strlen(serial) >= sizeof entry.serial ||
		strspn(serial, "0123456789abcdef") != strlen(serial) ||
		tree_int(tree_get(map, "signed"), 0, INT64_MAX / 2, &entry.signed_s) < 0 ||
		tree_int(tree_get(map, "expires"), 0, INT64_MAX, &entry.expires_s) < 0)
		return err_set(err, EINVAL,
			"nodes.json:%u: an entry needs node, serial, signed and expires",
			map->line);
	strcpy(entry.serial, serial);
	if (strspn(key, "0123456789abcdef") == strlen(key))
		snprintf(entry.key, sizeof entry.key, "%s", key);
	if (ca_list_ok(cas))
		strcpy(entry.cas, cas);
	name_archive_add(r, name, &entry);
	return 0;
}

/* Older hubs do not write it. */
static void
name_archive_read_cas(struct name_archive *r, const struct tree_node *map)
{
	const char *cas = tree_text(tree_get(map, "cas"), "");
	int64_t since_s;

	if (cas[0] == '\0' || !ca_list_ok(cas) ||
		tree_int(tree_get(map, "since"), 0, INT64_MAX / 2, &since_s) < 0)
		return;
	strcpy(r->cas, cas);
	r->cas_since_s = since_s;
}

static int
read_text(struct name_archive *r, const char *text, struct err *err)
{
	struct tree *tree = NULL;
	int rc = tree_parse(&tree, "nodes.json", text, strlen(text), err);
	const char *usual;

	if (rc < 0)
		return rc;
	usual = tree_text(tree_get(tree_document(tree, 0), "cas"), "");
	r->archives = tree_get(tree_document(tree, 0), "archives") != NULL;
	r->with_lists = tree_get(tree_document(tree, 0), "archivedLists") != NULL;
	name_archive_read_cas(r, tree_get(tree_document(tree, 0), "inUse"));
	tree_each(tree_get(tree_document(tree, 0), "nodes"), map) {
		if ((rc = read_entry(r, map, usual, err)) < 0)
			break;
	}
	tree_free(&tree);
	return rc;
}

int
name_archive_merge(
	struct name_archive *r, const char *text, struct registry_heard *heard, struct err *err)
{
	struct name_archive *theirs = name_archive_new();
	int rc = text[0] != '\0' ? read_text(theirs, text, err) : 0;

	if (rc == 0) {
		heard->news |= records_unite(&r->names, &theirs->names, 0);
		heard->lacks |= r->archives && !theirs->archives;
		if (r->archives && !theirs->archives && text[0] != '\0')
			r->older_until_ms = r->now_ms + NAME_ARCHIVE_OLDER_MS;
		if (!theirs->with_lists && text[0] != '\0')
			r->older_lists_until_ms = r->now_ms + NAME_ARCHIVE_OLDER_MS;
		heard->lacks |= r->archives && !theirs->with_lists;
		r->archives |= theirs->archives;
		heard->lacks |= name_archive_has_older_cas(theirs, r);
		if (name_archive_has_older_cas(r, theirs)) {
			memcpy(r->cas, theirs->cas, sizeof r->cas);
			r->cas_since_s = theirs->cas_since_s;
		}
		heard->lacks |= records_first_lacks(&theirs->names, &r->names, 0);
	}
	name_archive_free(&theirs);
	return rc;
}

bool
name_archive_wants_archives(const struct name_archive *r)
{
	return r->archives || name_archive_records(r) > NAME_ARCHIVE_ARCHIVES_FROM;
}

void
name_archive_begin_archives(struct name_archive *r)
{
	r->archives = true;
}

bool
name_archive_has_archives(const struct name_archive *r)
{
	return r->archives;
}

void
name_archive_set_now(struct name_archive *r, uint64_t now_ms)
{
	r->now_ms = now_ms;
}

/* Notes which of ours the archive has, by its list `theirs`. True: it lacks some. */
static bool
name_archive_compare(const struct name_archive *r, unsigned i, struct records *theirs,
	struct records *ours, int64_t now_s)
{
	bool lacks = false;

	for (size_t k = 0; k < ours->n; k++) {
		struct record *e = ours->all[k];

		if (name_archive_home(e) != i)
			continue;
		if (records_unite_one(theirs, e, now_s))
			e->archived_ms = 0;
		else if (e->archived_ms == 0)
			e->archived_ms = MAX(r->now_ms, (uint64_t)1);
		lacks |= e->archived_ms == 0 && !e->claimed;
	}
	return lacks;
}

int
name_archive_merge_archive(struct name_archive *r, unsigned i, const char *text,
	struct registry_heard *heard, struct err *err)
{
	struct name_archive *theirs = name_archive_new();
	int rc = text[0] != '\0' ? read_text(theirs, text, err) : 0;

	if (rc == 0) {
		r->read[i] = true;
		heard->news |= records_unite(&r->names, &theirs->names, 0);
		heard->lacks |= name_archive_compare(r, i, &theirs->names, &r->names, 0);
	}
	name_archive_free(&theirs);
	return rc;
}

void
name_archive_lists_text(const struct name_archive *r, unsigned i, struct buf *out)
{
	auto_buf struct buf plain;

	buf_init(&plain, BUF_UNLIMITED);
	for (int at = ARCHIVED_JOINS; at < ARCHIVED_LISTS; at++) {
		const struct records *list = r->lists[at];
		const char *comma = "";

		buf_printf(
			&plain, "%s\"%s\":[", at == ARCHIVED_JOINS ? "{" : ",", list->kind->member);
		for (size_t k = 0; k < list->n; k++) {
			if (!name_archive_is_in(list->all[k], i))
				continue;
			buf_adds(&plain, comma);
			list->kind->text(list->all[k], &plain);
			comma = ",\n";
		}
		buf_adds(&plain, "]");
	}
	buf_adds(&plain, "}\n");
	gzip_text(out, buf_at(&plain), buf_len(&plain));
}

int
name_archive_merge_lists(struct name_archive *r, unsigned i, const char *text, int64_t now_s,
	struct registry_heard *heard, struct err *err)
{
	struct records theirs[ARCHIVED_LISTS];
	auto_buf struct buf plain;
	struct tree *tree = NULL;
	int rc = 0;

	buf_init(&plain, LISTS_MAX);
	if (text[0] != '\0' && (rc = unpack_text(&plain, text, strlen(text), err)) < 0)
		err_wrap(err, rc, "lists");
	else if (text[0] != '\0')
		rc = tree_parse(&tree, "lists", buf_at(&plain), buf_len(&plain), err);
	for (int at = ARCHIVED_JOINS; at < ARCHIVED_LISTS; at++) {
		theirs[at] = (struct records){.kind = r->lists[at]->kind};
		if (rc == 0 && tree != NULL)
			rc = records_read(&theirs[at], tree_document(tree, 0), "lists", err);
	}
	for (int at = ARCHIVED_JOINS; at < ARCHIVED_LISTS; at++) {
		if (rc == 0) {
			heard->news |= records_unite(r->lists[at], &theirs[at], now_s);
			heard->lacks |=
				name_archive_compare(r, i, &theirs[at], r->lists[at], now_s);
		}
		records_fini(&theirs[at]);
	}
	tree_free(&tree);
	return rc;
}

void
name_archive_archives_lack(struct name_archive *r, bool lack[NAME_ARCHIVE_ARCHIVES])
{
	size_t nowhere = 0;

	memset(lack, 0, NAME_ARCHIVE_ARCHIVES * sizeof *lack);
	for (int at = 0; at < ARCHIVED_LISTS && r->lists[at] != NULL; at++) {
		const struct records *list = r->lists[at];

		for (size_t i = 0; i < list->n; i++) {
			const struct record *e = list->all[i];

			if (e->archived_ms != 0 || e->claimed)
				continue;
			lack[name_archive_home(e)] = true;
			nowhere += !e->in_first;
		}
	}
	r->overflows = nowhere > NAME_ARCHIVE_ARCHIVES_FROM;
}
