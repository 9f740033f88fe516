/*
 * Tokens with which a node may ask for its certificate. Kept in one file (0600) that holds only hashes: who
 * reads it cannot join with it. A token as a person sees it is `<sha256 of the CA>.<secret>`; here
 * is only the secret: 8 characters of id, then 40 of chance, all hex.
 *
 * Rules (doc/protocol.md, "Joining"): a token made for a node serves that name alone, also again; a token
 * without a name serves only names that hold no certificate; every token ends after its time. The
 * clock is the caller's (seconds since 1970). Every change is on disk before the call returns.
 * Owned by the hub, on its loop.
 *
 *	tokens_create(t, "edge-1", 3600, now, secret, &err);
 *	rc = tokens_check(t, secret, "edge-1", false, now, &err);	// 0, -EACCES, -EEXIST
 */
#ifndef EDGEWAY_HUB_TOKENS_H
#define EDGEWAY_HUB_TOKENS_H

#include "base/buf.h"
#include "base/err.h"

enum {
	TOKEN_ID_LEN = 8,
	TOKEN_SECRET_LEN = 48,
	TOKENS_MAX = 4000, /* what a Secret of Kubernetes holds */
};

struct tokens;

/* Reads the file; one that does not exist is an empty one, one that does not parse is an error. */
int tokens_open(struct tokens **t, const char *path, struct err *err);
void tokens_close(struct tokens **t);

/* node "" : for any name that holds no certificate. -ENOSPC when there are too many. */
int tokens_create(struct tokens *t, const char *node, uint64_t ttl_s, int64_t now_s,
	char secret[TOKEN_SECRET_LEN + 1], struct err *err);
/* May `secret` get a certificate for `node`? `taken`: the name holds one. 0; -EACCES unknown, expired or
 * made for another node; -EEXIST taken. The reason in err is for the log, it tells more than a peer should know. */
int tokens_check(const struct tokens *t, const char *secret, const char *node, bool taken,
	int64_t now_s, struct err *err);
/* Is it a token for any name? Of one that tokens_check has allowed. */
bool tokens_serves_any(const struct tokens *t, const char *secret);
/* -ENOENT when there is none with this id. */
int tokens_revoke(struct tokens *t, const char *id, struct err *err);
/* Ends those that were made for the node; how many, or -errno. */
int tokens_revoke_node(struct tokens *t, const char *node, struct err *err);
/* [{"id":"..","node":"..","expires":"2026-11-21T06:00:00Z"}, ...] */
void tokens_list(const struct tokens *t, int64_t now_s, struct buf *out);
size_t tokens_count(const struct tokens *t);

/* For replicas: all of it as text, and what another one has as well. A token that was revoked by one of them stays so until it
 * would have expired. *news: the other has what we did not; *lacks: and we what it has not. */
void tokens_text(const struct tokens *t, struct buf *out);
int tokens_merge(struct tokens *t, const char *text, int64_t now_s, bool *news, bool *lacks,
	struct err *err);

#endif
