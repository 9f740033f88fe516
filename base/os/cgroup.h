/*
 * The memory limit of this process's control group: cgroups(7), version 2 (memory.max, memory.high)
 * and version 1 (memory.limit_in_bytes); the lowest of the group's own limit and those of its
 * visible ancestors. In a container the file system shows the container's group at its root, and
 * its ancestors are not visible.
 *
 *	bytes = cgroup_memory_limit("/proc/self/cgroup", "/sys/fs/cgroup");
 */
#ifndef EDGEWAY_BASE_OS_CGROUP_H
#define EDGEWAY_BASE_OS_CGROUP_H

#include "base/core/util.h"

/* UINT64_MAX: no limit, or none is visible. */
uint64_t cgroup_memory_limit(const char *membership, const char *mount);
/* What this process may take: its group's limit, or half of the machine's memory if less. */
uint64_t cgroup_memory_share(void);

#endif
