/*
 * Tokens with which a node may ask for its certificate: a list of the registry
 * (hub/identity/registry.h) that holds only hashes, so that whoever reads it cannot join with it.
 * The token shown to people is `<sha256 of the CA>.<secret>`; this file handles only the secret: 8
 * characters of id, then 40 random ones, all hex.
 *
 * A token says for which name it is valid, for how many joins, and until when. Which names a token
 * without a name may give, and which uses are left, is decided by hub/identity/join. The caller
 * passes the time (seconds since 1970). A new token is on disk before the call returns; a
 * revocation takes effect at once, and is written then or later. One that a replica revoked, or
 * found expired, stays so: the joins that used it are forgotten then (hub/identity/joins.h), and a
 * clock that was ahead and is set right must not bring it back.
 *
 *	tokens_create(r, &(struct tokens_wish){.node = "edge-1", .uses = 1, .ttl_s = 3600}, now,
 *		secret, &err);
 *	rc = tokens_check(r, secret, "edge-1", now, &terms, &err);	// 0, -EACCES
 */
#ifndef EDGEWAY_HUB_IDENTITY_TOKENS_H
#define EDGEWAY_HUB_IDENTITY_TOKENS_H

#include "hub/identity/registry.h"

enum {
	TOKEN_ID_LEN = 8,
	TOKEN_SECRET_LEN = 48,
	TOKENS_MAX = 4000, /* as many as fit into a Secret of Kubernetes */
};

extern const struct record_kind tokens_kind;

struct tokens_wish {
	const char *node; /* "": any name that is free */
	uint64_t uses; /* joins that it is valid for; 0: any number, until it expires */
	uint64_t ttl_s;
};
/* -ENOSPC when there are too many. */
int tokens_create(struct registry *r, const struct tokens_wish *wish, int64_t now_s,
	char secret[TOKEN_SECRET_LEN + 1], struct err *err);
struct tokens_terms {
	char id[TOKEN_ID_LEN + 1];
	bool any_name;
	uint64_t uses; /* 0: any number */
	int64_t expires_s;
};
/* Checks what `secret` allows the node. 0; -EACCES: nothing, since it is unknown, expired or made
 * for another node. The reason in err is for the log only: it tells more than a peer should
 * know. */
int tokens_check(const struct registry *r, const char *secret, const char *node, int64_t now_s,
	struct tokens_terms *terms, struct err *err);
/* -ENOENT when there is none with this id. */
int tokens_revoke(struct registry *r, const char *id, struct err *err);
/* Ends the tokens made for the node; returns how many. */
unsigned tokens_revoke_node(struct registry *r, const char *node);
/* Ends those that have expired, for good and for all replicas; returns how many have not ended
 * before. */
unsigned tokens_end(struct registry *r, int64_t now_s);
/* [{"id":"..","node":"..","uses":1,"used":0,"expires":"2026-11-21T06:00:00Z"}, ...] */
void tokens_list(const struct registry *r, int64_t now_s, struct buf *out);
size_t tokens_count(const struct registry *r);

#endif
