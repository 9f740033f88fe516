/*
 * Keeper of /etc/resolv.conf: puts our lines in while we answer and the original back afterwards,
 * byte for byte, with mode, owner and link, also after kill -9 (what is needed for that lies in the
 * caller's dns_keep before the first write). What others write meanwhile is respected: then only
 * our lines go. Used on loop 0; blocking file I/O.
 *
 * A symlink is replaced by a file and made again at the end, what it points to is never written. A
 * file that cannot be renamed over (bind-mounted into a container) is rewritten in place.
 */
#ifndef EDGEWAY_DNS_RESOLVCONF_H
#define EDGEWAY_DNS_RESOLVCONF_H

#include "base/buf.h"
#include "dns/dns.h"

struct resolvconf;

struct resolvconf_config {
	const char *path;
	const char *cluster_domain;
	bool manage;
	struct dns_keep keep;
};

/* Puts back what an earlier run left, then reads. A missing file is an empty one; err only when it
 * cannot be read. */
int resolvconf_open(
	struct resolvconf **rc, const struct resolvconf_config *config, struct err *err);
void resolvconf_close(struct resolvconf **rc);
/* Our lines go in; again with another address when it changes. Reads again what others have written
 * since. */
int resolvconf_write(struct resolvconf *rc, uint32_t address, struct err *err);
/* Nothing to do is no error. */
int resolvconf_restore(struct resolvconf *rc, struct err *err);
/* Nameservers of the original, as resolvtext_upstreams. */
size_t resolvconf_upstreams(
	const struct resolvconf *rc, uint32_t own, struct addr *to, size_t n, size_t max);
/* A JSON object. */
void resolvconf_state(const struct resolvconf *rc, struct buf *out);

#endif
