/*
 * The text of edgewayctl --help, and the durations that its options take.
 *
 *	fputs(ctl_usage, stdout);
 *	rc = ctl_read_seconds("1h", 1, 86400, &seconds, &err);
 */
#ifndef EDGEWAY_SRC_CTL_CTL_USAGE_H
#define EDGEWAY_SRC_CTL_CTL_USAGE_H

#include "base/core/err.h"

/* Commands grouped by purpose, then the options. */
extern const char ctl_usage[];

/* "90" (seconds), "90s", "30m", "1h", "7d": 0, or -EINVAL and what was expected. */
int ctl_read_seconds(
	const char *text, unsigned min, unsigned max, unsigned *seconds, struct err *err);

#endif
