/*
 * A list of records under unique keys, in the order in which they were added: what the hub keeps of
 * tokens, joins, revocations (hub/identity/registry.h) and names (hub/identity/name_archive.h). A
 * kind says how a record is read from a list of a JSON document, written to one, and merged with
 * that of another replica. The list owns its records; a record stays where it is until it is
 * removed. Of a grouped kind the list counts the records whose keys are equal up to the first
 * slash. On the hub's loop. Leaf.
 *
 *	struct join { struct record record; int64_t until_s; };
 *	struct records list = {.kind = &join_kind};
 *	struct join *j = records_use(&list, key);
 *	records_text(&list, false, &out);
 */
#ifndef EDGEWAY_HUB_IDENTITY_RECORDS_H
#define EDGEWAY_HUB_IDENTITY_RECORDS_H

#include "base/conf/tree.h"
#include "base/core/buf.h"
#include "base/core/err.h"
#include "model/table.h"

/* The first member of every record; all others are plain data. */
struct record {
	struct table_node node;
	const char *key;
	/* Where the Secrets of the replicas have it in its current form
	 * (hub/identity/name_archive.h): since when its archive has, as far as is known (0: it has
	 * not), and whether the first one has */
	uint64_t archived_ms;
	bool in_first;
	bool claimed; /* by a claim that is not written yet: no archive may have it */
};

struct record_kind;

struct records {
	const struct record_kind *kind;
	struct table table, groups;
	void **all; /* oldest first */
	size_t n;
	uint64_t changes; /* counts records added and removed */
	/* Is the first Secret to have it, since no archive does for certain? NULL: always. */
	bool (*is_first)(const void *archive, const struct record *r);
	const void *archive;
};

typedef bool records_test_fn(const struct records *list, const void *record, int64_t now_s);

struct record_kind {
	const char *member; /* of the document */
	size_t size; /* of a record */
	bool needed; /* a document without the list is an error */
	bool grouped; /* keys are <group>/... */
	/* Adds what the document's element says; name: of the document, for errors. */
	int (*read)(
		struct records *to, const struct tree_node *map, const char *name, struct err *err);
	void (*text)(const void *record, struct buf *out);
	/* True for another replica's record that must not be added; NULL: all may. */
	records_test_fn *skips;
	/* Merges another replica's record into ours. True: that changed ours. NULL: never does. */
	bool (*merge)(struct records *to, void *ours, const void *theirs);
};

void records_fini(struct records *list);
void *records_find(const struct records *list, const char *key);
/* Finds the record, or adds one of zeros. */
void *records_use(struct records *list, const char *key);
void records_remove(struct records *list, void *record);
/* How many records of a grouped kind are of the group. */
size_t records_count(const struct records *list, const char *group);
/* Removes those for which the test is true. */
void records_drop(struct records *list, records_test_fn *test, int64_t now_s);
/* The record has changed: no Secret has it yet. */
void records_touch(struct record *r);
/* pending: a claim of it begins; else it was written into the first Secret. */
void records_claim(struct record *r, bool pending);
/* Writes the member of a document; first: only what the first Secret is to have. */
void records_text(const struct records *list, bool first, struct buf *out);
int records_read(
	struct records *list, const struct tree_node *document, const char *name, struct err *err);
/* Merges the records of `from`. True: `to` has changed. */
bool records_unite(struct records *to, const struct records *from, int64_t now_s);
/* The same for one record. */
bool records_unite_one(struct records *to, const struct record *from, int64_t now_s);
/* Notes which of ours the first Secret has, by its list `theirs`, which is united with ours. True:
 * it lacks some that it is to have. */
bool records_first_lacks(struct records *theirs, struct records *ours, int64_t now_s);

#endif
