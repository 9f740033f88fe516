/*
 * The revoked certificates. Kept in one file (0600) under dataDir: for each such node the time of
 * the revocation and the serial numbers signed for it since then, the only valid ones; for hubs the
 * refused serial numbers. Serial numbers rather than dates, so that no wrong clock makes a stolen
 * certificate valid again. A revocation takes effect at once, and is written then or, on a full
 * disk, later (hub/manifests/list_file.h). A signature is on disk before the call returns. A file
 * that cannot be read or parsed is an error and never "nobody is revoked". Owned by
 * hub/identity/certs, on the hub's loop.
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

/* For each node so many of the newest certificates are valid: more than one, since a node may lose
 * the newest in a crash. */
enum { REVOKED_GOOD_MAX = 8 };
/* Most revoked certificates of hubs: as many as a node remembers. */
enum { REVOKED_HUBS_MAX = 256 };

struct revoked_hub {
	char serial[PKI_SERIAL_TEXT];
	int64_t at_s,
		until_s; /* since 1970; until_s: its certificate expires, and the entry with it */
};

struct revoked;

int revoked_open(struct revoked **r, const char *path, struct err *err);
void revoked_close(struct revoked **r);

/* Refuses from now on everything signed for the node so far. */
void revoked_add(struct revoked *r, const char *node, int64_t now_s);
/* Records that a certificate with this serial number is being signed; call before anybody gets
 * it. */
int revoked_sign(struct revoked *r, const char *node, const char *serial, struct err *err);
bool revoked_refuses(const struct revoked *r, const char *node, const char *serial);
size_t revoked_count(const struct revoked *r);
/* Refuses the hub's certificate with this serial number from now on. -ENOSPC: there are too many;
 * -EINVAL: not a serial number. */
int revoked_add_hub(
	struct revoked *r, const char *serial, int64_t until_s, int64_t now_s, struct err *err);
bool revoked_refuses_hub(const struct revoked *r, const char *serial);
/* Borrowed until the next change; returns how many. */
size_t revoked_hubs(const struct revoked *r, const struct revoked_hub **hubs);
/* Counts the changes of that list. */
uint64_t revoked_hub_changes(const struct revoked *r);
/* Tries again to write what could not be written. */
void revoked_keep(struct revoked *r);
/* Why the state in memory is not in the file; "": it is. */
const char *revoked_problem(const struct revoked *r);

/* For replicas: revoked_text writes all of it, revoked_merge adds another replica's. For a node the
 * later revocation wins; for the same revocation all certificates signed since are valid. *news:
 * the other has entries that we did not have; *lacks: we have entries that it lacks. */
void revoked_text(const struct revoked *r, struct buf *out);
int revoked_merge(struct revoked *r, const char *text, bool *news, bool *lacks, struct err *err);

#endif
