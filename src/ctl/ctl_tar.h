/*
 * A tar archive (POSIX.1-1988 ustar) of regular files in memory. Pure. The images that edgewayctl
 * runs in have no program or library for it.
 *
 *	tar_add(&out, "bundle/state.json", bytes, len, now_s);
 *	tar_end(&out);
 */
#ifndef EDGEWAY_SRC_CTL_CTL_TAR_H
#define EDGEWAY_SRC_CTL_CTL_TAR_H

#include "base/core/buf.h"

enum { TAR_NAME_MAX = 99 };

/* Appends one file, readable only by its owner. name: at most TAR_NAME_MAX bytes; out must be
 * unlimited. */
void tar_add(struct buf *out, const char *name, const void *data, size_t len, uint64_t modified_s);
void tar_end(struct buf *out);

#endif
