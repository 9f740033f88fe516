#include "base/os/cgroup.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Version 1 expresses "no limit" as a number just below 2^63. */
static const uint64_t cgroup_unlimited = UINT64_C(1) << 62;

/* Applies the limit in one file; "max" means none. */
static void
cgroup_lower(uint64_t *least, const char *folder, const char *group, const char *name)
{
	auto_free char *path = xasprintf("%s%s/%s", folder, group, name);
	unsigned long long bytes = 0;
	FILE *f = fopen(path, "re");
	int n = f != NULL ? fscanf(f, "%llu", &bytes) : 0;

	if (f != NULL)
		fclose(f);
	if (n == 1 && bytes < cgroup_unlimited && bytes < *least)
		*least = bytes;
}

static void
cgroup_lower_by(uint64_t *least, const char *mount, bool v2, const char *group)
{
	auto_free char *v1 = xasprintf("%s/memory", mount);

	if (!v2) {
		cgroup_lower(least, v1, group, "memory.limit_in_bytes");
		return;
	}
	cgroup_lower(least, mount, group, "memory.max");
	cgroup_lower(least, mount, group, "memory.high");
}

/* Applies the limits of the group and all its parents up to the root, which in a container is its
 * own group. */
static void
cgroup_lower_by_all(uint64_t *least, const char *mount, bool v2, char *group)
{
	char *slash;

	for (;;) {
		size_t n = strlen(group);

		if (n > 0 && group[n - 1] == '/')
			group[n - 1] = '\0';
		cgroup_lower_by(least, mount, v2, group);
		slash = strrchr(group, '/');
		if (slash == NULL)
			return;
		*slash = '\0';
	}
}

/* Is `memory` one of the controllers of a line "4:cpu,memory:/group"? */
static bool
cgroup_has_memory(const char *controllers)
{
	const char *at = strstr(controllers, "memory");

	return at != NULL && (at == controllers || at[-1] == ',') &&
		(at[6] == '\0' || at[6] == ',');
}

uint64_t
cgroup_memory_limit(const char *membership, const char *mount)
{
	uint64_t least = UINT64_MAX;
	char *line = NULL;
	size_t size = 0;
	ssize_t n;
	FILE *f = fopen(membership, "re");

	while (f != NULL && (n = getline(&line, &size, f)) > 0) {
		char *controllers = strchr(line, ':'), *group;

		if (line[n - 1] == '\n')
			line[n - 1] = '\0';
		if (controllers == NULL || (group = strchr(++controllers, ':')) == NULL)
			continue;
		*group++ = '\0';
		if (*controllers == '\0' || cgroup_has_memory(controllers))
			cgroup_lower_by_all(&least, mount, *controllers == '\0', group);
	}
	free(line);
	if (f != NULL)
		fclose(f);
	return least;
}

uint64_t
cgroup_memory_share(void)
{
	uint64_t ram = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);

	return MIN(cgroup_memory_limit("/proc/self/cgroup", "/sys/fs/cgroup"), ram / 2);
}
