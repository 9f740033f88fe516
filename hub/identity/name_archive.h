/*
 * The names that hold a certificate, in the form that the replicas of a hub exchange: for each node
 * its last certificate's serial number, when it was signed and when it expires. Entries are only
 * added; the later signature wins. A forgotten name stays, without a serial number, so that every
 * replica learns of it; name_archive_find and name_archive_walk skip it. Owned by
 * hub/identity/certs, on the hub's loop. Leaf.
 *
 * One Secret has room for about 6 000 names (1 MiB, Kubernetes' limit). With more than
 * NAME_ARCHIVE_ARCHIVES_FROM names, joins and revocations (name_archive_use_lists) there are
 * NAME_ARCHIVE_ARCHIVES more Secrets, the archives; the hash of a record's key selects its archive,
 * which has names in one text and the other records, packed, in another one. A record is written
 * into the first Secret, which all replicas read before they claim a name or a token's use, and
 * leaves it NAME_ARCHIVE_MOVED_MS after it was seen in its archive: by then every replica has seen
 * it there as well, or has noticed that it cannot read. Thousands of records that a replica brings
 * along, or notes at once, go into the archives alone; a claim goes into the first Secret alone
 * until it is written, since it may fail.
 *
 *	name_archive_add(r, "edge-1", &(struct name_archive_entry){serial, signed_s, expires_s});
 *	name_archive_merge(r, text, &heard, &err);
 *	if (name_archive_has_archives(r))
 *		name_archive_merge_archive(r, i, text, &heard, &err);
 */
#ifndef EDGEWAY_HUB_IDENTITY_NAME_ARCHIVE_H
#define EDGEWAY_HUB_IDENTITY_NAME_ARCHIVE_H

#include "base/core/buf.h"
#include "base/core/err.h"
#include "base/tls/pki.h"
#include "hub/identity/joins.h"
#include "model/ca_list.h"

enum {
	NAME_ARCHIVE_ARCHIVES = 16,
	NAME_ARCHIVE_ARCHIVES_FROM = 2000, /* records */
	NAME_ARCHIVE_OLDER_MS = 3600 *
		/* no record leaves the first Secret for so long after a hub wrote it that has no
		 * archives of such records */
		1000,
	NAME_ARCHIVE_MOVED_MS =
		180 * 1000, /* longer than a watch may be silent (hub/kube/follow.h) */
};

struct name_archive;

struct name_archive_entry {
	char serial[PKI_SERIAL_TEXT]; /* "": the name was forgotten */
	char key[JOINS_KEY_TEXT]; /* first half of the key's SHA-256; "": not told */
	/* the CAs that the node was given with it (model/ca_list.h); "": not told */
	char cas[CA_LIST_TEXT];
	int64_t signed_s, expires_s;
};

struct name_archive *name_archive_new(void);
void name_archive_free(struct name_archive **r);
/* Joins and revocations, which are archived as names are. Borrowed. */
void name_archive_use_lists(struct name_archive *r, struct records *joins, struct records *revoked);
/* Replaces an older entry; for an entry that its signer has reported. */
void name_archive_add(
	struct name_archive *r, const char *node, const struct name_archive_entry *entry);
/* Replaces the known entry, whatever its time: so two entries of the same second, or of a clock
 * that is behind, keep their order. */
void name_archive_sign(
	struct name_archive *r, const char *node, const struct name_archive_entry *entry);
/* Undoes name_archive_sign after its claim of the name failed. */
void name_archive_put_back(
	struct name_archive *r, const char *node, const struct name_archive_entry *entry);
/* records_claim for the name. */
void name_archive_claim(struct name_archive *r, const char *node, bool pending);
void name_archive_remove(struct name_archive *r, const char *node);
/* Sets or returns the CAs that any replica took into use last (model/ca_list.h); "": none known. */
void name_archive_use_cas(struct name_archive *r, const char *list, int64_t now_s);
const char *name_archive_cas(const struct name_archive *r);
/* Frees the name from now on. */
void name_archive_forget(struct name_archive *r, const char *node, int64_t now_s);
/* As name_archive_find, but also finds forgotten names. */
const struct name_archive_entry *name_archive_last(const struct name_archive *r, const char *node);
/* As name_archive_walk, for the forgotten names. */
const char *name_archive_walk_forgotten(const struct name_archive *r, size_t *at);
/* NULL if there is none, or no archive; valid until the next change. */
const struct name_archive_entry *name_archive_find(const struct name_archive *r, const char *node);
size_t name_archive_count(const struct name_archive *r);
/* Counts how often a name was added or removed. */
uint64_t name_archive_changes(const struct name_archive *r);
/* In any order: *at starts at 0; NULL after the last. */
const char *name_archive_walk(const struct name_archive *r, size_t *at);
/* name_archive_text writes the member "nodes" of an object, name_archive_merge adds another
 * replica's. */
void name_archive_text(const struct name_archive *r, struct buf *out);
int name_archive_merge(
	struct name_archive *r, const char *text, struct registry_heard *heard, struct err *err);
/* Returns true if there are enough names for archives, or another replica has archives: read
 * them. */
bool name_archive_wants_archives(const struct name_archive *r);
/* All archives have been read once, so names may leave the first text. */
void name_archive_begin_archives(struct name_archive *r);
/* Returns true if names may be in an archive only. */
bool name_archive_has_archives(const struct name_archive *r);
/* now_ms: of a monotonic clock; decides which names leave the first text. */
void name_archive_set_now(struct name_archive *r, uint64_t now_ms);
/* As name_archive_text and name_archive_merge, for the i-th archive. */
void name_archive_archive_text(const struct name_archive *r, unsigned i, struct buf *out);
int name_archive_merge_archive(struct name_archive *r, unsigned i, const char *text,
	struct registry_heard *heard, struct err *err);
/* The same for joins and revocations, packed. */
void name_archive_lists_text(const struct name_archive *r, unsigned i, struct buf *out);
int name_archive_merge_lists(struct name_archive *r, unsigned i, const char *text, int64_t now_s,
	struct registry_heard *heard, struct err *err);
/* Finds the archives that lack entries that we know. To be called before the texts are written. */
void name_archive_archives_lack(struct name_archive *r, bool lack[NAME_ARCHIVE_ARCHIVES]);

#endif
