#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/tls/wire.h"

struct wire_socket {
	struct wire wire;
	struct watch *watch;
	int fd;
	bool held, writable;
};

static struct wire_socket *
wire_socket_of(struct wire *w)
{
	return container_of(w, struct wire_socket, wire);
}

static ssize_t
read_socket(struct wire *w, void *to, size_t size)
{
	ssize_t n = recv(wire_socket_of(w)->fd, to, size, 0);

	return n < 0 ? -errno : n;
}

static ssize_t
write_socket(struct wire *w, const void *data, size_t n)
{
	ssize_t done = send(wire_socket_of(w)->fd, data, n, MSG_NOSIGNAL);

	return done < 0 ? -errno : done;
}

static void
wire_socket_ask(const struct wire_socket *s)
{
	unsigned events = (s->held ? 0 : WATCH_READ) | (s->writable ? WATCH_WRITE : 0);

	watch_set(s->watch, events != 0 ? events : WATCH_HUP);
}

static void
want_socket(struct wire *w, bool writable)
{
	wire_socket_of(w)->writable = writable;
	wire_socket_ask(wire_socket_of(w));
}

static void
hold_socket(struct wire *w, bool held)
{
	wire_socket_of(w)->held = held;
	wire_socket_ask(wire_socket_of(w));
}

static void
free_socket(struct wire *w)
{
	struct wire_socket *s = wire_socket_of(w);

	watch_stop(&s->watch);
	close(s->fd);
	free(s);
}

static const struct wire_ops socket_ops = {
	.read = read_socket,
	.write = write_socket,
	.want = want_socket,
	.hold = hold_socket,
	.free = free_socket,
};

static void
on_ready(void *arg, int fd, unsigned events)
{
	struct wire_socket *s = arg;

	(void)fd;
	(void)events;
	if (s->wire.on != NULL)
		s->wire.on(s->wire.arg);
}

struct wire *
wire_socket(struct loop *loop, int fd)
{
	struct wire_socket *s = xcalloc(1, sizeof *s);

	s->wire.ops = &socket_ops;
	s->fd = fd;
	s->watch = watch_start(loop, fd, WATCH_READ, on_ready, s);
	return &s->wire;
}
