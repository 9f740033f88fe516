#include "base/core/inherited.h"

#include <dirent.h>
#include <errno.h>
#include <unistd.h>

/* A mutable global, like the environment: inherited sockets belong to the process, and sock_listen
 * is called in many places. */
static struct fdpass kept;

static int
inherited_type(int fd)
{
	int type = -1;
	socklen_t len = sizeof type;

	return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 ? type : -1;
}

static bool
inherited_is_at(int fd, const struct addr *a)
{
	struct addr its = {.len = sizeof its.un};

	return addr_port(a) != 0 && getsockname(fd, &its.sa, &its.len) == 0 && addr_same(&its, a);
}

/* Does it listen, or is it an unconnected UDP socket? */
static bool
inherited_is_open(int fd)
{
	struct addr at = {.len = sizeof at.un}, peer = {.len = sizeof peer.un};
	int listens = 0;
	socklen_t len = sizeof listens;

	if (getsockname(fd, &at.sa, &at.len) < 0 ||
		(at.sa.sa_family != AF_INET && at.sa.sa_family != AF_INET6) || addr_port(&at) == 0)
		return false;
	if (inherited_type(fd) == SOCK_STREAM)
		return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) == 0 &&
			listens != 0;
	return inherited_type(fd) == SOCK_DGRAM && getpeername(fd, &peer.sa, &peer.len) < 0;
}

int
inherited_list(int *fds, size_t most)
{
	DIR *d = opendir("/proc/self/fd");
	const struct dirent *e;
	size_t n = 0;

	if (d == NULL)
		return -errno;
	while ((e = readdir(d)) != NULL && n <= most) {
		int fd = atoi(e->d_name);

		if (e->d_name[0] == '.' || fd == dirfd(d) || !inherited_is_open(fd))
			continue;
		if (n < most)
			fds[n] = fd;
		n++;
	}
	closedir(d);
	return n <= most ? (int)n : -E2BIG;
}

void
inherited_use(struct fdpass *fds)
{
	inherited_drop();
	kept = *fds;
	fds->n = 0;
}

int
inherited_take(const struct addr *a, int type)
{
	for (size_t i = 0; i < kept.n; i++)
		if (kept.at[i] >= 0 && inherited_type(kept.at[i]) == type &&
			inherited_is_at(kept.at[i], a))
			return take_fd(&kept.at[i]);
	return -1;
}

size_t
inherited_count(const struct addr *a, int type)
{
	size_t n = 0;

	for (size_t i = 0; i < kept.n; i++)
		n += kept.at[i] >= 0 && inherited_type(kept.at[i]) == type &&
			inherited_is_at(kept.at[i], a);
	return n;
}

static bool
inherited_address(int fd, int type, struct addr *at)
{
	at->len = sizeof at->un;
	return fd >= 0 && inherited_type(fd) == type && getsockname(fd, &at->sa, &at->len) == 0;
}

size_t
inherited_workers(void)
{
	struct addr at;

	for (size_t i = 0; i < kept.n; i++)
		if (inherited_address(kept.at[i], SOCK_DGRAM, &at))
			return inherited_count(&at, SOCK_DGRAM);
	return 0;
}

uint16_t
inherited_tcp_port(const struct addr *a)
{
	struct addr at, same;

	for (size_t i = 0; i < kept.n; i++) {
		if (!inherited_address(kept.at[i], SOCK_STREAM, &at))
			continue;
		same = addr_with_port(a, addr_port(&at));
		if (inherited_is_at(kept.at[i], &same) && inherited_count(&same, SOCK_DGRAM) == 0)
			return addr_port(&at);
	}
	return 0;
}

void
inherited_drop(void)
{
	fdpass_close(&kept);
	kept.n = 0;
}
