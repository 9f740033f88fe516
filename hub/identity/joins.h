/*
 * Which keys have used which tokens: a token that is good for so many joins (hub/identity/tokens.h)
 * is used up by them. Kept in one file (0600) under dataDir until the token would have ended, and
 * told to the other replicas in the Secret of the nodes, so that the name and the token's use are
 * claimed by one write. Of keys only the first half of their SHA-256, of tokens the id: who reads
 * it cannot join with it. Owned by hub/identity/ledger, on the hub's loop.
 *
 *	if (joins_count(j, token) < uses) joins_add(j, &entry, &err);
 */
#ifndef EDGEWAY_HUB_IDENTITY_JOINS_H
#define EDGEWAY_HUB_IDENTITY_JOINS_H

#include "base/core/buf.h"
#include "base/core/err.h"
#include "model/mesh.h"

enum { JOINS_TOKEN_TEXT = 9, JOINS_KEY_TEXT = 33 };

struct joins;

struct joins_entry {
	char token[JOINS_TOKEN_TEXT]; /* id; "": no token that can be used up */
	char key[JOINS_KEY_TEXT];
	char node[MESH_NODE_MAX + 1];
	int64_t until_s; /* since 1970: the end of the token */
};

/* Reads the file; one that does not exist is an empty list, one that does not parse an error. */
int joins_open(struct joins **j, const char *path, struct err *err);
void joins_close(struct joins **j);

bool joins_has(const struct joins *j, const struct joins_entry *e);
/* How often the token was used. */
size_t joins_count(const struct joins *j, const char *token);
/* On disk when it returns 0; nothing has changed when it does not. Twice is once. */
int joins_add(struct joins *j, const struct joins_entry *e, int64_t now_s, struct err *err);
/* In memory alone, for a claim that may be taken back; joins_keep writes it. False: it is there
 * already. */
bool joins_enter(struct joins *j, const struct joins_entry *e);
void joins_withdraw(struct joins *j, const struct joins_entry *e);
/* As list_file_keep, without those that have ended. */
void joins_keep(struct joins *j, int64_t now_s);
/* Why what is known is not in the file, "" it is. */
const char *joins_problem(const struct joins *j);

/* For replicas: a member "joins" of an object, and what another one has as well. *news: the other
 * has what we did not;
 * *lacks: and we what it has not. */
void joins_text(const struct joins *j, struct buf *out);
int joins_merge(
	struct joins *j, const char *text, int64_t now_s, bool *news, bool *lacks, struct err *err);

#endif
