#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/tls/transport.h"

struct transport_socket {
	struct transport wire;
	struct watch *watch;
	int fd;
	bool held, writable;
};

static struct transport_socket *
transport_socket_of(struct transport *w)
{
	return container_of(w, struct transport_socket, wire);
}

static ssize_t
read_socket(struct transport *w, void *to, size_t size)
{
	ssize_t n = recv(transport_socket_of(w)->fd, to, size, 0);

	return n < 0 ? -errno : n;
}

static ssize_t
write_socket(struct transport *w, const void *data, size_t n)
{
	ssize_t done = send(transport_socket_of(w)->fd, data, n, MSG_NOSIGNAL);

	return done < 0 ? -errno : done;
}

static void
transport_socket_ask(const struct transport_socket *s)
{
	unsigned events = (s->held ? 0 : WATCH_READ) | (s->writable ? WATCH_WRITE : 0);

	watch_set(s->watch, events != 0 ? events : WATCH_HUP);
}

static void
want_socket(struct transport *w, bool writable)
{
	transport_socket_of(w)->writable = writable;
	transport_socket_ask(transport_socket_of(w));
}

static void
hold_socket(struct transport *w, bool held)
{
	transport_socket_of(w)->held = held;
	transport_socket_ask(transport_socket_of(w));
}

int
transport_socket_release(struct transport **w)
{
	struct transport_socket *s = transport_socket_of(take_ptr(w));
	int fd = s->fd;

	watch_stop(&s->watch);
	free(s);
	return fd;
}

static void
free_socket(struct transport *w)
{
	close(transport_socket_release(&w));
}

static const struct transport_ops socket_ops = {
	.read = read_socket,
	.write = write_socket,
	.want = want_socket,
	.hold = hold_socket,
	.free = free_socket,
};

static void
on_ready(void *arg, int fd, unsigned events)
{
	struct transport_socket *s = arg;

	(void)fd;
	(void)events;
	if (s->wire.on != NULL)
		s->wire.on(s->wire.arg);
}

struct transport *
transport_socket(struct loop *loop, int fd)
{
	struct transport_socket *s = xcalloc(1, sizeof *s);

	s->wire.ops = &socket_ops;
	s->fd = fd;
	s->watch = watch_start(loop, fd, WATCH_READ, on_ready, s);
	return &s->wire;
}
