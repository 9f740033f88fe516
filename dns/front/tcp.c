#include "dns/front/tcp.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/core/buf.h"
#include "base/core/log.h"
#include "base/core/sock.h"

enum { READ_BYTES = 4096, IN_MAX = 2 + 65535, SWEEP_MS = 1000, HEADER_BYTES = 12 };
enum { DRAIN_MAX = 1 << 20 }; /* bytes behind the last message that we discard */

struct tcp_conn {
	struct tcp_conn *prev, *next;
	struct tcp *tcp;
	struct watch *watch;
	int fd; /* -1: closed, kept only for its references */
	struct dns_client client;
	uint64_t key; /* of the client */
	unsigned refs;
	bool busy; /* a function further up the stack uses it: do not free */
	bool eof;
	bool over; /* no more messages are read: further bytes are discarded */
	bool ended; /* our side is shut down */
	size_t drained; /* bytes */
	uint64_t last_ms;
	struct buf in, out;
};

struct tcp {
	struct loop *loop;
	struct watch *watch;
	struct timer *sweep;
	int fd;
	bool paused; /* out of descriptors: the next sweep resumes accepting */
	struct tcp_handler handler;
	struct tcp_conn *conns;
	unsigned n;
};

void
tcp_ref(struct tcp_conn *c)
{
	c->refs++;
}

const struct dns_client *
tcp_client(const struct tcp_conn *c)
{
	return &c->client;
}

static void
conn_free_if_done(struct tcp_conn *c)
{
	if (c->fd < 0 && c->refs == 0 && !c->busy)
		free(c);
}

static void
conn_close(struct tcp_conn *c)
{
	struct tcp *t = c->tcp;

	if (c->fd < 0)
		return;
	watch_stop(&c->watch);
	close(take_fd(&c->fd));
	buf_fini(&c->in);
	buf_fini(&c->out);
	if (c->prev != NULL)
		c->prev->next = c->next;
	else
		t->conns = c->next;
	if (c->next != NULL)
		c->next->prev = c->prev;
	t->n--;
	conn_free_if_done(c);
}

static bool
is_full(const struct tcp_conn *c)
{
	return c->refs >= TCP_OPEN_MAX || buf_len(&c->out) > TCP_OUT_MAX / 2;
}

/* Stops reading while too many queries are open or too many bytes unread, so that the client's TCP
 * window fills. */
static void
set_watch(struct tcp_conn *c)
{
	watch_set(c->watch,
		(c->eof || (is_full(c) && !c->over) ? 0u : WATCH_READ) |
			(buf_len(&c->out) > 0 ? WATCH_WRITE : 0u));
}

/* Handles complete messages, as long as the client's open queries and unread answers are below the
 * limits. */
static void
take_messages(struct tcp_conn *c)
{
	while (c->fd >= 0 && !c->over && !is_full(c) && buf_len(&c->in) >= 2) {
		const uint8_t *m = (const uint8_t *)buf_at(&c->in);
		size_t len = (size_t)m[0] << 8 | m[1];

		if (len < HEADER_BYTES) { /* not DNS, and the stream cannot be resynchronised */
			c->over = true;
			return;
		}
		if (buf_len(&c->in) < 2 + len)
			return;
		c->last_ms = loop_now_ms(c->tcp->loop);
		c->tcp->handler.query(c->tcp->handler.arg, c, m + 2, len);
		if (c->fd >= 0)
			buf_consume(&c->in, 2 + len);
	}
}

static void
tcp_flush(struct tcp_conn *c)
{
	while (c->fd >= 0 && buf_len(&c->out) > 0) {
		ssize_t n = buf_write(&c->out, c->fd);

		if (n == -EAGAIN)
			return;
		if (n <= 0)
			conn_close(c);
	}
}

/* Closing with unread bytes would send a reset, which discards the answers still in flight. */
static void
tcp_drain(struct tcp_conn *c)
{
	c->drained += buf_len(&c->in);
	buf_consume(&c->in, buf_len(&c->in));
	if (c->drained > DRAIN_MAX)
		conn_close(c);
}

/* Queries from before the end are still answered, whether the client ended the stream (RFC 7766
 * 6.2.4 leaves this to us) or we did; in the latter case we then wait for the client's end. */
static void
close_when_done(struct tcp_conn *c)
{
	bool done = c->fd >= 0 && c->refs == 0 && buf_len(&c->out) == 0;

	if (c->fd >= 0 && c->over)
		tcp_drain(c);
	if (c->fd < 0)
		return;
	if (done && c->eof) {
		conn_close(c);
		return;
	}
	if (done && c->over && !c->ended) {
		c->ended = true;
		shutdown(c->fd, SHUT_WR);
	}
	set_watch(c);
}

void
tcp_unref(struct tcp_conn **out)
{
	struct tcp_conn *c = take_ptr(out);

	assert(c->refs > 0);
	c->refs--;
	if (c->fd < 0) {
		conn_free_if_done(c);
		return;
	}
	if (!c->busy) {
		c->busy = true;
		take_messages(c);
		close_when_done(c);
		c->busy = false;
		conn_free_if_done(c);
	}
}

void
tcp_reply(struct tcp_conn *c, const uint8_t *m, size_t len)
{
	uint8_t head[2] = {(uint8_t)(len >> 8), (uint8_t)len};
	bool was_busy = c->busy;

	if (c->fd < 0 || len == 0)
		return;
	if (buf_len(&c->out) + 2 + len > TCP_OUT_MAX) {
		conn_close(c);
		return;
	}
	c->busy = true;
	buf_add(&c->out, head, sizeof head);
	buf_add(&c->out, m, len);
	tcp_flush(c);
	if (c->fd >= 0)
		set_watch(c);
	c->busy = was_busy;
	conn_free_if_done(c);
}

static void
on_ready(void *arg, int fd, unsigned events)
{
	struct tcp_conn *c = arg;
	ssize_t n = -EAGAIN;

	c->busy = true;
	if (events & WATCH_WRITE)
		tcp_flush(c);
	if (c->fd >= 0 && (events & (WATCH_READ | WATCH_HUP))) {
		n = buf_read(&c->in, fd, READ_BYTES);
		if (n == 0)
			c->eof = true;
		else if (n < 0 && n != -EAGAIN)
			conn_close(c);
	}
	take_messages(c);
	close_when_done(c);
	c->busy = false;
	conn_free_if_done(c);
}

static unsigned
count_of(const struct tcp *t, uint64_t key)
{
	unsigned n = 0;

	for (const struct tcp_conn *c = t->conns; c != NULL; c = c->next)
		n += c->key == key;
	return n;
}

static void
close_idlest_of(struct tcp *t, uint64_t key)
{
	struct tcp_conn *oldest = NULL;

	for (struct tcp_conn *c = t->conns; c != NULL; c = c->next) {
		if (c->key == key && (oldest == NULL || c->last_ms <= oldest->last_ms))
			oldest = c;
	}
	conn_close(oldest);
}

/* Makes room for a connection of this client by closing one of the client that has the most. */
static void
make_room(struct tcp *t, uint64_t key)
{
	unsigned most = 0;

	if (count_of(t, key) >= TCP_CLIENT_MAX) {
		close_idlest_of(t, key);
		return;
	}
	if (t->n < TCP_CONNS_MAX)
		return;
	for (const struct tcp_conn *c = t->conns; c != NULL; c = c->next) {
		unsigned n = count_of(t, c->key);

		if (n > most) {
			most = n;
			key = c->key;
		}
	}
	close_idlest_of(t, key);
}

static void
on_sweep(void *arg)
{
	struct tcp *t = arg;
	uint64_t now = loop_now_ms(t->loop);

	for (struct tcp_conn *c = t->conns, *next; c != NULL; c = next) {
		next = c->next;
		if (now - c->last_ms > TCP_IDLE_MS && c->refs == 0)
			conn_close(c);
	}
	if (t->paused) {
		t->paused = false;
		watch_set(t->watch, WATCH_READ);
	}
	if (t->n == 0)
		timer_cancel(t->sweep);
}

/* Pending connections would wake the loop again at once. */
static void
accept_failed(struct tcp *t, int error)
{
	if (error != EMFILE && error != ENFILE && error != ENOBUFS && error != ENOMEM)
		return;
	log_limited(LOG_LEVEL_ERROR, 1, "dns", "cannot accept connections: %s", strerror(error));
	t->paused = true;
	watch_set(t->watch, 0);
	timer_start(t->sweep, SWEEP_MS, SWEEP_MS);
}

static void
tcp_adopt(struct tcp *t, int fd, const struct dns_client *client)
{
	struct tcp_conn *c = xcalloc(1, sizeof *c);

	c->key = dns_client_key(client);
	make_room(t, c->key);
	c->tcp = t;
	c->fd = fd;
	c->client = *client;
	c->last_ms = loop_now_ms(t->loop);
	buf_init(&c->in, IN_MAX);
	buf_init(&c->out, TCP_OUT_MAX);
	sock_nodelay(fd);
	c->next = t->conns;
	if (c->next != NULL)
		c->next->prev = c;
	t->conns = c;
	c->watch = watch_start(t->loop, fd, WATCH_READ, on_ready, c);
	if (t->n++ == 0)
		timer_start(t->sweep, SWEEP_MS, SWEEP_MS);
}

static void
on_accept(void *arg, int fd, unsigned events)
{
	struct tcp *t = arg;

	(void)events;
	for (unsigned i = 0; i < 16; i++) {
		struct dns_client client = {0};
		socklen_t len = sizeof client;
		int peer = accept4(fd, &client.sa, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (peer < 0) {
			accept_failed(t, errno);
			return;
		}
		if (t->handler.admit == NULL || t->handler.admit(t->handler.arg, peer))
			tcp_adopt(t, peer, &client);
		else
			sock_close(&peer, true);
	}
}

void
tcp_open(struct tcp **out, struct loop *loop, int fd, const struct tcp_handler *handler)
{
	struct tcp *t = xcalloc(1, sizeof *t);

	t->loop = loop;
	t->fd = fd;
	t->handler = *handler;
	t->sweep = timer_new(loop, on_sweep, t);
	t->watch = watch_start(loop, fd, WATCH_READ, on_accept, t);
	*out = t;
}

void
tcp_quiet(struct tcp *t)
{
	t->paused = false;
	watch_stop(&t->watch);
}

void
tcp_close(struct tcp **out)
{
	struct tcp *t = take_ptr(out);

	if (t == NULL)
		return;
	while (t->conns != NULL)
		conn_close(t->conns);
	watch_stop(&t->watch);
	timer_free(&t->sweep);
	close(t->fd);
	free(t);
}
