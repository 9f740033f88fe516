/*
 * Runs a program of the machine for its output: limited in time and size, and without input.
 *
 *	rc = ctl_run((const char *const[]){"ip", "addr", NULL}, &out);
 */
#ifndef EDGEWAY_SRC_CTL_CTL_RUN_H
#define EDGEWAY_SRC_CTL_CTL_RUN_H

#include "base/core/buf.h"

enum { CTL_RUN_MS = 20 * 1000 };

/* Appends stdout and stderr up to out's limit. Returns the exit status, or -errno: -ENOENT: no such
 * program; -ETIMEDOUT: it was killed. */
int ctl_run(const char *const *argv, struct buf *out);

#endif
