#include "src/common/takeover.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/inherited.h"
#include "base/core/log.h"
#include "base/core/sock.h"

enum {
	ASK_MS = 10 * 1000, /* the old daemon first writes its data to its database */
	TEXT_MAX = 64 * 1024, /* a node has fewer than ten thousand bridge ports */
	SOCKETS_EACH = 3, /* for each worker: proxy, DNS over UDP, DNS over TCP */
};

struct takeover {
	int fd;
	const char *who;
	size_t workers;
	struct fdpass fds;
	char *estate;
	size_t first; /* index of the workers' first socket in fds */
	struct watch *watch;
	bool offered; /* "serving" was sent */
	takeover_fn *done;
	void *arg;
};

static int
takeover_dial(const char *path, int *fd, struct err *err)
{
	auto_free char *address = xasprintf("unix:%s", path);
	struct addr to;
	int rc = addr_parse(&to, address, 0, err);

	if (rc == 0)
		rc = sock_connect(&to, 0, fd);
	return rc;
}

static ssize_t
wait_for(int fd, char *text, size_t size, struct fdpass *fds)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	if (poll(&p, 1, ASK_MS) <= 0)
		return -ETIMEDOUT;
	return fdpass_receive(fd, text, size, fds);
}

/* Reads the first line: how many sockets follow the locks. False: not our format. */
static bool
takeover_read_head(struct takeover *t, const char *text, size_t *sockets)
{
	int lock = 0, used = 0;

	if (strcmp(t->who, "hub") == 0) {
		t->first = 1;
		return sscanf(text, TAKEOVER_HUB_HEAD, sockets) == 1;
	}
	if (sscanf(text, TAKEOVER_HEAD "%n", &lock, &t->workers, &used) != 2 || used == 0 ||
		t->workers > FDPASS_MOST)
		return false;
	t->first = lock ? 2 : 1;
	t->estate = xstrdup(text + used);
	*sockets = SOCKETS_EACH * t->workers;
	return true;
}

/* Reads the reply: our head with all sockets, or the reason for a refusal. */
static int
takeover_understand(struct takeover *t, const char *text, ssize_t n, struct err *err)
{
	size_t sockets = 0, more;

	if (n == 0 || n == -ECONNRESET)
		return err_set(err, ECONNRESET,
			"the %s that runs has hung up: it stops, or hands over to another one; try "
			"again",
			t->who);
	if (n < 0)
		return err_set(err, (int)-n, "the %s that runs does not answer: %s; stop it first",
			t->who, strerror((int)-n));
	if (strncmp(text, "HTTP/1.1 409", 12) == 0 && strstr(text, "\r\n\r\n") != NULL) {
		text = strstr(text, "\r\n\r\n") + 4;
		return err_set(err, EBUSY, "the %s that runs refuses: %.*s", t->who,
			(int)strcspn(text, "\r\n"), text);
	}
	if (!takeover_read_head(t, text, &sockets))
		return err_set(err, EPROTO,
			"the %s that runs does not know how to hand over (\"%.*s\"): it is older; "
			"stop it first",
			t->who, (int)strcspn(text, "\r\n"), text);
	/* those of IPv6, as far as it listens there */
	more = t->workers > 0 ? sockets : 0;
	if (t->fds.n < t->first + sockets || t->fds.n > t->first + sockets + more)
		return err_set(err, EPROTO,
			"the %s that runs gave %zu descriptors where %zu were due", t->who,
			t->fds.n, t->first + sockets);
	return 0;
}

int
takeover_ask(const char *path, const char *who, struct takeover **out, struct err *err)
{
	static const char request[] = "POST /takeover?" TAKEOVER_IPV6
				      " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n";
	struct takeover *t = xcalloc(1, sizeof *t);
	auto_free char *text = xcalloc(1, TEXT_MAX);
	int rc;

	*out = NULL;
	t->fd = -1;
	t->who = who;
	rc = takeover_dial(path, &t->fd, err);
	if (rc == -ENOENT || rc == -ECONNREFUSED) {
		takeover_free(&t);
		return 0;
	}
	if (rc == 0 && write(t->fd, request, sizeof request - 1) != (ssize_t)sizeof request - 1)
		rc = -EPIPE;
	if (rc < 0)
		err_set(err, rc, "cannot ask the %s that runs: %s", who, strerror(-rc));
	else
		log_info(who, "asks the %s that runs for its sockets path=%s", who, path);
	if (rc == 0)
		rc = takeover_understand(
			t, text, wait_for(t->fd, text, TEXT_MAX - 1, &t->fds), err);
	if (rc < 0) {
		takeover_free(&t);
		return err_wrap(err, rc, "takeover by %s", path);
	}
	log_info(who, "takes over sockets=%zu", t->fds.n - t->first);
	*out = t;
	return 0;
}

size_t
takeover_workers(const struct takeover *t)
{
	return t->workers;
}

const char *
takeover_estate(const struct takeover *t)
{
	return t->estate;
}

void
takeover_locks(struct takeover *t, int *lock, int *network_lock)
{
	bool hub = strcmp(t->who, "hub") == 0;

	*network_lock = hub ? -1 : take_fd(&t->fds.at[0]);
	*lock = hub || t->first > 1 ? take_fd(&t->fds.at[t->first - 1]) : -1;
}

void
takeover_sockets(struct takeover *t)
{
	struct fdpass fds = {.n = t->fds.n - t->first};

	memcpy(fds.at, t->fds.at + t->first, fds.n * sizeof *fds.at);
	t->fds.n = t->first;
	inherited_use(&fds);
}

static void
on_word(void *arg, int fd, unsigned events)
{
	struct takeover *t = arg;
	char text[16] = "";
	ssize_t n = read(fd, text, sizeof text - 1);

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	watch_stop(&t->watch);
	if (n <= 0)
		log_warn(t->who,
			"the %s before this one has died while it handed over; this one goes on",
			t->who);
	t->done(t->arg, strcmp(text, TAKEOVER_MINE) != 0);
}

void
takeover_follow(struct takeover *t, struct loop *loop, takeover_fn *done, void *arg)
{
	t->done = done;
	t->arg = arg;
	t->watch = watch_start(loop, t->fd, WATCH_READ, on_word, t);
}

void
takeover_serving(struct takeover *t)
{
	static const char word[] = TAKEOVER_SERVING;

	if (t->offered)
		return;
	t->offered = true;
	/* If nobody reads it, the watch reports that. */
	if (write(t->fd, word, sizeof word - 1) < 0)
		log_debug(t->who, "the one before this one does not listen: %s", strerror(errno));
}

bool
takeover_offered(const struct takeover *t)
{
	return t->offered;
}

void
takeover_free(struct takeover **out)
{
	struct takeover *t = take_ptr(out);

	if (t == NULL)
		return;
	watch_stop(&t->watch);
	fdpass_close(&t->fds);
	cleanup_fd(&t->fd);
	free(t->estate);
	free(t);
}
