/*
 * SIGHUP: the configuration is read again from its sources (file, environment, flags). Keys that a
 * running daemon can adopt are logged, and the caller copies them; for the others the log says that
 * they need a restart. A configuration with an error changes nothing.
 */
#ifndef EDGEWAY_SRC_COMMON_RELOAD_H
#define EDGEWAY_SRC_COMMON_RELOAD_H

#include "base/conf/opt.h"

/* Logs the differences between the running configuration and the one that was read. */
void reload_report(
	const char *part, const struct opt_program *p, const void *running, const void *read);

#endif
