/*
 * SIGHUP: the configuration is read again from where it came (file, environment, flags). Keys that
 * a running daemon can adopt are said and left to the caller to copy; for the others the log says
 * that they wait for a restart. A configuration with an error changes nothing.
 */
#ifndef EDGEWAY_SRC_COMMON_RELOAD_H
#define EDGEWAY_SRC_COMMON_RELOAD_H

#include "base/conf/opt.h"

/* Logs the differences between what runs and what was read. */
void reload_report(
	const char *part, const struct opt_program *p, const void *running, const void *read);

#endif
