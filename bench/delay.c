/*
 * A TCP relay that forwards every byte after a fixed number of milliseconds, in both directions: it
 * simulates round trips if the kernel has no tc netem. It shows the effect of windows on speed, not
 * that of loss. One thread, any number of connections.
 *
 *	bench/delay LISTEN:PORT TO:PORT MILLISECONDS
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "base/core/loop.h"
#include "base/core/sock.h"

enum { PIECE = 256 * 1024, FLIGHT_MAX = 256 * 1024 * 1024 };

struct piece {
	STAILQ_ENTRY(piece) link;
	uint64_t due_ms;
	size_t start, len;
	char bytes[];
};

struct way {
	struct conn *conn;
	int from, to;
	STAILQ_HEAD(, piece) pieces;
	size_t flight;
	struct timer *timer;
	bool ended;
};

struct conn {
	struct way way[2];
	struct watch *watch[2];
	bool blocked[2]; /* direction i waits for room in its `to`, which is fd 1 - i */
};

static struct loop *loop;
static struct addr target;
static uint64_t delay_ms;

static void
finish(struct conn *c)
{
	for (int i = 0; i < 2; i++) {
		struct piece *p;

		while ((p = STAILQ_FIRST(&c->way[i].pieces)) != NULL) {
			STAILQ_REMOVE_HEAD(&c->way[i].pieces, link);
			free(p);
		}
		watch_stop(&c->watch[i]);
		timer_free(&c->way[i].timer);
		close(c->way[i].from);
	}
	free(c);
}

static void
set_watches(struct conn *c)
{
	for (int i = 0; i < 2; i++) {
		unsigned events = c->blocked[1 - i] ? WATCH_WRITE : 0;

		if (!c->way[i].ended && c->way[i].flight < FLIGHT_MAX)
			events |= WATCH_READ;
		watch_set(c->watch[i], events != 0 ? events : WATCH_HUP);
	}
}

/* Returns false at the end. */
static bool
hand_on(struct way *w)
{
	struct conn *c = w->conn;
	uint64_t now = mono_ms();
	struct piece *p;

	while ((p = STAILQ_FIRST(&w->pieces)) != NULL && p->due_ms <= now) {
		ssize_t n = send(w->to, p->bytes + p->start, p->len, MSG_NOSIGNAL);

		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0)
			return false;
		p->start += (size_t)n;
		p->len -= (size_t)n;
		w->flight -= (size_t)n;
		if (p->len == 0) {
			STAILQ_REMOVE_HEAD(&w->pieces, link);
			free(p);
		}
	}
	c->blocked[w == &c->way[1]] = p != NULL && p->due_ms <= now;
	if (p != NULL && p->due_ms > now && !timer_active(w->timer))
		timer_start(w->timer, p->due_ms - now, 0);
	return p != NULL || !w->ended;
}

static void
move(struct way *w)
{
	struct conn *c = w->conn;

	if (hand_on(w))
		set_watches(c);
	else
		finish(c);
}

static void
on_timer(void *arg)
{
	move(arg);
}

static void
take(struct way *w)
{
	struct piece *p = xmalloc(sizeof *p + PIECE);
	ssize_t n = recv(w->from, p->bytes, PIECE, 0);

	if (n <= 0) {
		w->ended |= n == 0 || errno != EAGAIN;
		free(p);
		return;
	}
	p = xrealloc(p, sizeof *p + (size_t)n);
	p->due_ms = mono_ms() + delay_ms;
	p->start = 0;
	p->len = (size_t)n;
	w->flight += (size_t)n;
	STAILQ_INSERT_TAIL(&w->pieces, p, link);
}

static void
on_fd(void *arg, int fd, unsigned events)
{
	struct conn *c = arg;
	int i = fd == c->way[1].from;

	if (events & (WATCH_READ | WATCH_HUP)) {
		take(&c->way[i]);
		move(&c->way[i]);
		return; /* the connection may have been freed */
	}
	move(&c->way[1 - i]);
}

static void
on_client(void *arg, int listener, unsigned events)
{
	struct conn *c;
	int fd[2] = {accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), -1};

	(void)arg;
	(void)events;
	if (fd[0] < 0)
		return;
	if (sock_connect(&target, 0, &fd[1]) < 0) {
		close(fd[0]);
		return;
	}
	c = xcalloc(1, sizeof *c);
	for (int i = 0; i < 2; i++) {
		c->way[i] = (struct way){.conn = c, .from = fd[i], .to = fd[1 - i]};
		STAILQ_INIT(&c->way[i].pieces);
		sock_nodelay(fd[i]);
		c->way[i].timer = timer_new(loop, on_timer, &c->way[i]);
		c->watch[i] = watch_start(loop, fd[i], WATCH_READ, on_fd, c);
	}
}

int
main(int argc, char **argv)
{
	struct err err = {0};
	struct addr at;
	int listener;

	if (argc != 4 || addr_parse(&at, argv[1], 0, &err) < 0 ||
		addr_parse(&target, argv[2], 0, &err) < 0 ||
		sock_listen(&at, 0, &listener, &err) < 0 || loop_new(&loop, &err) < 0) {
		fprintf(stderr, "usage: delay LISTEN:PORT TO:PORT MILLISECONDS %s\n", err.text);
		return 2;
	}
	delay_ms = strtoull(argv[3], NULL, 10);
	signal(SIGPIPE, SIG_IGN);
	watch_start(loop, listener, WATCH_READ, on_client, NULL);
	puts("ready");
	fflush(stdout);
	loop_run(loop);
	return 0;
}
