#include "base/tls/transport.h"

struct transport_tls {
	struct transport wire;
	struct tls_stream *stream;
};

static struct transport_tls *
transport_of(struct transport *w)
{
	return container_of(w, struct transport_tls, wire);
}

static ssize_t
read_tls(struct transport *w, void *to, size_t size)
{
	return tls_stream_read(transport_of(w)->stream, to, size);
}

static ssize_t
write_tls(struct transport *w, const void *data, size_t n)
{
	return tls_stream_write(transport_of(w)->stream, data, n);
}

static ssize_t
gather_tls(struct transport *w, const void *data, size_t n)
{
	return tls_stream_gather(transport_of(w)->stream, data, n);
}

static int
send_tls(struct transport *w)
{
	return tls_stream_send(transport_of(w)->stream);
}

static void
want_tls(struct transport *w, bool writable)
{
	tls_stream_want(transport_of(w)->stream, writable);
}

static void
hold_tls(struct transport *w, bool held)
{
	tls_stream_hold(transport_of(w)->stream, held);
}

static int
fd_tls(struct transport *w)
{
	return tls_stream_fd(transport_of(w)->stream);
}

static void
free_tls(struct transport *w)
{
	struct transport_tls *t = transport_of(w);

	tls_stream_free(&t->stream);
	free(t);
}

static const struct transport_ops tls_ops = {
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
	struct transport_tls *t = arg;

	(void)event; /* the next read returns the error */
	if (t->wire.on != NULL)
		t->wire.on(t->wire.arg);
}

struct transport *
transport_tls(struct tls_stream **stream)
{
	struct transport_tls *t = xcalloc(1, sizeof *t);

	t->wire.ops = &tls_ops;
	t->stream = take_ptr(stream);
	tls_stream_use(t->stream, on_tls, t);
	return &t->wire;
}
