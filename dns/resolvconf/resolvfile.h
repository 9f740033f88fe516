/*
 * Reads and writes resolv.conf: as a whole, by a rename where that is possible and in place where
 * it is mounted; restores what was there (a file, a link, nothing). The caller decides what to
 * write and when (resolvconf.c). Loop 0, or before it runs.
 */
#ifndef EDGEWAY_DNS_RESOLVCONF_RESOLVFILE_H
#define EDGEWAY_DNS_RESOLVCONF_RESOLVFILE_H

#include "dns/resolvconf/resolvkeep.h"

enum { RESOLVED_STUB = 0x7f000035 }; /* 127.0.0.53, systemd-resolved */
/* Whether a link leads to a file of its own. */
bool resolved_owns(const char *link);

/* With the owner and mode of `like`. 0 or -errno. */
int resolvfile_replace(
	const char *path, const struct resolv_original *like, const char *text, size_t len);
/* Reads what is at the path now; a missing file and a dangling link are empty texts. -ENOTSUP: a
 * device or the like, which must be neither read nor replaced. Returns 0 or -errno; on an error `o`
 * holds nothing. */
int resolvfile_read(const char *path, struct resolv_original *o);
/* Whether the file is byte for byte what we wrote. */
bool resolvfile_is_whole(const struct resolv_original *o, const struct resolv_original *now);
/* The same, or what we had written before, or the beginning of either, which a crash during
 * truncation left. */
bool resolvfile_is_ours(const struct resolv_original *o, const struct resolv_original *now);
/* Waits shortly for systemd-resolved where the link leads to its file. 0 or -errno. */
int resolvfile_put_back(const char *path, const struct resolv_original *o);

/* The file that we replaced. A program that has it open can still write into it. */
struct replaced {
	int fd; /* -1: none */
	char *text; /* its content when it was replaced */
	size_t len;
};

/* Called before the file is read in order to replace it. */
struct replaced replaced_open(const char *path);
void replaced_fini(struct replaced *r);
/* The file's current content. 0 or -errno; text on the heap. */
int replaced_read(int fd, char **text, size_t *len);
/* Whether it is still the file at that path. */
bool replaced_is_at(int fd, const char *path);

#endif
