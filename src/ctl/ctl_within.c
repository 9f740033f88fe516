#include "src/ctl/ctl_within.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/core/util.h"

/* First it is only found (O_PATH), which does nothing to it, and what was found is opened. */
int
within_open(int folder, enum within within, const char *path, off_t most)
{
	const struct open_how how = {.flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_NO_MAGICLINKS |
			(within == WITHIN_ROOT ? RESOLVE_IN_ROOT : RESOLVE_BENEATH)};
	auto_fd int found = (int)syscall(SYS_openat2, folder, path, &how, sizeof how);
	char again[32];
	struct stat st;
	int fd;

	if (found < 0 || fstat(found, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if (st.st_size == 0 || st.st_size > most)
		return st.st_size == 0 ? -ENODATA : -EFBIG;
	snprintf(again, sizeof again, "/proc/self/fd/%d", found);
	fd = open(again, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	return fd < 0 ? -errno : fd;
}
