/*
 * How many descriptors this process may have open, and whether that is nearly so many: the kernel
 * gives the lowest number that is free, so that who gets number n knows of n others. Any thread.
 *
 *	if (!descriptors_left(fd, 4))	// less than a quarter is free
 *		refuse;
 */
#ifndef EDGEWAY_BASE_CORE_DESCRIPTORS_H
#define EDGEWAY_BASE_CORE_DESCRIPTORS_H

#include "base/core/util.h"

/* RLIMIT_NOFILE, as it is now. */
uint64_t descriptors_limit(void);
/* fd: made a moment ago. Is one of `part` parts of them all still free? */
bool descriptors_left(int fd, unsigned part);

#endif
