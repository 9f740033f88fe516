#include "base/core/descriptors.h"

#include <sys/resource.h>

uint64_t
descriptors_limit(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_NOFILE, &limit) < 0 ? 1024 : limit.rlim_cur;
}

bool
descriptors_left(int fd, unsigned part)
{
	uint64_t limit = descriptors_limit();

	return (uint64_t)fd < limit - limit / part;
}
