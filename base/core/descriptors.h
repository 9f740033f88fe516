/*
 * Tells how many descriptors this process may open, and whether few are left. The kernel gives the
 * lowest free number, so a descriptor with number n means that n others are open. Any thread.
 *
 *	if (!descriptors_left(fd, 4))	// less than a quarter is free
 *		refuse;
 */
#ifndef EDGEWAY_BASE_CORE_DESCRIPTORS_H
#define EDGEWAY_BASE_CORE_DESCRIPTORS_H

#include "base/core/util.h"

/* RLIMIT_NOFILE, as it is now. */
uint64_t descriptors_limit(void);
/* Divides the limit into `part` parts: is one whole part still free? fd: a descriptor opened a
 * moment ago. */
bool descriptors_left(int fd, unsigned part);

#endif
