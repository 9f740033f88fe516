/*
 * The names that hold a certificate, as the replicas of a hub tell each other: of each node its
 * last certificate's serial number, when it was signed and when it ends. Grows only; the later
 * signature counts. A name that was forgotten stays, with no serial number, so that every replica
 * learns of it; to name_archive_find and name_archive_walk it is not there. Owned by
 * hub/identity/certs, on the hub's loop. Leaf.
 *
 * One Secret has room for some 6 000 names (1 MiB, Kubernetes' bound). Beyond
 * NAME_ARCHIVE_ARCHIVES_FROM of them there are NAME_ARCHIVE_ARCHIVES more texts: every name has a
 * home among those, by its hash. A name is claimed in the first text, which all replicas read
 * before they claim one, and leaves it NAME_ARCHIVE_MOVED_MS after it was seen in its home: until
 * then every replica has seen it there as well, or has heard that it cannot read.
 *
 *	name_archive_add(r, "edge-1", &(struct name_archive_entry){serial, signed_s, expires_s});
 *	name_archive_merge(r, text, &news, &lacks, &err);
 *	if (name_archive_has_archives(r))
 *		name_archive_merge_archive(r, i, text, &news, &lacks, &err);
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
	NAME_ARCHIVE_ARCHIVES_FROM = 2000, /* names */
	NAME_ARCHIVE_OLDER_MS = 3600 *
		/* no name leaves the first text after a hub that knows no archives wrote it */
		1000,
	NAME_ARCHIVE_MOVED_MS =
		180 * 1000, /* more than a watch may be silent (hub/kube/follow.h) */
};

struct name_archive;

struct name_archive_entry {
	char serial[PKI_SERIAL_TEXT]; /* "": the name was forgotten */
	char key[JOINS_KEY_TEXT]; /* of its key's SHA-256 the first half; "": not told */
	/* that the node was given with it (model/ca_list.h); "": not told */
	char cas[CA_LIST_TEXT];
	int64_t signed_s, expires_s;
};

struct name_archive *name_archive_new(void);
void name_archive_free(struct name_archive **r);
/* In place of an older one, as told by somebody who signed it. */
void name_archive_add(
	struct name_archive *r, const char *node, const struct name_archive_entry *entry);
/* In place of what is known: two of one second, or of a clock that is behind, keep their order. */
void name_archive_sign(
	struct name_archive *r, const char *node, const struct name_archive_entry *entry);
/* As it was before name_archive_sign, whose claim of the name was not heard. */
void name_archive_put_back(
	struct name_archive *r, const char *node, const struct name_archive_entry *entry);
void name_archive_remove(struct name_archive *r, const char *node);
/* The CAs that a replica took into use last (model/ca_list.h), whichever it was; "" none is known
 * to have. */
void name_archive_use_cas(struct name_archive *r, const char *list, int64_t now_s);
const char *name_archive_cas(const struct name_archive *r);
/* Nobody's from now on. */
void name_archive_forget(struct name_archive *r, const char *node, int64_t now_s);
/* As name_archive_find, also of a name that was forgotten. */
const struct name_archive_entry *name_archive_last(const struct name_archive *r, const char *node);
/* As name_archive_walk, of those that were forgotten. */
const char *name_archive_walk_forgotten(const struct name_archive *r, size_t *at);
/* NULL when there is none; good until the roll changes. */
const struct name_archive_entry *name_archive_find(const struct name_archive *r, const char *node);
size_t name_archive_count(const struct name_archive *r);
/* How often a name came or went. */
uint64_t name_archive_changes(const struct name_archive *r);
/* Any order: *at starts at 0; NULL after the last. */
const char *name_archive_walk(const struct name_archive *r, size_t *at);
/* As the member "nodes" of an object, and what another replica has as well. *news: it has what we
 * did not; *lacks: and we what it has not. */
void name_archive_text(const struct name_archive *r, struct buf *out);
int name_archive_merge(
	struct name_archive *r, const char *text, bool *news, bool *lacks, struct err *err);
/* There are so many names, or another replica has archives: they are to be read. */
bool name_archive_wants_archives(const struct name_archive *r);
/* All of them have been read once, so names may leave the first text. */
void name_archive_begin_archives(struct name_archive *r);
/* Names may be in an archive alone. */
bool name_archive_has_archives(const struct name_archive *r);
/* now_ms: of a clock that only goes on; for what leaves the first text. */
void name_archive_set_now(struct name_archive *r, uint64_t now_ms);
/* As name_archive_text and name_archive_merge, of the i-th archive. */
void name_archive_archive_text(const struct name_archive *r, unsigned i, struct buf *out);
int name_archive_merge_archive(struct name_archive *r, unsigned i, const char *text, bool *news,
	bool *lacks, struct err *err);
/* Which archives do not have what we know? */
void name_archive_archives_lack(const struct name_archive *r, bool lack[NAME_ARCHIVE_ARCHIVES]);

#endif
