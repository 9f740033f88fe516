/*
 * Keeper of /etc/resolv.conf: puts our lines in while we answer and the original back afterwards,
 * byte for byte, with mode, owner and link, also after kill -9 (what is needed for that lies in the
 * caller's dns_keep before the first write). What others write meanwhile is respected: then only
 * our lines go. Used on loop 0; blocking file I/O.
 *
 * A symlink is replaced by a file and made again at the end, what it points to is never written. A
 * file that cannot be renamed over (bind-mounted into a container) is rewritten in place.
 *
 * resolvconf_check is for whoever watches the file (dns/resolvconf/resolvwatch): what another
 * program wrote becomes the original, and our lines go back in.
 */
#ifndef EDGEWAY_DNS_RESOLVCONF_RESOLVCONF_H
#define EDGEWAY_DNS_RESOLVCONF_RESOLVCONF_H

#include "base/core/buf.h"
#include "dns/dns.h"

struct resolvconf;

struct resolvconf_config {
	const char *path;
	const char *cluster_domain;
	/* Where systemd-resolved writes the servers that it asks itself; NULL: nowhere. */
	const char *resolved;
	bool manage;
	bool stay; /* what an earlier run left is not undone: we go on where it was */
	struct dns_keep keep;
};

/* Puts back what an earlier run left, then reads. A missing file is an empty one; err only when it
 * cannot be read. */
int resolvconf_open(
	struct resolvconf **rc, const struct resolvconf_config *config, struct err *err);
void resolvconf_close(struct resolvconf **rc);
/* Our lines go in; again with another address when it changes. Reads again what others have written
 * since. RESOLVCONF_LEFT: see dns_resolvconf_write. */
int resolvconf_write(struct resolvconf *rc, uint32_t address, struct err *err);
enum resolvconf_seen {
	RESOLVCONF_SAME, /* nobody has touched it */
	RESOLVCONF_READ, /* somebody has, and what they wrote is the original now */
	RESOLVCONF_MENDED, /* the same, and our lines are back */
};

/* Looks whether another program has changed the file. `mend`: puts our lines back where they were;
 * without it the file stays theirs. One that was deleted keeps the original it had. -errno when it
 * cannot be read or written. */
int resolvconf_check(struct resolvconf *rc, bool mend, struct err *err);
/* Nothing to do is no error. */
int resolvconf_restore(struct resolvconf *rc, struct err *err);
/* Appends the nameservers of the original, maybe some twice. Returns the new n. systemd-resolved's
 * own address (127.0.0.53) stands for the servers that it asks: once our line is in the file it
 * would ask us. */
size_t resolvconf_upstreams(
	const struct resolvconf *rc, uint32_t own, struct addr *to, size_t n, size_t max);
/* Undoes what a run that was killed left there, and nothing else. 1 when there was something. */
int resolvconf_recover(const char *path, const struct dns_keep *keep, struct err *err);
/* A JSON object. */
void resolvconf_state(const struct resolvconf *rc, struct buf *out);

#endif
