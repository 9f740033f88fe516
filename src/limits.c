#include "src/limits.h"

#include <sys/resource.h>

#include "base/util.h"

void
limit_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = MIN(limit.rlim_max, (rlim_t)LIMIT_DESCRIPTORS);
	setrlimit(RLIMIT_NOFILE, &limit);
}
