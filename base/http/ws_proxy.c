/*
 * Dialling through a proxy, or inside a websocket tunnel. libwebsockets can only connect by itself,
 * and takes the result of one read as a proxy's whole answer. So base/http/proxy or
 * base/http/ws_tunnels makes the connection, and libwebsockets connects to a Unix socket of ours,
 * which is joined to that connection: it carries TLS from libwebsockets to the hub. The socket's
 * name is abstract and random, and a peer that is not this process is refused.
 *
 *	ws_dial ─► WAY: proxy_dial or ws_tunnels_dial ─► listen ─► connect_lws ─► accept ─► a pipe,
 *	which ends when both sides have ended
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/http/ws_lws.h"
#include "base/http/ws_tunnels.h"

enum {
	NAME_BYTES = 16,
	PIECE = 16 * 1024,
	LINGER_MS = 5000, /* to send remaining data to a slow proxy */
};

enum side { OURS, PROXYS }; /* towards libwebsockets, towards the proxy */

struct ws_pipe {
	struct ws_pipe *next, **link;
	struct ws *ws;
	struct timer *timer; /* frees it */
	struct {
		int fd;
		struct watch *watch;
		struct buf out; /* data to write to this side */
		bool ended, shut; /* ended: no more input; shut: no more output */
	} side[2];
};

struct ws_way { /* a connection not yet joined to libwebsockets */
	struct proxy_dial *dial; /* one of these two */
	struct ws_tunnels_dial *carried;
	struct watch *watch;
	int listener, fd; /* fd: through the proxy */
	char *path;
	char name[2 * NAME_BYTES + 4]; /* "+@..." in libwebsockets' form */
};

/* --- the pipe ------------------------------------------------------------------------------- */

static void
free_pipe(struct ws_pipe *p)
{
	for (unsigned i = 0; i < ARRAY_LEN(p->side); i++) {
		watch_stop(&p->side[i].watch);
		cleanup_fd(&p->side[i].fd);
		buf_fini(&p->side[i].out);
	}
	timer_free(&p->timer);
	*p->link = p->next;
	if (p->next != NULL)
		p->next->link = p->link;
	free(p);
}

static void
on_linger(void *arg)
{
	free_pipe(arg);
}

void
ws_free_pipes(struct ws *ws)
{
	while (ws->pipes != NULL)
		free_pipe(ws->pipes);
}

/* Copies from one side to the other; false: the pipe is broken. */
static bool
ws_proxy_move(struct ws_pipe *p, enum side from)
{
	enum side to = from == OURS ? PROXYS : OURS;
	struct buf *out = &p->side[to].out;
	ssize_t n;

	if (buf_len(out) > 0 && (n = buf_write(out, p->side[to].fd)) < 0 && n != -EAGAIN)
		return false;
	if (buf_len(out) == 0 && !p->side[from].ended) {
		n = buf_read(out, p->side[from].fd, PIECE);
		if (n < 0 && n != -EAGAIN)
			return false;
		p->side[from].ended = n == 0;
		if (n > 0 && (n = buf_write(out, p->side[to].fd)) < 0 && n != -EAGAIN)
			return false;
	}
	if (buf_len(out) == 0)
		buf_release(out);
	if (p->side[from].ended && buf_len(out) == 0 && !p->side[to].shut) {
		p->side[to].shut = true;
		shutdown(p->side[to].fd, SHUT_WR);
	}
	return true;
}

static void
ws_proxy_want(struct ws_pipe *p, enum side s)
{
	enum side other = s == OURS ? PROXYS : OURS;
	unsigned events = 0;

	if (!p->side[s].ended && buf_len(&p->side[other].out) == 0)
		events |= WATCH_READ;
	if (buf_len(&p->side[s].out) > 0)
		events |= WATCH_WRITE;
	watch_set(p->side[s].watch, events);
}

static void
on_pipe(void *arg, int fd, unsigned events)
{
	struct ws_pipe *p = arg;

	(void)fd;
	(void)events;
	if (!ws_proxy_move(p, OURS) || !ws_proxy_move(p, PROXYS) ||
		(p->side[OURS].shut && p->side[PROXYS].shut)) {
		free_pipe(p);
		return;
	}
	ws_proxy_want(p, OURS);
	ws_proxy_want(p, PROXYS);
	/* libwebsockets closes both directions: nobody would read an answer. */
	if (p->side[OURS].ended && !timer_active(p->timer))
		timer_start(p->timer, LINGER_MS, 0);
}

static void
start_pipe(struct ws *ws, int ours, int proxys)
{
	struct ws_pipe *p = xcalloc(1, sizeof *p);

	p->ws = ws;
	p->next = ws->pipes;
	p->link = &ws->pipes;
	if (p->next != NULL)
		p->next->link = &p->next;
	ws->pipes = p;
	p->timer = timer_new(ws->loop, on_linger, p);
	p->side[OURS].fd = ours;
	p->side[PROXYS].fd = proxys;
	for (unsigned i = 0; i < ARRAY_LEN(p->side); i++) {
		buf_init(&p->side[i].out, BUF_UNLIMITED);
		p->side[i].watch = watch_start(ws->loop, p->side[i].fd, WATCH_READ, on_pipe, p);
	}
}

/* --- dialling ------------------------------------------------------------------------------- */

void
ws_way_free(struct ws_way **out)
{
	struct ws_way *way = take_ptr(out);

	if (way == NULL)
		return;
	proxy_cancel(&way->dial);
	ws_tunnels_cancel(&way->carried);
	watch_stop(&way->watch);
	cleanup_fd(&way->listener);
	cleanup_fd(&way->fd);
	free(way->path);
	free(way);
}

/* Reports the failure to the owner; the connection was never libwebsockets'. */
void
ws_way_fail(struct ws_conn *c, const char *why)
{
	ws_end(c, why);
	ws_conn_free(c);
}

static bool
is_this_process(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof peer;

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 && peer.pid == getpid();
}

static void
on_accept(void *arg, int listener, unsigned events)
{
	struct ws_conn *c = arg;
	auto_fd int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	(void)events;
	if (fd < 0 || !is_this_process(fd))
		return;
	start_pipe(c->ws, take_fd(&fd), take_fd(&c->way->fd));
	ws_way_free(&c->way);
}

/* An abstract name, with the length that libwebsockets 4.1 gives to connect(2): no trailing
 * zeros. */
static int
open_listener(struct ws_way *way)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	auto_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	unsigned char random[NAME_BYTES];
	socklen_t len;

	if (fd < 0)
		return -errno;
	random_bytes(random, sizeof random);
	way->name[0] = '+';
	way->name[1] = '@';
	for (unsigned i = 0; i < sizeof random; i++)
		snprintf(way->name + 2 + 2 * (size_t)i, 3, "%02x", random[i]);
	memcpy(un.sun_path + 1, way->name + 2, strlen(way->name + 2));
	len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(way->name + 1));
	if (bind(fd, (struct sockaddr *)&un, len) < 0 || listen(fd, 4) < 0)
		return -errno;
	way->listener = take_fd(&fd);
	return 0;
}

static void
on_proxied(void *arg, int fd, const char *why)
{
	struct ws_conn *c = arg;
	struct ws_way *way = c->way;
	int rc;

	way->dial = NULL;
	way->carried = NULL;
	if (fd < 0) {
		ws_way_fail(c, why);
		return;
	}
	way->fd = fd;
	rc = open_listener(way);
	if (rc < 0) {
		ws_set_why(c, "cannot join the proxy's connection: %s", strerror(-rc));
		ws_way_fail(c, NULL);
		return;
	}
	way->watch = watch_start(c->ws->loop, way->listener, WATCH_READ, on_accept, c);
	c->dialing = true;
	c->wsi = ws_connect(c, way->name, 0, way->path);
	c->dialing = false;
	if (c->wsi != NULL)
		return;
	c->state = WS_STARTING; /* the owner has not been told yet */
	ws_end(c, "cannot begin the handshake");
	if (c->released)
		ws_conn_free(c);
}

int
ws_way_start(struct ws_conn *c, const struct ws_dial *dial, struct err *err)
{
	struct ws_way *way = xcalloc(1, sizeof *way);
	const struct proxy_setup setup = {.proxy = dial->proxy,
		.addr = dial->addr,
		.target = dial->target,
		.timeout_ms = c->ws->config.handshake_ms,
		.done = on_proxied,
		.arg = c};
	const struct ws_tunnels_setup carried = {.addr = dial->addr,
		.proxy = dial->proxy,
		.host = dial->host,
		.target = dial->target,
		.tls = dial->tls,
		.done = on_proxied,
		.arg = c};

	way->listener = way->fd = -1;
	way->path = xstrdup(dial->path);
	c->way = way;
	if (dial->carriers != NULL)
		return ws_tunnels_dial(dial->carriers, &carried, &way->carried, err);
	return proxy_dial(&way->dial, c->ws->loop, &setup, err);
}
