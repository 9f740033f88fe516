#include "base/admin.h"

#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <unistd.h>

#include "base/admin_conn.h"
#include "base/log.h"
#include "base/sock.h"

enum {
	CONNS_MAX = 32, /* a listener */
	PAUSE_MS = 200,
};

static void
pause_accepting(struct admin_listener *l)
{
	watch_set(l->watch, 0);
	timer_start(l->pause, PAUSE_MS, 0);
}

static void
on_pause_over(void *arg)
{
	struct admin_listener *l = arg;

	watch_set(l->watch, WATCH_READ);
}

static void
on_accept(void *arg, int listen_fd, unsigned events)
{
	struct admin_listener *l = arg;
	int fd;

	(void)events;
	while (l->conns < CONNS_MAX) {
		fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd >= 0) {
			admin_conn_start(l, fd);
			continue;
		}
		if (errno == EINTR || errno == ECONNABORTED)
			continue;
		if (errno != EAGAIN) {
			log_limited(LOG_LEVEL_WARN, 6, "admin", "cannot accept error=\"%s\"",
				strerror(errno));
			pause_accepting(l);
		}
		return;
	}
	pause_accepting(l);
}

static int
listen_on(struct admin *a, struct admin_listener *l, const char *address, struct err *err)
{
	struct addr addr;
	int rc = addr_parse(&addr, address, 0, err);

	if (rc == 0)
		rc = sock_listen(&addr, 0, &l->fd, err);
	if (rc < 0)
		return rc;
	l->admin = a;
	l->local = addr.sa.sa_family == AF_UNIX;
	l->pause = timer_new(a->loop, on_pause_over, l);
	l->watch = watch_start(a->loop, l->fd, WATCH_READ, on_accept, l);
	return 0;
}

static int
listen_local(struct admin *a, const char *path, struct err *err)
{
	auto_free char *copy = xstrdup(path), *address = xasprintf("unix:%s", path);
	const char *folder = dirname(copy);
	int rc = mkdir_p(folder, 0755);

	if (rc < 0)
		return err_set(err, rc, "cannot make the folder %s: %s", folder, strerror(-rc));
	rc = listen_on(a, &a->local, address, err);
	if (rc == 0)
		a->socket_path = xstrdup(path);
	return rc;
}

int
admin_start(
	struct admin **out, struct loop *loop, const struct admin_config *config, struct err *err)
{
	struct admin *a = xcalloc(1, sizeof *a);
	int rc = 0;

	a->loop = loop;
	a->routes = config->routes;
	a->arg = config->arg;
	a->taken = config->taken;
	a->tcp.fd = a->local.fd = -1;
	if (config->listen[0] != '\0')
		rc = listen_on(a, &a->tcp, config->listen, err);
	if (rc == 0 && config->socket_path[0] != '\0')
		rc = listen_local(a, config->socket_path, err);
	if (rc < 0) {
		admin_stop(&a);
		return err_wrap(err, rc, "admin");
	}
	*out = a;
	return 0;
}

static void
listener_stop(struct admin_listener *l)
{
	watch_stop(&l->watch);
	timer_free(&l->pause);
	if (l->fd >= 0)
		close(l->fd);
}

void
admin_stop(struct admin **out)
{
	struct admin *a = take_ptr(out);

	if (a == NULL)
		return;
	while (a->conns != NULL)
		admin_conn_free(a->conns);
	/* Before it is closed: a successor that finds nobody there puts its own in this place. */
	if (a->socket_path != NULL)
		unlink(a->socket_path);
	listener_stop(&a->tcp);
	listener_stop(&a->local);
	free(a->socket_path);
	free(a);
}
