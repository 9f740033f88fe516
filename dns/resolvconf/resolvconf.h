/*
 * Manages /etc/resolv.conf: inserts our lines while we answer and restores the original afterwards,
 * byte for byte, with mode, owner and symlink, also after kill -9 (what is needed for that is
 * stored in the caller's dns_keep before the first write). Changes by other programs in the
 * meantime are kept: then only our lines are removed. Used on loop 0; blocking file I/O.
 *
 * A symlink is replaced by a file and recreated at the end; its target is never written. A file
 * that cannot be renamed over (bind-mounted into a container) is rewritten in place.
 *
 * resolvconf_check is for the watcher of the file (dns/resolvconf/resolvwatch): what another
 * program wrote, there or into the target of the link that was there, becomes the original, and our
 * lines are inserted again.
 */
#ifndef EDGEWAY_DNS_RESOLVCONF_RESOLVCONF_H
#define EDGEWAY_DNS_RESOLVCONF_RESOLVCONF_H

#include "base/core/buf.h"
#include "dns/dns.h"

struct resolvconf;

struct resolvconf_config {
	const char *path;
	const char *cluster_domain;
	/* Where systemd-resolved writes the servers that it queries; NULL: nowhere. */
	const char *resolved;
	bool manage;
	bool stay; /* a predecessor's lines are not undone: resolvconf_settle decides */
	struct dns_keep keep;
};

/* Restores what an earlier run left, then reads the file. A missing file counts as empty. Fails
 * only if `manage` is set and the file cannot be read. */
int resolvconf_open(
	struct resolvconf **rc, const struct resolvconf_config *config, struct err *err);
void resolvconf_close(struct resolvconf **rc);
/* Inserts our lines; call it again when the address changes. First reads again what other programs
 * have written since. RESOLVCONF_LEFT: see dns_resolvconf_write. */
int resolvconf_write(struct resolvconf *rc, uint32_t address, struct err *err);
enum resolvconf_seen {
	RESOLVCONF_SAME, /* no other program has changed it */
	RESOLVCONF_READ, /* another program has; its text is the original now */
	RESOLVCONF_MENDED, /* the same, and our lines are back */
};

/* Checks whether another program has changed the file. `mend`: insert our lines again; without it
 * the other program's text stays. If the file was deleted, its original is kept. -errno when it
 * cannot be read or written: the next check tries again. */
int resolvconf_check(struct resolvconf *rc, bool mend, struct err *err);
/* Where the link that is or was there leads; on the heap, NULL: it was none. */
char *resolvconf_target(const struct resolvconf *rc);
/* The path is or was a link whose target does not exist, or is empty: it may come any moment. */
bool resolvconf_dangles(const struct resolvconf *rc);
/* Succeeds if there is nothing to restore. */
int resolvconf_restore(struct resolvconf *rc, struct err *err);
/* After `stay`: the predecessor has let go (ours), and its lines are undone unless `manage` is set;
 * or it goes on, and lines are undone that it had not written. */
void resolvconf_settle(struct resolvconf *rc, bool ours);
/* Appends the nameservers of the original; duplicates are possible. Returns the new n.
 * systemd-resolved's own address (127.0.0.53) is replaced by the servers that it queries, because
 * it would query us once our line is in the file. */
size_t resolvconf_upstreams(
	const struct resolvconf *rc, uint32_t own, struct addr *to, size_t n, size_t max);
/* Without a running agent: undoes what a killed run left there, as resolvconf_open does at a start.
 * Returns 1 if there was something. */
int resolvconf_recover(const char *path, const struct dns_keep *keep, struct err *err);
/* A JSON object. */
void resolvconf_state(const struct resolvconf *rc, struct buf *out);

#endif
