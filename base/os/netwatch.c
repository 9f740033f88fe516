#include "base/os/netwatch.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct netwatch {
	struct watch *watch;
	struct timer *timer;
	loop_fn *changed;
	void *arg;
	int fd;
};

static void
on_timer(void *arg)
{
	struct netwatch *w = arg;

	w->changed(w->arg);
}

int
netwatch_open(unsigned groups, int *out, struct err *err)
{
	struct sockaddr_nl a = {.nl_family = AF_NETLINK, .nl_groups = groups};
	auto_fd int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);

	*out = -1;
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) < 0)
		return err_set(err, errno, "cannot watch the network's changes (rtnetlink): %s",
			strerror(errno));
	*out = take_fd(&fd);
	return 0;
}

/* Ignores the content, and whether messages were lost: something has changed. */
bool
netwatch_drain(int fd)
{
	bool told = false;
	char said[8192];

	for (;;) {
		ssize_t n = recv(fd, said, sizeof said, MSG_DONTWAIT);

		if (n > 0 || (n < 0 && errno == ENOBUFS))
			told = true;
		else if (n == 0 || errno != EINTR)
			return told;
	}
}

static void
on_ready(void *arg, int fd, unsigned events)
{
	struct netwatch *w = arg;

	if (events & WATCH_HUP)
		watch_renew(w->watch);
	netwatch_drain(fd);
	if (!timer_active(w->timer))
		timer_start(w->timer, NETWATCH_MS, 0);
}

int
netwatch_start(
	struct netwatch **out, struct loop *loop, loop_fn *changed, void *arg, struct err *err)
{
	static const unsigned groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR |
		RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE;
	struct netwatch *w;
	int fd, rc = netwatch_open(groups, &fd, err);

	if (rc < 0)
		return rc;
	w = xcalloc(1, sizeof *w);
	w->changed = changed;
	w->arg = arg;
	w->fd = fd;
	w->timer = timer_new(loop, on_timer, w);
	w->watch = watch_start(loop, w->fd, WATCH_READ, on_ready, w);
	*out = w;
	return 0;
}

void
netwatch_stop(struct netwatch **out)
{
	struct netwatch *w = take_ptr(out);

	if (w == NULL)
		return;
	watch_stop(&w->watch);
	timer_free(&w->timer);
	close(w->fd);
	free(w);
}
