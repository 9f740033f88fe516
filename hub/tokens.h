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
	TOKENS_MAX = 10000,
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
/* -ENOENT when there is none with this id. */
int tokens_revoke(struct tokens *t, const char *id, struct err *err);
/* Ends those that were made for the node; how many, or -errno. */
int tokens_revoke_node(struct tokens *t, const char *node, struct err *err);
/* [{"id":"..","node":"..","expires":"2026-11-21T06:00:00Z"}, ...] */
void tokens_list(const struct tokens *t, int64_t now_s, struct buf *out);
size_t tokens_count(const struct tokens *t);

#endif
