/*
 * The nodes whose certificates were revoked. Kept in one file (0600) under dataDir: for each such node when that was, and
 * the serial numbers of what was signed for it since, which alone are good. By serial numbers and
 * not by dates: no clock can bring a stolen certificate back. Every change is on disk before the call
 * returns; a file that cannot be read or parsed is an error and never "nobody is revoked".
 * Owned by hub/certs, on the hub's loop.
 *
 *	revoked_add(r, "edge-1", now_s, &err);
 *	revoked_sign(r, "edge-1", serial, &err);	// by a token that was made for it
 *	if (revoked_refuses(r, "edge-1", serial)) ...
 */
#ifndef EDGEWAY_HUB_REVOKED_H
#define EDGEWAY_HUB_REVOKED_H

#include "base/buf.h"
#include "base/err.h"

/* Of each node so many of the newest are good: more than one, since a node may lose the newest in a crash. */
enum { REVOKED_GOOD_MAX = 8 };

struct revoked;

int revoked_open(struct revoked **r, const char *path, struct err *err);
void revoked_close(struct revoked **r);

/* Whatever was signed for the node so far is refused from now on. */
int revoked_add(struct revoked *r, const char *node, int64_t now_s, struct err *err);
/* A certificate with this serial number is being signed; to be called before anybody gets it. */
int revoked_sign(struct revoked *r, const char *node, const char *serial, struct err *err);
bool revoked_refuses(const struct revoked *r, const char *node, const char *serial);
size_t revoked_count(const struct revoked *r);

/* For replicas: all of it as text, and what another one has as well; of a node the later revocation counts, of the same
 * one every certificate signed since. *news: the other has what we did not; *lacks: and we what it has not. */
void revoked_text(const struct revoked *r, struct buf *out);
int revoked_merge(struct revoked *r, const char *text, bool *news, bool *lacks, struct err *err);

#endif
