#include "base/tls/wire.h"

struct wire_tls {
	struct wire wire;
	struct tls_stream *stream;
};

static struct wire_tls *
wire_of(struct wire *w)
{
	return container_of(w, struct wire_tls, wire);
}

static ssize_t
read_tls(struct wire *w, void *to, size_t size)
{
	return tls_stream_read(wire_of(w)->stream, to, size);
}

static ssize_t
write_tls(struct wire *w, const void *data, size_t n)
{
	return tls_stream_write(wire_of(w)->stream, data, n);
}

static ssize_t
gather_tls(struct wire *w, const void *data, size_t n)
{
	return tls_stream_gather(wire_of(w)->stream, data, n);
}

static int
send_tls(struct wire *w)
{
	return tls_stream_send(wire_of(w)->stream);
}

static void
want_tls(struct wire *w, bool writable)
{
	tls_stream_want(wire_of(w)->stream, writable);
}

static void
hold_tls(struct wire *w, bool held)
{
	tls_stream_hold(wire_of(w)->stream, held);
}

static int
fd_tls(struct wire *w)
{
	return tls_stream_fd(wire_of(w)->stream);
}

static void
free_tls(struct wire *w)
{
	struct wire_tls *t = wire_of(w);

	tls_stream_free(&t->stream);
	free(t);
}

static const struct wire_ops tls_ops = {
	.read = read_tls,
	.write = write_tls,
	.gather = gather_tls,
	.send = send_tls,
	.want = want_tls,
	.hold = hold_tls,
	.fd = fd_tls,
	.free = free_tls,
};

static void
on_tls(void *arg, enum tls_event event)
{
	struct wire_tls *t = arg;

	(void)event; /* what failed is told by the next read */
	if (t->wire.on != NULL)
		t->wire.on(t->wire.arg);
}

struct wire *
wire_tls(struct tls_stream **stream)
{
	struct wire_tls *t = xcalloc(1, sizeof *t);

	t->wire.ops = &tls_ops;
	t->stream = take_ptr(stream);
	tls_stream_use(t->stream, on_tls, t);
	return &t->wire;
}
