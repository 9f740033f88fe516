/*
 * How resolv.conf is read and written: as a whole, by a rename where that is possible and in place
 * where it is mounted; what lay there (a file, a link, nothing) can be put back. The caller decides
 * what and when (resolvconf.c). Loop 0, or before it runs.
 */
#ifndef EDGEWAY_DNS_RESOLVCONF_RESOLVFILE_H
#define EDGEWAY_DNS_RESOLVCONF_RESOLVFILE_H

#include "dns/resolvconf/resolvkeep.h"

/* With the owner and mode of `like`. 0 or -errno. */
int resolvfile_replace(
	const char *path, const struct resolv_original *like, const char *text, size_t len);
/* What lies at the path now; absent and dangling are empty texts. -ENOTSUP: a device or the like,
 * which must neither be read nor be replaced. 0 or -errno, then `o` holds nothing. */
int resolvfile_read(const char *path, struct resolv_original *o);
/* Byte for byte what we wrote, or the beginning of it that a crash while it was cut left. */
bool resolvfile_is_ours(const struct resolv_original *o, const struct resolv_original *now);
/* 0 or -errno */
int resolvfile_put_back(const char *path, const struct resolv_original *o);

/* The file that we replaced. Who had it open to write into it goes on doing so. */
struct replaced {
	int fd; /* -1: none */
	char *text; /* when it was replaced */
	size_t len;
};

/* Before the file is read to be replaced. */
struct replaced replaced_open(const char *path);
void replaced_fini(struct replaced *r);
/* What is in it now. 0 or -errno; text on the heap. */
int replaced_read(int fd, char **text, size_t *len);
/* Is it still what lies there? */
bool replaced_is_at(int fd, const char *path);

#endif
