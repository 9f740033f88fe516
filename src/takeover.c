#include "src/takeover.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fdpass.h"
#include "base/log.h"
#include "base/sock.h"

enum {
	ASK_MS = 10 * 1000, /* the other one writes what it has to its database */
	TEXT_MAX = 64 * 1024, /* a node has less than ten thousand ports of bridges */
	SOCKETS_EACH = 3, /* of a worker: proxy, DNS by UDP, DNS by TCP */
};

struct takeover {
	int fd;
	size_t workers;
	struct fdpass fds;
	char *estate;
	size_t first; /* of the workers' among fds */
	struct watch *watch;
	bool offered; /* "serving" is said */
	takeover_fn *done;
	void *arg;
};

static int
dial(const char *path, int *fd, struct err *err)
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

/* What came: a head of ours with all sockets, or why not. */
static int
understand(struct takeover *t, const char *text, ssize_t n, struct err *err)
{
	int lock = 0, used = 0;

	if (n == 0 || n == -ECONNRESET)
		return err_set(err, ECONNRESET,
			"the agent that runs has hung up: it stops, or hands over to another one; "
			"try again");
	if (n < 0)
		return err_set(err, (int)-n,
			"the agent that runs does not answer: %s; stop it first",
			strerror((int)-n));
	if (sscanf(text, TAKEOVER_HEAD "%n", &lock, &t->workers, &used) != 2 || used == 0)
		return err_set(err, EPROTO,
			"the agent that runs does not know how to hand over (\"%.*s\"): it is "
			"older; stop it first",
			(int)strcspn(text, "\r\n"), text);
	t->first = lock ? 2 : 1;
	t->estate = xstrdup(text + used);
	if (t->workers > FDPASS_MOST || t->fds.n != t->first + SOCKETS_EACH * t->workers)
		return err_set(err, EPROTO, "the agent that runs gave %zu sockets for %zu workers",
			t->fds.n, t->workers);
	return 0;
}

int
takeover_ask(const char *path, struct takeover **out, struct err *err)
{
	static const char request[] =
		"POST /takeover HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n";
	struct takeover *t = xcalloc(1, sizeof *t);
	auto_free char *text = xcalloc(1, TEXT_MAX);
	int rc;

	*out = NULL;
	t->fd = -1;
	rc = dial(path, &t->fd, err);
	if (rc == -ENOENT || rc == -ECONNREFUSED) {
		takeover_free(&t);
		return 0;
	}
	if (rc == 0 && write(t->fd, request, sizeof request - 1) != (ssize_t)sizeof request - 1)
		rc = -EPIPE;
	if (rc < 0)
		err_set(err, rc, "cannot ask the agent that runs: %s", strerror(-rc));
	else
		log_info("agent", "asks the agent that runs for its sockets path=%s", path);
	if (rc == 0)
		rc = understand(t, text, wait_for(t->fd, text, TEXT_MAX - 1, &t->fds), err);
	if (rc < 0) {
		takeover_free(&t);
		return err_wrap(err, rc, "takeover by %s", path);
	}
	log_info("agent", "takes over workers=%zu", t->workers);
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
	*network_lock = take_fd(&t->fds.at[0]);
	*lock = t->first > 1 ? take_fd(&t->fds.at[1]) : -1;
}

void
takeover_use(struct takeover *t, struct dns *dns, struct lb *lb)
{
	int *at = t->fds.at + t->first;

	if (t->workers == 0)
		return;
	lb_adopt(lb, at, t->workers);
	dns_adopt(dns, at + t->workers, 2 * t->workers);
	t->fds.n = t->first;
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
		log_warn("agent",
			"the agent before this one has died while it handed over; this one goes "
			"on");
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
	/* When nobody is there to read it, the watch tells. */
	if (write(t->fd, word, sizeof word - 1) < 0)
		log_debug(
			"agent", "the agent before this one does not listen: %s", strerror(errno));
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
