#include "src/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

int
lock_take(const char *data_dir, int *out, struct err *err)
{
	auto_free char *path = xasprintf("%s/lock", data_dir);
	auto_fd int fd = -1;
	char holder[32] = "";
	int rc = mkdir_p(data_dir, 0700);

	if (rc < 0)
		return err_set(err, rc,
			"cannot make the data folder %s: %s; set dataDir to a folder that this "
			"user can write",
			data_dir, strerror(-rc));
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_set(err, errno, "cannot open %s: %s", path, strerror(errno));
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK)
			return err_set(err, errno, "cannot lock %s: %s", path, strerror(errno));
		if (pread(fd, holder, sizeof holder - 1, 0) < 0)
			holder[0] = '\0';
		holder[strspn(holder, "0123456789")] = '\0';
		return err_set(err, EBUSY,
			"%s is in use by process %s; stop it, or set another dataDir", data_dir,
			holder[0] != '\0' ? holder : "(unknown)");
	}
	if (ftruncate(fd, 0) < 0 || dprintf(fd, "%d\n", (int)getpid()) < 0)
		return err_set(err, errno, "cannot write %s: %s", path, strerror(errno));
	*out = take_fd(&fd);
	return 0;
}
