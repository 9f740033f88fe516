/*
 * The registry of what the hub has given and taken back: lists of records (hub/identity/records.h)
 * with two stores, a file under dataDir (0600) and, with replicas, a member of a shared Secret
 * (hub/identity/share.h). Whoever owns a kind changes its list, then saves it:
 *
 *   revoked.json   nodes and hubs whose certificates are revoked   hub/identity/revoked.h
 *   joins.json     which key used which token                      hub/identity/joins.h
 *   tokens.json    join tokens, by their hash                      hub/identity/tokens.h
 *
 * What must not be lost is written before it takes effect (registry_save). What must take effect at
 * once is in force in memory and written as soon as possible (registry_keep, registry_retry). A
 * file that cannot be read is an error, never an empty list. File I/O blocks, on the hub's loop.
 * Only a join, of which thousands may come at once, does not wait for the whole list: its line goes
 * to joins.journal (hub/identity/record_writer.h), which counts until joins.json is next written.
 *
 * Names are records without such a file: a node's file is its certificate, and thousands of names
 * need several Secrets (hub/identity/ledger.h, name_archive.h). Claims that wait for a Secret
 * (share_claims.h) and requests at the API server (approvals.h) are not records: nothing stores
 * them here.
 *
 *	registry_open(&r, dir, &err);
 *	rc = registry_save(r, REGISTRY_TOKENS, &err);
 *	registry_merge(r, REGISTRY_TOKENS, text, now_s, &heard, &err);
 */
#ifndef EDGEWAY_HUB_IDENTITY_REGISTRY_H
#define EDGEWAY_HUB_IDENTITY_REGISTRY_H

#include "hub/identity/records.h"

enum registry_list {
	REGISTRY_REVOKED,
	REGISTRY_HUBS, /* in the file of REGISTRY_REVOKED, which stands for both */
	REGISTRY_JOINS,
	REGISTRY_TOKENS,
	REGISTRY_LISTS
};

struct registry;

/* Reads the files. A missing file is an empty list; one that does not parse is an error. */
int registry_open(struct registry **r, const char *dir, struct err *err);
void registry_close(struct registry **r);

struct records *registry_list(const struct registry *r, enum registry_list which);
/* Writes the file or, with an error, nothing: then the caller reverts its change. */
int registry_save(struct registry *r, enum registry_list file, struct err *err);
/* Writes the file now, or later: the list is in force anyway. */
void registry_keep(struct registry *r, enum registry_list file);
/* The same with the next registry_retry, for what a Secret has. */
void registry_keep_later(struct registry *r, enum registry_list file);
/* held: lists with a journal are another hub's, which may have lines there that this one does not
 * know. They are written once that is over, not at the end. */
void registry_hold(struct registry *r, bool held);
/* Writes what could not be written, or was to be written later. */
void registry_retry(struct registry *r);
/* Why the file has not what is in force, for the first such file; "": all have. */
const char *registry_problem(const struct registry *r);

/* registry_text writes the document, registry_merge adds another replica's ("": an empty one). */
struct registry_heard {
	bool news; /* the other has entries that we did not have */
	bool lacks; /* we have entries that it lacks */
};
/* first: only what the first Secret is to have (hub/identity/name_archive.h). */
void registry_text(const struct registry *r, enum registry_list file, bool first, struct buf *out);
/* Sets what is true in *heard, and leaves the rest. */
int registry_merge(struct registry *r, enum registry_list file, const char *text, int64_t now_s,
	struct registry_heard *heard, struct err *err);

#endif
