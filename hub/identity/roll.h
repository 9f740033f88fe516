/*
 * The names that hold a certificate, as the replicas of a hub tell each other: of each node its
 * last certificate's serial number, when it was signed and when it ends. Grows only; the later
 * signature counts. A name that was forgotten stays, with no serial number, so that every replica
 * learns of it; to roll_find and roll_walk it is not there. Owned by hub/identity/certs, on the
 * hub's loop. Leaf.
 *
 * One Secret has room for some 6 000 names (1 MiB, Kubernetes' bound). Beyond ROLL_ARCHIVES_FROM of
 * them there are ROLL_ARCHIVES more texts: every name has a home among those, by its hash. A name
 * is claimed in the first text, which all replicas read before they claim one, and leaves it
 * ROLL_MOVED_MS after it was seen in its home: until then every replica has seen it there as well,
 * or has heard that it cannot read.
 *
 *	roll_add(r, "edge-1", &(struct roll_entry){serial, signed_s, expires_s});
 *	roll_merge(r, text, &news, &lacks, &err);
 *	if (roll_has_archives(r))
 *		roll_merge_archive(r, i, text, &news, &lacks, &err);
 */
#ifndef EDGEWAY_HUB_IDENTITY_ROLL_H
#define EDGEWAY_HUB_IDENTITY_ROLL_H

#include "base/core/buf.h"
#include "base/core/err.h"
#include "base/tls/pki.h"
#include "hub/identity/joins.h"
#include "model/ca_list.h"

enum {
	ROLL_ARCHIVES = 16,
	ROLL_ARCHIVES_FROM = 2000, /* names */
	ROLL_OLDER_MS = 3600 *
		/* no name leaves the first text after a hub that knows no archives wrote it */
		1000,
	ROLL_MOVED_MS = 180 * 1000, /* more than a watch may be silent (hub/kube/follow.h) */
};

struct roll;

struct roll_entry {
	char serial[PKI_SERIAL_TEXT]; /* "": the name was forgotten */
	char key[JOINS_KEY_TEXT]; /* of its key's SHA-256 the first half; "": not told */
	/* that the node was given with it (model/ca_list.h); "": not told */
	char cas[CA_LIST_TEXT];
	int64_t signed_s, expires_s;
};

struct roll *roll_new(void);
void roll_free(struct roll **r);
/* In place of an older one, as told by somebody who signed it. */
void roll_add(struct roll *r, const char *node, const struct roll_entry *entry);
/* In place of what is known: two of one second, or of a clock that is behind, keep their order. */
void roll_sign(struct roll *r, const char *node, const struct roll_entry *entry);
/* As it was before roll_sign, whose claim of the name was not heard. */
void roll_put_back(struct roll *r, const char *node, const struct roll_entry *entry);
void roll_remove(struct roll *r, const char *node);
/* The CAs that a replica took into use last (model/ca_list.h), whichever it was; "" none is known
 * to have. */
void roll_use_cas(struct roll *r, const char *list, int64_t now_s);
const char *roll_cas(const struct roll *r);
/* Nobody's from now on. */
void roll_forget(struct roll *r, const char *node, int64_t now_s);
/* As roll_find, also of a name that was forgotten. */
const struct roll_entry *roll_last(const struct roll *r, const char *node);
/* As roll_walk, of those that were forgotten. */
const char *roll_walk_forgotten(const struct roll *r, size_t *at);
/* NULL when there is none; good until the roll changes. */
const struct roll_entry *roll_find(const struct roll *r, const char *node);
size_t roll_count(const struct roll *r);
/* How often a name came or went. */
uint64_t roll_changes(const struct roll *r);
/* Any order: *at starts at 0; NULL after the last. */
const char *roll_walk(const struct roll *r, size_t *at);
/* As the member "nodes" of an object, and what another replica has as well. *news: it has what we
 * did not; *lacks: and we what it has not. */
void roll_text(const struct roll *r, struct buf *out);
int roll_merge(struct roll *r, const char *text, bool *news, bool *lacks, struct err *err);
/* There are so many names, or another replica has archives: they are to be read. */
bool roll_wants_archives(const struct roll *r);
/* All of them have been read once, so names may leave the first text. */
void roll_begin_archives(struct roll *r);
/* Names may be in an archive alone. */
bool roll_has_archives(const struct roll *r);
/* now_ms: of a clock that only goes on; for what leaves the first text. */
void roll_set_now(struct roll *r, uint64_t now_ms);
/* As roll_text and roll_merge, of the i-th archive. */
void roll_archive_text(const struct roll *r, unsigned i, struct buf *out);
int roll_merge_archive(
	struct roll *r, unsigned i, const char *text, bool *news, bool *lacks, struct err *err);
/* Which archives do not have what we know? */
void roll_archives_lack(const struct roll *r, bool lack[ROLL_ARCHIVES]);

#endif
