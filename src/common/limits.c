#include "src/common/limits.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/core/util.h"

void
limit_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = MIN(limit.rlim_max, (rlim_t)LIMIT_DESCRIPTORS);
	setrlimit(RLIMIT_NOFILE, &limit);
}

void
open_standard_descriptors(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR); /* the lowest free one */
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}
