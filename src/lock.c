#include "src/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"

static ssize_t
write_pid(int fd)
{
	char text[16];
	int n = snprintf(text, sizeof text, "%d\n", (int)getpid());

	return pwrite(fd, text, (size_t)n, 0);
}

int
lock_take(const char *data_dir, int *out, struct err *err)
{
	auto_free char *path = xasprintf("%s/lock", data_dir);
	auto_fd int fd = -1;
	char holder[32] = "";
	bool read_only = false;
	int rc = mkdir_p(data_dir, 0700);

	if (rc < 0)
		return err_set(err, rc,
			"cannot make the data folder %s: %s; set dataDir to a folder that this "
			"user can write",
			data_dir, strerror(-rc));
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 && errno == EROFS) {
		read_only = true;
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
		if (fd < 0 && errno == ENOENT)
			return 0;
	}
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
	if (!read_only && (ftruncate(fd, 0) < 0 || write_pid(fd) < 0))
		return err_set(err, errno, "cannot write %s: %s", path, strerror(errno));
	*out = take_fd(&fd);
	return 0;
}

/* Process that listens at the name, 0 when it cannot be told. */
static int
listener_of(const struct sockaddr_un *name, socklen_t len)
{
	auto_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct ucred who = {0};
	socklen_t size = sizeof who;

	if (fd < 0 || connect(fd, (const struct sockaddr *)name, len) < 0 ||
		getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) < 0)
		return 0;
	return who.pid;
}

int
lock_network(int *out, struct err *err)
{
	const struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "\0edgeway-agent"};
	const socklen_t len = offsetof(struct sockaddr_un, sun_path) + sizeof "\0edgeway-agent" - 1;
	auto_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return err_set(err, errno, "cannot open a socket: %s", strerror(errno));
	if (bind(fd, (const struct sockaddr *)&name, len) < 0) {
		if (errno != EADDRINUSE)
			return err_set(err, errno,
				"cannot take the lock of the network namespace: %s",
				strerror(errno));
		return err_set(err, EBUSY,
			"another edgeway-agent serves this network namespace: process %d; stop it",
			listener_of(&name, len));
	}
	if (listen(fd, 1) < 0)
		return err_set(err, errno, "cannot listen: %s", strerror(errno));
	*out = take_fd(&fd);
	return 0;
}

void
lock_inherit(int lock, int network_lock)
{
	if (lock >= 0 && (ftruncate(lock, 0) < 0 || write_pid(lock) < 0))
		log_warn("agent", "the lock names the agent before this one: %s", strerror(errno));
	if (listen(network_lock, 1) < 0) /* SO_PEERCRED is whoever said this last */
		log_warn("agent", "the network's lock names the agent before this one: %s",
			strerror(errno));
}

bool
lock_is_of(const char *data_dir, int fd)
{
	auto_free char *path = xasprintf("%s/lock", data_dir);
	struct stat ours, its;

	return stat(path, &ours) == 0 && fstat(fd, &its) == 0 && ours.st_dev == its.st_dev &&
		ours.st_ino == its.st_ino;
}
