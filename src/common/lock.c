#include "src/common/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/core/log.h"
#include "base/core/sock.h"
#include "base/os/port_holder.h"

static ssize_t
write_pid(int fd)
{
	char text[16];
	int n = snprintf(text, sizeof text, "%d\n", (int)getpid());

	return pwrite(fd, text, (size_t)n, 0);
}

/* A full or broken disk must not stop an agent. */
static bool
is_passing(int error)
{
	return error == EROFS || error == ENOSPC || error == EDQUOT;
}

int
lock_take(const char *data_dir, int *out, struct err *err)
{
	auto_free char *path = xasprintf("%s/lock", data_dir);
	auto_fd int fd = -1;
	char holder[32] = "";
	bool unwritable = false;
	int rc = mkdir_p(data_dir, 0700);

	if (rc < 0)
		return err_set(err, rc,
			"cannot make the data folder %s: %s; set dataDir to a folder that this "
			"user can write",
			data_dir, strerror(-rc));
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 && is_passing(errno)) {
		unwritable = true;
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
	if (!unwritable && (ftruncate(fd, 0) < 0 || write_pid(fd) < 0) && !is_passing(errno))
		return err_set(err, errno, "cannot write %s: %s", path, strerror(errno));
	*out = take_fd(&fd);
	return 0;
}

static int
network_is_taken(struct err *err)
{
	char who[PORT_HOLDER_TEXT_MAX];
	bool known = port_holder("udp", LOCK_NETWORK_ADDRESS, LOCK_NETWORK_PORT, who);

	return err_set(err, EBUSY,
		"another edgeway-agent serves this network namespace, or UDP port %d of "
		"127.9.251.1, "
		"which tells that, is in use: by %s; stop it",
		LOCK_NETWORK_PORT, known ? who : "an unknown process");
}

int
lock_network(int *out, struct err *err)
{
	const struct addr at = addr_ipv4(LOCK_NETWORK_ADDRESS, LOCK_NETWORK_PORT);
	const int yes = 1, little = 0;
	auto_fd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	/* IP_FREEBIND: lo may be down. What is sent there is never read. */
	if (fd < 0 || setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &yes, sizeof yes) < 0 ||
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &little, sizeof little) < 0)
		return err_set(err, errno, "cannot open a socket: %s", strerror(errno));
	if (bind(fd, &at.sa, at.len) < 0) {
		if (errno == EADDRINUSE)
			return network_is_taken(err);
		return err_set(err, errno,
			"cannot take the lock of the network namespace, UDP port %d of "
			"127.9.251.1: %s%s",
			LOCK_NETWORK_PORT, strerror(errno),
			errno == EACCES ? "; run as root or with CAP_NET_BIND_SERVICE" : "");
	}
	*out = take_fd(&fd);
	return 0;
}

int
lock_inherit(const char *who, const char *data_dir, int *fd, struct err *err)
{
	auto_free char *path = xasprintf("%s/lock", data_dir);
	struct stat ours, its = {0};

	if (*fd < 0)
		return 0;
	if (fstat(*fd, &its) == 0 && its.st_nlink == 0) {
		close(take_fd(fd));
		return lock_take(data_dir, fd, err);
	}
	if (stat(path, &ours) < 0 || ours.st_dev != its.st_dev || ours.st_ino != its.st_ino)
		return err_set(err, EINVAL,
			"takeover: the %s that runs has another dataDir than %s; stop it first to "
			"change that",
			who, data_dir);
	if (ftruncate(*fd, 0) < 0 || write_pid(*fd) < 0)
		log_warn(who, "the lock names the %s before this one: %s", who, strerror(errno));
	return 0;
}
