#include "src/common/socket_store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/core/fdpass.h"
#include "base/core/log.h"
#include "base/core/sock.h"
#include "base/os/notify.h"

#define FD_NAME "edgeway"

enum { FIRST_FD = STDERR_FILENO + 1 };
enum kind { PROXY, DNS_UDP, DNS_TCP, KINDS }; /* one of each for each worker */

struct socket_store {
	struct fdpass kept; /* until they are used */
	ino_t stored[FDPASS_MOST]; /* what the manager has, according to our messages */
	size_t n_stored;
};

/* --- kept sockets --------------------------------------------------------------------------- */

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
	unsigned long n = socket_store_number("LISTEN_FDS");

	*out = s;
	if (socket_store_number("LISTEN_PID") != (unsigned long)getpid() || name == NULL)
		n = 0;
	for (unsigned long i = 0; i < MIN(n, (unsigned long)FDPASS_MOST); i++) {
		int fd = FIRST_FD + (int)i;
		size_t len = strcspn(name, ":");

		if (fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 && len == strlen(FD_NAME) &&
			memcmp(name, FD_NAME, len) == 0)
			s->kept.at[s->kept.n++] = fd;
		name += len + (name[len] == ':');
	}
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
}

size_t
socket_store_workers(const struct socket_store *s)
{
	return s->kept.n % KINDS == 0 ? s->kept.n / KINDS : 0;
}

static ino_t
socket_store_inode(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 ? st.st_ino : 0;
}

static enum kind
socket_store_kind(int fd, uint16_t dns_port)
{
	struct addr at = {.len = sizeof at.un};
	int type = 0;
	socklen_t len = sizeof type;

	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_DGRAM)
		return DNS_UDP;
	return getsockname(fd, &at.sa, &at.len) == 0 && addr_port(&at) == dns_port ? DNS_TCP
										   : PROXY;
}

/* Sorts them by worker for lb_adopt and dns_adopt. False: there is not exactly one of each kind for
 * each worker. */
static bool
socket_store_sort(
	const struct socket_store *s, size_t workers, uint16_t dns_port, int *proxy, int *dns)
{
	size_t n[KINDS] = {0};

	if (s->kept.n != KINDS * workers)
		return false;
	for (size_t i = 0; i < s->kept.n; i++) {
		enum kind kind = socket_store_kind(s->kept.at[i], dns_port);
		size_t at = n[kind]++;

		if (at == workers)
			return false;
		if (kind == PROXY)
			proxy[at] = s->kept.at[i];
		else
			dns[2 * at + (kind == DNS_TCP)] = s->kept.at[i];
	}
	return true;
}

void
socket_store_use(
	struct socket_store *s, size_t workers, uint16_t dns_port, struct dns *dns, struct lb *lb)
{
	auto_free int *for_lb = xcalloc(workers, sizeof *for_lb);
	auto_free int *for_dns = xcalloc(2 * workers, sizeof *for_dns);

	if (s->kept.n == 0)
		return;
	if (!socket_store_sort(s, workers, dns_port, for_lb, for_dns)) {
		log_info("agent",
			"listens anew: the sockets that the service manager kept are others "
			"sockets=%zu workers=%zu",
			s->kept.n, workers);
		fdpass_close(&s->kept);
		socket_store_drop(s);
		return;
	}
	log_info("agent",
		"goes on with the sockets of the agent before, which the service manager kept "
		"sockets=%zu",
		s->kept.n);
	for (size_t i = 0; i < s->kept.n; i++)
		s->stored[s->n_stored++] = socket_store_inode(s->kept.at[i]);
	s->kept.n = 0;
	lb_adopt(lb, for_lb, workers);
	dns_adopt(dns, for_dns, 2 * workers);
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

void
socket_store_put(struct socket_store *s, const struct dns *dns, const struct lb *lb)
{
	int fds[FDPASS_MOST];
	size_t n;

	/* mesh.workers is at most 64, with three sockets each */
	n = lb_sockets(lb, fds);
	n += dns_sockets(dns, fds + n);
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
	struct socket_store *s = take_ptr(out);

	if (s == NULL)
		return;
	fdpass_close(&s->kept);
	free(s);
}
