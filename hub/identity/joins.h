/*
 * Which keys have used which tokens. A token that is valid for a limited number of joins
 * (hub/identity/tokens.h) is used up by them. A list of the registry (hub/identity/registry.h) that
 * keeps them until the token has ended (tokens_end), and shares them with the other replicas in the
 * Secret of the nodes, so that one write claims both the name and the token's use. Only the first
 * half of a key's SHA-256 and the token's id are stored: whoever reads the file cannot join with
 * it. A join appends a line to the list's journal (ledger_give).
 *
 *	if (joins_count(r, token) < uses) joins_enter(r, &entry);
 */
#ifndef EDGEWAY_HUB_IDENTITY_JOINS_H
#define EDGEWAY_HUB_IDENTITY_JOINS_H

#include "hub/identity/registry.h"
#include "model/mesh.h"

#define JOINS_JOURNAL "joins.journal"

enum { JOINS_TOKEN_TEXT = 9, JOINS_KEY_TEXT = 33 };

extern const struct record_kind joins_kind;

struct joins_entry {
	char token[JOINS_TOKEN_TEXT]; /* id; "": a token without a limit */
	char key[JOINS_KEY_TEXT];
	char node[MESH_NODE_MAX + 1];
	int64_t until_s; /* since 1970: when the token expires */
};

bool joins_has(const struct registry *r, const struct joins_entry *e);
/* How many joins have used the token. */
size_t joins_count(const struct registry *r, const char *token);
/* Adds in memory only, and may be withdrawn; the journal or registry_keep has it on the disk.
 * False: already there. */
bool joins_enter(struct registry *r, const struct joins_entry *e);
/* records_claim for the entry. */
void joins_claim(struct registry *r, const struct joins_entry *e, bool pending);
void joins_withdraw(struct registry *r, const struct joins_entry *e);
/* Call tokens_end with the same time before. True: some were dropped. */
bool joins_drop_ended(struct registry *r, int64_t now_s);
/* A line of the journal, behind whatever an earlier end has left there; on the heap. */
char *joins_line(const struct joins_entry *e);

#endif
