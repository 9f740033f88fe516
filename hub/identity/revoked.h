/*
 * The revoked certificates, two lists of the registry (hub/identity/registry.h): for each such node
 * the time of the revocation and the serial numbers signed for it since then, the only valid ones;
 * for hubs the refused serial numbers. Serial numbers rather than dates, so that no wrong clock
 * makes a stolen certificate valid again. A revocation takes effect at once, and is written then
 * or, on a full disk, later. A signature is on disk before the call returns. Of two replicas'
 * revocations of a node the later one wins; for the same one all certificates signed since are
 * valid.
 *
 *	revoked_add(r, "edge-1", now_s);
 *	revoked_sign(r, "edge-1", serial, &err);	// by a token that was made for it
 *	if (revoked_refuses(r, "edge-1", serial)) ...
 */
#ifndef EDGEWAY_HUB_IDENTITY_REVOKED_H
#define EDGEWAY_HUB_IDENTITY_REVOKED_H

#include "base/tls/pki.h"
#include "hub/identity/registry.h"

/* For each node so many of the newest certificates are valid: more than one, since a node may lose
 * the newest in a crash. */
enum { REVOKED_GOOD_MAX = 8 };
/* Most revoked certificates of hubs: as many as a node remembers. */
enum { REVOKED_HUBS_MAX = 256 };

struct revoked_hub {
	struct record record; /* key: the serial number */
	int64_t at_s,
		until_s; /* since 1970; until_s: its certificate expires, and the entry with it */
};

extern const struct record_kind revoked_kind, revoked_hub_kind;

/* Refuses from now on everything signed for the node so far. */
void revoked_add(struct registry *r, const char *node, int64_t now_s);
/* Records that a certificate with this serial number is being signed; call before anybody gets
 * it. */
int revoked_sign(struct registry *r, const char *node, const char *serial, struct err *err);
bool revoked_refuses(const struct registry *r, const char *node, const char *serial);
/* Appends the nodes with their valid serial numbers, for other nodes: [{"node","valid":"a,b"}]. */
void revoked_write(const struct registry *r, struct buf *out);
/* Refuses the hub's certificate with this serial number from now on. -ENOSPC: there are too many;
 * -EINVAL: not a serial number. */
int revoked_add_hub(
	struct registry *r, const char *serial, int64_t until_s, int64_t now_s, struct err *err);
bool revoked_refuses_hub(const struct registry *r, const char *serial);
/* Of struct revoked_hub. */
const struct records *revoked_hubs(const struct registry *r);

#endif
