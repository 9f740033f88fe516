/*
 * edgewayctl bundle: what a bug report needs, in one archive (tar, gzip), without secrets
 * (ctl_redact.h): the daemon's configuration, state, metrics and log, the doctor's findings, and
 * how the machine is (addresses, routes, rules). What cannot be had is told in the list; a daemon
 * that is down is no reason to have nothing.
 */
#ifndef EDGEWAY_SRC_CTL_CTL_BUNDLE_H
#define EDGEWAY_SRC_CTL_CTL_BUNDLE_H

#include "base/core/buf.h"
#include "base/core/err.h"

/* file NULL: a name is made, in the current folder; "-": standard output, for a pod's. An existing
 * file is not overwritten. Answers
 * {"file","bytes","removed","members":[{"member","bytes","problem"}]}. */
int ctl_bundle(const char *socket, const char *file, struct buf *answer, struct err *err);

#endif
