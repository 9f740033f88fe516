#include "base/http/admin.h"

#include <errno.h>
#include <libgen.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <unistd.h>

#include "base/core/log.h"
#include "base/http/admin_conn.h"

enum {
	CONNS_MAX = 32, /* per listener */
	PAUSE_MS = 200,
	TAKEN_MS = 1000,
};

/* --- connections ---------------------------------------------------------------------------- */

static void
admin_make_room(struct admin_listener *l)
{
	if (l->server.n_conns < CONNS_MAX)
		return;
	l->evicted++;
	log_limited(LOG_LEVEL_WARN, 6, "admin",
		"too many connections, the oldest of whoever has most is ended listener=%s",
		l->key);
	http_conn_free(http_server_victim(&l->server));
}

/* Accepts at most CONNS_MAX per turn: each new connection is read at least once before another may
 * evict it. */
static void
on_accept(void *arg, int listen_fd, unsigned events)
{
	struct admin_listener *l = arg;

	(void)events;
	for (unsigned i = 0; i < CONNS_MAX; i++) {
		struct addr peer = {.len = sizeof peer.un};
		int fd = accept4(listen_fd, &peer.sa, &peer.len, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			admin_make_room(l);
			admin_conn_start(l, fd, &peer);
			continue;
		}
		if (errno == EINTR || errno == ECONNABORTED)
			continue;
		if (errno != EAGAIN) {
			log_limited(LOG_LEVEL_WARN, 6, "admin", "cannot accept error=\"%s\"",
				strerror(errno));
			watch_set(l->watch, 0);
			timer_start(l->pause, PAUSE_MS, 0);
		}
		return;
	}
}

/* --- the address ---------------------------------------------------------------------------- */

/* An address in use must not stop the rest of the daemon. Reported once: finding the process means
 * scanning all processes. */
static void
admin_tell_holder(struct admin_listener *l)
{
	const struct addr *at = &l->address;
	char text[ADDR_TEXT_MAX];

	if (at->sa.sa_family != AF_INET ||
		!port_holder("tcp", ntohl(at->in.sin_addr.s_addr), addr_port(at), l->holder))
		snprintf(l->holder, sizeof l->holder, "another process");
	log_warn("admin",
		"another process has the address of %s: no probes, metrics or state there until it "
		"ends, everything else serves; stop it, or set another address address=%s "
		"by=\"%s\"",
		l->key, addr_text(at, text), l->holder);
}

static int
admin_bind(struct admin_listener *l, struct err *err)
{
	static const int defer_s = 5;
	int rc = sock_listen(&l->address, 0, &l->fd, err);

	if (rc < 0)
		return rc;
	/* A connection gets a slot only once a byte of its request has come: so idle connections
	 * cannot evict a probe, which sends its request at once. */
	if (!l->local)
		(void)setsockopt(l->fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &defer_s, sizeof defer_s);
	if (l->holder[0] != '\0')
		log_info("admin", "%s is served after all", l->key);
	l->holder[0] = '\0';
	l->watch = watch_start(l->admin->loop, l->fd, WATCH_READ, on_accept, l);
	return 0;
}

static void
on_pause_over(void *arg)
{
	struct admin_listener *l = arg;
	struct err err = {0};

	if (l->watch != NULL)
		watch_set(l->watch, WATCH_READ);
	else if (admin_bind(l, &err) < 0)
		timer_start(l->pause, TAKEN_MS, 0);
}

static int
listen_on(struct admin_listener *l, const char *address, struct err *err)
{
	int rc = addr_parse(&l->address, address, 0, err);

	if (rc < 0)
		return rc;
	l->local = l->address.sa.sa_family == AF_UNIX;
	rc = admin_bind(l, err);
	if (rc < 0 && (rc != -EADDRINUSE || l->local))
		return rc;
	l->pause = timer_new(l->admin->loop, on_pause_over, l);
	if (rc < 0) {
		admin_tell_holder(l);
		timer_start(l->pause, TAKEN_MS, 0);
	}
	return 0;
}

/* Where a link at that path leads to, as the hub's package makes one; bind does not follow it. */
static char *
admin_socket_path(const char *path)
{
	auto_free char *copy = xstrdup(path);
	char to[sizeof((struct sockaddr_un *)0)->sun_path];
	ssize_t n = readlink(path, to, sizeof to);

	if (n < 0 || (size_t)n == sizeof to)
		return xstrdup(path);
	return to[0] == '/' ? xasprintf("%.*s", (int)n, to)
			    : xasprintf("%s/%.*s", dirname(copy), (int)n, to);
}

static int
listen_local(struct admin *a, const char *configured, struct err *err)
{
	auto_free char *path = admin_socket_path(configured), *copy = xstrdup(path);
	auto_free char *address = xasprintf("unix:%s", path);
	const char *folder = dirname(copy);
	int rc = mkdir_p(folder, 0755);

	if (rc < 0)
		return err_set(err, rc, "cannot make the folder %s: %s", folder, strerror(-rc));
	rc = listen_on(&a->local, address, err);
	if (rc == 0)
		a->socket_path = xstrdup(path);
	return rc;
}

static void
listener_init(struct admin_listener *l, struct admin *a, const char *key)
{
	l->admin = a;
	l->key = key;
	l->fd = -1;
	admin_conn_server(l);
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
	memcpy(a->names, config->names, sizeof a->names);
	if (gethostname(a->host_name, sizeof a->host_name - 1) < 0)
		strcpy(a->host_name, "localhost");
	a->own[0] = a->host_name;
	a->own[1] = config->name;
	listener_init(&a->tcp, a, config->key);
	listener_init(&a->local, a, "admin.socket");
	if (config->listen[0] != '\0')
		rc = listen_on(&a->tcp, config->listen, err);
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
	http_server_fini(&l->server);
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
	/* Unlink before close: a successor that finds no listener replaces the file by its own. */
	if (a->socket_path != NULL)
		unlink(a->socket_path);
	listener_stop(&a->tcp);
	listener_stop(&a->local);
	free(a->socket_path);
	free(a);
}

/* --- replies without a connection ----------------------------------------------------------- */

void
admin_ask(const struct admin *a, const char *target, struct admin_reply *reply)
{
	size_t len = strcspn(target, "?");
	auto_free char *path = xstrndup(target, len);
	const struct admin_request req = {
		.query = target[len] == '?' ? target + len + 1 : "", .body = ""};
	const struct admin_route *r = a->routes;

	while (r->method != NULL && (strcmp(r->path, path) != 0 || strcmp(r->method, "GET") != 0))
		r++;
	if (r->method != NULL && !r->local_only && r->fn != NULL) {
		r->fn(a->arg, &req, reply);
		return;
	}
	reply->status = r->method != NULL ? 403 : 404;
	buf_adds(&reply->body,
		r->method != NULL
			? "only on the agent's own Unix socket: run edgewayctl on the node"
			: "the agent has nothing of this name");
}

/* --- status and metrics --------------------------------------------------------------------- */

bool
admin_trouble(const struct admin *a, struct buf *why)
{
	char text[ADDR_TEXT_MAX];

	if (a == NULL || a->tcp.holder[0] == '\0')
		return false;
	buf_printf(why,
		"%s%s: %s is held by %s: no probes, metrics or state there until it ends; stop it, "
		"or set another address",
		buf_len(why) > 0 ? "; " : "", a->tcp.key, addr_text(&a->tcp.address, text),
		a->tcp.holder);
	return true;
}

void
admin_metrics(const struct admin *all, const struct admin *metrics, struct metrics *m)
{
	const struct admin *const of[] = {all, metrics};
	static const char *const labels[] = {"listener=\"admin\"", "listener=\"metrics\""};

	for (size_t i = 0; i < ARRAY_LEN(of); i++)
		if (of[i] != NULL)
			metric_counter(m, "edgeway_admin_evicted_total",
				"Connections ended to make room for others.", labels[i],
				of[i]->tcp.evicted + of[i]->local.evicted);
	for (size_t i = 0; i < ARRAY_LEN(of); i++)
		if (of[i] != NULL)
			metric_counter(m, "edgeway_admin_misnamed_total",
				"Requests whose Host is none of our names, refused.", labels[i],
				of[i]->tcp.misnamed);
	for (size_t i = 0; i < ARRAY_LEN(of); i++)
		if (of[i] != NULL)
			metric_gauge(m, "edgeway_admin_port_taken",
				"1 while another process has the address.", labels[i],
				of[i]->tcp.holder[0] != '\0');
}
