#include "src/common/socket_store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/core/fdpass.h"
#include "base/core/inherited.h"
#include "base/core/log.h"
#include "base/os/notify.h"

#define FD_NAME "edgeway"

enum { FIRST_FD = STDERR_FILENO + 1 };

struct socket_store {
	ino_t stored[FDPASS_MOST]; /* what the manager has, according to our messages */
	size_t n_stored;
};

/* --- kept sockets --------------------------------------------------------------------------- */

static ino_t
socket_store_inode(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 ? st.st_ino : 0;
}

static unsigned long
socket_store_number(const char *variable)
{
	const char *text = getenv(variable);

	return text != NULL ? strtoul(text, NULL, 10) : 0;
}

/* sd_listen_fds_with_names(3): the descriptors start at 3, and their names are separated by
 * colons. */
void
socket_store_new(struct socket_store **out)
{
	struct socket_store *s = xcalloc(1, sizeof *s);
	const char *name = getenv("LISTEN_FDNAMES");
	struct fdpass kept = {.n = 0};
	unsigned long n = socket_store_number("LISTEN_FDS");

	*out = s;
	if (socket_store_number("LISTEN_PID") != (unsigned long)getpid() || name == NULL)
		n = 0;
	for (unsigned long i = 0; i < MIN(n, (unsigned long)FDPASS_MOST); i++) {
		int fd = FIRST_FD + (int)i;
		size_t len = strcspn(name, ":");

		if (fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 && len == strlen(FD_NAME) &&
			memcmp(name, FD_NAME, len) == 0)
			kept.at[kept.n++] = fd;
		name += len + (name[len] == ':');
	}
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	for (; s->n_stored < kept.n; s->n_stored++)
		s->stored[s->n_stored] = socket_store_inode(kept.at[s->n_stored]);
	if (kept.n > 0)
		log_info("agent",
			"goes on with the sockets of the agent before, which the service manager "
			"kept sockets=%zu",
			kept.n);
	inherited_use(&kept);
}

/* --- storing -------------------------------------------------------------------------------- */

static bool
socket_store_has(const struct socket_store *s, const int *fds, size_t n)
{
	if (n != s->n_stored)
		return false;
	for (size_t i = 0; i < n; i++) {
		ino_t inode = socket_store_inode(fds[i]);
		bool found = false;

		for (size_t k = 0; k < n && !found; k++)
			found = s->stored[k] == inode;
		if (!found)
			return false;
	}
	return true;
}

static void
socket_store_tell(const char *lines, const int *fds, size_t n)
{
	int rc = notify_send_fds(lines, fds, n);

	if (rc < 0)
		log_warn("agent",
			"the service manager does not keep our sockets: should this agent be "
			"killed, calls "
			"fail until the next one serves error=\"%s\"",
			strerror(-rc));
}

size_t
socket_store_list(const struct dns *dns, const struct lb *lb, bool six, int *fds)
{
	size_t n = lb_sockets(lb, false, fds);

	/* mesh.workers is at most 64, with three sockets each */
	n += dns_sockets(dns, false, fds + n);
	if (!six || 2 * n > FDPASS_MOST - 2)
		return n;
	n += lb_sockets(lb, true, fds + n);
	return n + dns_sockets(dns, true, fds + n);
}

void
socket_store_put(struct socket_store *s, const struct dns *dns, const struct lb *lb)
{
	int fds[FDPASS_MOST];
	size_t n = socket_store_list(dns, lb, true, fds);

	if (n == 0 || !notify_wanted() || socket_store_has(s, fds, n))
		return;
	socket_store_drop(s);
	socket_store_tell("FDSTORE=1\nFDNAME=" FD_NAME, fds, n);
	for (; s->n_stored < n; s->n_stored++)
		s->stored[s->n_stored] = socket_store_inode(fds[s->n_stored]);
}

void
socket_store_drop(struct socket_store *s)
{
	s->n_stored = 0;
	socket_store_tell("FDSTOREREMOVE=1\nFDNAME=" FD_NAME, NULL, 0);
}

void
socket_store_free(struct socket_store **out)
{
	free(take_ptr(out));
}
