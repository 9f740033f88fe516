/*
 * Files of other processes, which may be in a container: what lies there is theirs to choose, and
 * we may be root. A symbolic link leads to what it is for them; what is no regular file is not
 * opened, as a FIFO has no end and a device may act.
 *
 *	auto_fd int root = open("/proc/17/root", O_PATH | O_DIRECTORY | O_CLOEXEC);
 *	rc = within_open(root, WITHIN_ROOT, "/etc/resolv.conf", 65536);
 */
#ifndef EDGEWAY_SRC_CTL_CTL_WITHIN_H
#define EDGEWAY_SRC_CTL_CTL_WITHIN_H

#include <sys/types.h>

enum within {
	WITHIN_ROOT, /* the folder is /proc/PID/root: absolute links and ".." end there */
	WITHIN_FOLDER, /* it is /proc/PID/cwd: what leads out of it is refused */
};

/* A descriptor for reading, or -errno: -EINVAL: no regular file; -EFBIG: of more than `most` bytes;
 * -ENODATA: of none, as the kernel's files are. */
int within_open(int folder, enum within within, const char *path, off_t most);

#endif
