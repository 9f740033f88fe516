/*
 * What is needed to restore resolv.conf, as one record for dns_keep: a line of numbers, then the
 * bytes of the original and of what we wrote. Pure.
 */
#ifndef EDGEWAY_DNS_RESOLVCONF_RESOLVKEEP_H
#define EDGEWAY_DNS_RESOLVCONF_RESOLVKEEP_H

#include "base/core/util.h"

enum resolv_kind { RESOLV_FILE, RESOLV_LINK, RESOLV_MISSING };

struct resolv_original {
	enum resolv_kind kind;
	unsigned mode, uid, gid; /* of the file; of the target for a link */
	char *link; /* RESOLV_LINK: where it points */
	char *text; /* the file's bytes; the target's for a link */
	size_t len;
	char *ours; /* what we wrote, or are about to */
	size_t ours_len;
	char *before; /* what may be there instead: what we had written before; NULL: nothing */
	size_t before_len;
};

void resolv_original_fini(struct resolv_original *o);
char *resolv_original_pack(const struct resolv_original *o, size_t *len);
/* 0 or -EINVAL with *o empty. */
int resolv_original_unpack(struct resolv_original *o, const char *data, size_t len);

#endif
