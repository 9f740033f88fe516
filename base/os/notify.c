#include "base/os/notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/core/fdpass.h"
#include "base/core/util.h"

/* "/path", or "@name" in the abstract namespace. */
static int
manager_address(struct sockaddr_un *to, socklen_t *len)
{
	const char *name = getenv("NOTIFY_SOCKET");
	size_t n = strlen(name);

	if ((name[0] != '/' && name[0] != '@') || n < 2 || n >= sizeof to->sun_path)
		return -EINVAL;
	*to = (struct sockaddr_un){.sun_family = AF_UNIX};
	memcpy(to->sun_path, name, n);
	if (name[0] == '@')
		to->sun_path[0] = '\0';
	*len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
	return 0;
}

bool
notify_wanted(void)
{
	const char *name = getenv("NOTIFY_SOCKET");

	return name != NULL && name[0] != '\0';
}

int
notify_send_fds(const char *lines, const int *fds, size_t n)
{
	struct sockaddr_un to;
	auto_fd int fd = -1;
	socklen_t len;
	int rc;

	if (!notify_wanted())
		return 0;
	if ((rc = manager_address(&to, &len)) < 0)
		return rc;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&to, len) < 0)
		return -errno;
	return fdpass_send(fd, lines, strlen(lines), fds, n);
}

int
notify_send(const char *lines)
{
	return notify_send_fds(lines, NULL, 0);
}

/* A positive decimal number, else 0. */
static uint64_t
notify_number(const char *text)
{
	char *end;
	unsigned long long n;

	if (text == NULL || text[0] < '0' || text[0] > '9')
		return 0;
	errno = 0;
	n = strtoull(text, &end, 10);
	return *end != '\0' || errno != 0 ? 0 : n;
}

uint64_t
notify_watchdog_ms(void)
{
	const char *pid = getenv("WATCHDOG_PID");

	if (!notify_wanted() || (pid != NULL && notify_number(pid) != (uint64_t)getpid()))
		return 0;
	return notify_number(getenv("WATCHDOG_USEC")) / 1000;
}
