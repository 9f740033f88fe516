/*
 * Tokens with which a node may ask for its certificate. Kept in one file (0600) that holds only
 * hashes: who reads it cannot join with it. A token as a person sees it is `<sha256 of the
 * CA>.<secret>`; here is only the secret: 8 characters of id, then 40 of chance, all hex.
 *
 * Here is what a token says: for which name it is, for how many joins, until when. Which names one
 * without a name may take, and what has been used, is hub/identity/join's to judge. The clock is
 * the caller's (seconds since 1970). A new token is on disk before the call returns; what is
 * revoked counts at once, and is written then or later (hub/manifests/list_file.h). Owned by the
 * hub, on its loop.
 *
 *	tokens_create(t, &(struct tokens_wish){.node = "edge-1", .uses = 1, .ttl_s = 3600}, now, secret, &err);
 *	rc = tokens_check(t, secret, "edge-1", now, &terms, &err);	// 0, -EACCES
 */
#ifndef EDGEWAY_HUB_IDENTITY_TOKENS_H
#define EDGEWAY_HUB_IDENTITY_TOKENS_H

#include "base/core/buf.h"
#include "base/core/err.h"
#include "hub/identity/joins.h"

enum {
	TOKEN_ID_LEN = 8,
	TOKEN_SECRET_LEN = 48,
	TOKENS_MAX = 4000, /* what a Secret of Kubernetes holds */
};

struct tokens;

/* Reads the file; one that does not exist is an empty one, one that does not parse is an error. */
int tokens_open(struct tokens **t, const char *path, struct err *err);
void tokens_close(struct tokens **t);

struct tokens_wish {
	const char *node; /* "": any name that is free */
	uint64_t uses; /* joins that it is good for; 0: any number, until it ends */
	uint64_t ttl_s;
};
/* -ENOSPC when there are too many. */
int tokens_create(struct tokens *t, const struct tokens_wish *wish, int64_t now_s,
	char secret[TOKEN_SECRET_LEN + 1], struct err *err);
struct tokens_terms {
	char id[TOKEN_ID_LEN + 1];
	bool any_name;
	uint64_t uses; /* 0: any number */
	int64_t expires_s;
};
/* What does `secret` let the node do? 0; -EACCES: nothing, since it is unknown, expired or made for
 * another node. The reason in err is for the log, it tells more than a peer should know. */
int tokens_check(const struct tokens *t, const char *secret, const char *node, int64_t now_s,
	struct tokens_terms *terms, struct err *err);
/* -ENOENT when there is none with this id. */
int tokens_revoke(struct tokens *t, const char *id, struct err *err);
/* Ends those that were made for the node; how many. */
unsigned tokens_revoke_node(struct tokens *t, const char *node);
/* Tries to write what could not be written. */
void tokens_keep(struct tokens *t);
/* Why what is known is not in the file, "" it is. */
const char *tokens_problem(const struct tokens *t);
/* [{"id":"..","node":"..","uses":1,"used":0,"expires":"2026-11-21T06:00:00Z"}, ...] */
void tokens_list(const struct tokens *t, const struct joins *joins, int64_t now_s, struct buf *out);
size_t tokens_count(const struct tokens *t);

/* For replicas: all of it as text, and what another one has as well. A token that was revoked by
 * one of them stays so until it would have expired. *news: the other has what we did not; *lacks:
 * and we what it has not. */
void tokens_text(const struct tokens *t, struct buf *out);
int tokens_merge(struct tokens *t, const char *text, int64_t now_s, bool *news, bool *lacks,
	struct err *err);

#endif
