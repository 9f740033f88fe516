#include "hub/port/listen.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/core/log.h"

/* Keeps small messages from waiting behind bulk data: this much unsent data in the kernel is
 * enough. */
enum { NOTSENT_BYTES = 128 * 1024 };

struct listen {
	struct loop *loop;
	struct watch *watch;
	struct timer *rest;
	listen_fn *fn;
	void *arg;
	int fd;
	bool room;
	uint64_t failed;
};

static void
set_watch(struct listen *l)
{
	watch_set(l->watch, l->room && !timer_active(l->rest) ? WATCH_READ : 0);
}

static void
on_rested(void *arg)
{
	set_watch(arg);
}

/* Errors of the one connection that accept returned, see accept(2): only the next accept tells
 * more. */
static bool
listen_passing(int error)
{
	return error == ECONNABORTED || error == EINTR || error == EPROTO || error == ENETDOWN ||
		error == ENOPROTOOPT || error == EHOSTDOWN || error == ENONET ||
		error == EHOSTUNREACH || error == EOPNOTSUPP || error == ENETUNREACH ||
		error == EPERM;
}

static void
hand_over(struct listen *l, int fd)
{
	int bytes = NOTSENT_BYTES;

	sock_nodelay(fd);
	setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof bytes);
	if (!l->fn(l->arg, fd))
		close(fd);
}

static void
on_ready(void *arg, int listener, unsigned events)
{
	struct listen *l = arg;

	(void)events;
	for (int i = 0; i < LISTEN_BATCH && l->room; i++) {
		int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			hand_over(l, fd);
			continue;
		}
		if (errno == EAGAIN)
			return;
		l->failed++;
		if (listen_passing(errno))
			continue;
		log_limited(LOG_LEVEL_ERROR, 6, "hub",
			"cannot accept connections, resting for 1 s error=\"%s\"", strerror(errno));
		timer_start(l->rest, LISTEN_REST_MS, 0);
		set_watch(l);
		return;
	}
}

struct listen *
listen_take(struct loop *loop, int fd, listen_fn *fn, void *arg)
{
	struct listen *l = xcalloc(1, sizeof *l);

	l->loop = loop;
	l->fn = fn;
	l->arg = arg;
	l->fd = fd;
	l->room = true;
	l->rest = timer_new(loop, on_rested, l);
	l->watch = watch_start(loop, fd, WATCH_READ, on_ready, l);
	return l;
}

int
listen_start(struct listen **out, struct loop *loop, const struct addr *addr, listen_fn *fn,
	void *arg, struct err *err)
{
	/* transparent: for the rules of ingress.redirect */
	int fd, rc = sock_listen(addr, SOCK_TRANSPARENT, &fd, err);

	if (rc == 0)
		*out = listen_take(loop, fd, fn, arg);
	return rc;
}

void
listen_stop(struct listen **out)
{
	struct listen *l = take_ptr(out);

	if (l == NULL)
		return;
	watch_stop(&l->watch);
	timer_free(&l->rest);
	close(l->fd);
	free(l);
}

struct addr
listen_addr(const struct listen *l)
{
	struct addr a;

	memset(&a, 0, sizeof a);
	a.len = sizeof a.in6;
	getsockname(l->fd, &a.sa, &a.len);
	return a;
}

void
listen_room(struct listen *l, bool room)
{
	if (l->room == room)
		return;
	l->room = room;
	set_watch(l);
}

uint64_t
listen_failed(const struct listen *l)
{
	return l->failed;
}
