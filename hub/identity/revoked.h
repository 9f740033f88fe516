/*
 * Whose certificates were revoked. Kept in one file (0600) under dataDir: for each such node when
 * that was, and the serial numbers of what was signed for it since, which alone are good; of hubs
 * the serial numbers that are refused. By serial numbers and not by dates: no clock can bring a
 * stolen certificate back. A revocation counts at once, and is written then or, on a full disk,
 * later (hub/manifests/list_file.h); a signature is on disk before the call returns; a file that
 * cannot be read or parsed is an error and never "nobody is revoked". Owned by hub/identity/certs,
 * on the hub's loop.
 *
 *	revoked_add(r, "edge-1", now_s);
 *	revoked_sign(r, "edge-1", serial, &err);	// by a token that was made for it
 *	if (revoked_refuses(r, "edge-1", serial)) ...
 */
#ifndef EDGEWAY_HUB_IDENTITY_REVOKED_H
#define EDGEWAY_HUB_IDENTITY_REVOKED_H

#include "base/core/buf.h"
#include "base/core/err.h"
#include "base/tls/pki.h"

/* Of each node so many of the newest are good: more than one, since a node may lose the newest in a
 * crash. */
enum { REVOKED_GOOD_MAX = 8 };
/* Certificates of hubs: as many as a node remembers. */
enum { REVOKED_HUBS_MAX = 256 };

struct revoked_hub {
	char serial[PKI_SERIAL_TEXT];
	int64_t at_s,
		until_s; /* since 1970; until_s: its certificate ends, and the entry with it */
};

struct revoked;

int revoked_open(struct revoked **r, const char *path, struct err *err);
void revoked_close(struct revoked **r);

/* Whatever was signed for the node so far is refused from now on. */
void revoked_add(struct revoked *r, const char *node, int64_t now_s);
/* A certificate with this serial number is being signed; to be called before anybody gets it. */
int revoked_sign(struct revoked *r, const char *node, const char *serial, struct err *err);
bool revoked_refuses(const struct revoked *r, const char *node, const char *serial);
size_t revoked_count(const struct revoked *r);
/* The hub's certificate with this serial number is refused from now on. -ENOSPC: there are too
 * many; -EINVAL: it is no serial number. */
int revoked_add_hub(
	struct revoked *r, const char *serial, int64_t until_s, int64_t now_s, struct err *err);
bool revoked_refuses_hub(const struct revoked *r, const char *serial);
/* Borrowed until the next change; how many. */
size_t revoked_hubs(const struct revoked *r, const struct revoked_hub **hubs);
/* How often that list has changed. */
uint64_t revoked_hub_changes(const struct revoked *r);
/* Tries to write what could not be written. */
void revoked_keep(struct revoked *r);
/* Why what is known is not in the file, "" it is. */
const char *revoked_problem(const struct revoked *r);

/* For replicas: all of it as text, and what another one has as well; of a node the later revocation
 * counts, of the same one every certificate signed since. *news: the other has what we did not;
 * *lacks: and we what it has not. */
void revoked_text(const struct revoked *r, struct buf *out);
int revoked_merge(struct revoked *r, const char *text, bool *news, bool *lacks, struct err *err);

#endif
