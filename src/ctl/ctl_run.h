/*
 * A program of the machine, for what it prints: bounded in time and size, and never one that asks
 * back.
 *
 *	rc = ctl_run((const char *const[]){"ip", "addr", NULL}, &out);
 */
#ifndef EDGEWAY_SRC_CTL_CTL_RUN_H
#define EDGEWAY_SRC_CTL_CTL_RUN_H

#include "base/core/buf.h"

enum { CTL_RUN_MS = 20 * 1000 };

/* Appends stdout and stderr, as far as out's limit goes. The exit status, or -errno: -ENOENT: there
 * is no such program; -ETIMEDOUT: it was ended. */
int ctl_run(const char *const *argv, struct buf *out);

#endif
