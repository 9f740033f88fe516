/*
 * Which keys have used which tokens. A token that is valid for a limited number of joins
 * (hub/identity/tokens.h) is used up by them. Kept in one file (0600) under dataDir until the
 * token's own expiry, and shared with the other replicas in the Secret of the nodes, so that one
 * write claims both the name and the token's use. Only the first half of a key's SHA-256 and the
 * token's id are stored: whoever reads the file cannot join with it. Owned by hub/identity/ledger,
 * on the hub's loop.
 *
 *	if (joins_count(j, token) < uses) joins_add(j, &entry, now_s, &err);
 */
#ifndef EDGEWAY_HUB_IDENTITY_JOINS_H
#define EDGEWAY_HUB_IDENTITY_JOINS_H

#include "base/core/buf.h"
#include "base/core/err.h"
#include "model/mesh.h"

enum { JOINS_TOKEN_TEXT = 9, JOINS_KEY_TEXT = 33 };

struct joins;

struct joins_entry {
	char token[JOINS_TOKEN_TEXT]; /* id; "": a token without a limit */
	char key[JOINS_KEY_TEXT];
	char node[MESH_NODE_MAX + 1];
	int64_t until_s; /* since 1970: when the token expires */
};

/* Reads the file. A missing file is an empty list; one that does not parse is an error. */
int joins_open(struct joins **j, const char *path, struct err *err);
void joins_close(struct joins **j);

bool joins_has(const struct joins *j, const struct joins_entry *e);
/* How many joins have used the token. */
size_t joins_count(const struct joins *j, const char *token);
/* On disk when it returns 0; nothing has changed otherwise. Adding an entry twice adds it once. */
int joins_add(struct joins *j, const struct joins_entry *e, int64_t now_s, struct err *err);
/* Adds in memory only, for a claim that may be withdrawn; joins_keep writes it. False: already
 * there. */
bool joins_enter(struct joins *j, const struct joins_entry *e);
void joins_withdraw(struct joins *j, const struct joins_entry *e);
/* As list_file_keep, without the expired entries. */
void joins_keep(struct joins *j, int64_t now_s);
/* Why the entries in memory are not in the file; "": they are. */
const char *joins_problem(const struct joins *j);

/* For replicas: joins_text writes a member "joins" of an object, joins_merge adds another
 * replica's. *news: the other has entries that we did not have; *lacks: we have entries that it
 * lacks. */
void joins_text(const struct joins *j, struct buf *out);
int joins_merge(
	struct joins *j, const char *text, int64_t now_s, bool *news, bool *lacks, struct err *err);

#endif
