/*
 * edgewayctl bundle: everything for a bug report in one archive (tar, gzip), without secrets
 * (ctl_redact.h): the daemon's configuration, state, metrics and log, the doctor's findings, and
 * the machine's addresses, routes and rules. What cannot be read is noted in the list; it works
 * even if the daemon is down.
 */
#ifndef EDGEWAY_SRC_CTL_CTL_BUNDLE_H
#define EDGEWAY_SRC_CTL_CTL_BUNDLE_H

#include "base/core/buf.h"
#include "base/core/err.h"

/* file NULL: a generated name, in the current folder; "-": standard output, for use in a pod. An
 * existing file is not overwritten. Returns
 * {"file","bytes","removed","members":[{"member","bytes","problem"}]}. */
int ctl_bundle(const char *socket, const char *file, struct buf *answer, struct err *err);

#endif
