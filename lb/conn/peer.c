#include "lb/conn/peer.h"

#include <errno.h>
#include <linux/sock_diag.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/core/sock.h"
#include "base/tls/tls_stream.h"

enum { TOGETHER_BYTES = 4096 };

struct peer_tls {
	struct tls_stream *stream; /* owns the socket */
	struct timer *kick; /* announces what TLS has read ahead */
	bool ended; /* seen behind what was read last: the socket does not announce it again */
	struct peer *peer;
	watch_fn *fn;
	void *arg;
	char why[256]; /* the stream could not be made */
};

static void
peer_want(struct peer *p)
{
	unsigned events = p->paused || p->eof ? 0 : WATCH_READ;

	/* with TLS a close_notify may wait as well */
	if (buf_len(&p->out) > 0 || (p->tls != NULL && p->shutting && !p->shut))
		events |= WATCH_WRITE;
	if (events == 0 && p->mind)
		events = WATCH_HUP;
	watch_set(p->watch, events);
}

void
peer_open(struct peer *p, struct loop *loop, int fd, bool connecting, watch_fn *fn, void *arg)
{
	memset(p, 0, sizeof *p);
	buf_init(&p->out, BUF_UNLIMITED);
	p->fd = fd;
	p->watch = watch_start(
		loop, fd, WATCH_UNBLOCKED | (connecting ? WATCH_WRITE : WATCH_READ), fn, arg);
}

/* --- TLS ------------------------------------------------------------------------------------ */

static void
peer_on_kick(void *arg)
{
	struct peer_tls *t = arg;

	if (!t->peer->paused)
		t->fn(t->arg, t->peer->fd, WATCH_READ);
}

int
peer_start_tls(
	struct peer *p, const struct tls_setup *setup, struct loop *loop, watch_fn *fn, void *arg)
{
	struct tls_setup own = *setup;
	struct peer_tls *t = xcalloc(1, sizeof *t);
	struct err err = {0};

	p->tls = t;
	t->peer = p;
	t->fn = fn;
	t->arg = arg;
	t->kick = timer_new(loop, peer_on_kick, t);
	own.loop = NULL;
	own.fd = p->fd;
	return tls_stream_new(&own, &t->stream, &err);
}

int
peer_shake(struct peer *p)
{
	unsigned events = WATCH_READ;
	int rc = tls_stream_step(p->tls->stream, &events);

	if (rc == -EAGAIN)
		watch_set(p->watch, events);
	return rc;
}

const char *
peer_tls_why(const struct peer *p)
{
	return p->tls->stream != NULL ? tls_stream_why(p->tls->stream)
				      : "this machine cannot make a TLS connection";
}

bool
peer_tls_speaks(const struct peer *p, const char *alpn)
{
	return tls_stream_speaks(p->tls->stream, alpn);
}

bool
peer_tls_resumed(const struct peer *p)
{
	return tls_stream_resumed(p->tls->stream);
}

static void
peer_kick(const struct peer *p)
{
	if (p->tls != NULL && !p->paused && !p->eof &&
		(p->tls->ended || tls_stream_has_input(p->tls->stream)))
		timer_start(p->tls->kick, 0, 0);
}

/* A server may have spoken in the flight that ended its handshake. */
void
peer_connected(struct peer *p)
{
	peer_want(p);
	peer_kick(p);
}

/* Reads on while there are bytes in our memory: the caller takes less than `size` as a sign that
 * there is no more. */
static ssize_t
peer_read_tls(struct peer *p, char *to, size_t size)
{
	struct tls_stream *s = p->tls->stream;
	ssize_t n, got = 0;

	do {
		n = tls_stream_read(s, to + got, size - (size_t)got);
		got += MAX(n, 0);
	} while (n > 0 && (size_t)got < size && tls_stream_has_input(s));
	if (got > 0) {
		p->tls->ended = n <= 0 && n != -EAGAIN;
		peer_kick(p);
		return got;
	}
	if (n == -ENODATA) {
		p->cut = true;
		n = 0;
	}
	if (n == 0) {
		p->eof = true;
		peer_want(p);
	}
	return n;
}

/* Pieces that fit into a record are one. */
static ssize_t
peer_write_tls(const struct peer *p, const struct iovec *iov, int n, size_t total)
{
	char record[TLS_RECORD_BYTES];
	ssize_t sent = 0, rc;
	size_t at = 0;

	for (int i = 0; i < n && n > 1 && total <= sizeof record; i++) {
		memcpy(record + at, iov[i].iov_base, iov[i].iov_len);
		at += iov[i].iov_len;
	}
	if (at > 0)
		return tls_stream_write(p->tls->stream, record, at);
	for (int i = 0; i < n; i++) {
		if (iov[i].iov_len == 0)
			continue;
		rc = tls_stream_write(p->tls->stream, iov[i].iov_base, iov[i].iov_len);
		if (rc < 0)
			return sent > 0 && rc == -EAGAIN ? sent : rc;
		sent += rc;
		if ((size_t)rc < iov[i].iov_len)
			break;
	}
	return sent;
}

/* --- both ----------------------------------------------------------------------------------- */

ssize_t
peer_read(struct peer *p, char *to, size_t size)
{
	ssize_t n;

	if (p->tls != NULL)
		return peer_read_tls(p, to, size);
	do
		n = recv(p->fd, to, size, 0);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if (n == 0) {
		p->eof = true;
		peer_want(p);
	}
	return n;
}

bool
peer_has_input(const struct peer *p)
{
	char byte;

	return recv(p->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

bool
peer_is_quiet(struct peer *p)
{
	char byte;

	if (p->tls != NULL)
		return tls_stream_is_quiet(p->tls->stream);
	return recv(p->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

static int
keep_rest(struct peer *p, const struct iovec *iov, int n, size_t sent)
{
	for (int i = 0; i < n; i++) {
		size_t skip = MIN(sent, iov[i].iov_len);

		sent -= skip;
		buf_add(&p->out, (const char *)iov[i].iov_base + skip, iov[i].iov_len - skip);
	}
	peer_want(p);
	return 0;
}

/* Copying a head and a small body together is cheaper than passing them to the kernel as two
 * pieces. */
static ssize_t
send_now(const struct peer *p, struct iovec *iov, int n, size_t total)
{
	const struct msghdr msg = {.msg_iov = iov, .msg_iovlen = (size_t)n};
	const int flags = MSG_NOSIGNAL | (p->last ? MSG_MORE : 0);
	char together[TOGETHER_BYTES];
	size_t at = 0;
	int fd = p->fd;

	if (p->tls != NULL) {
		ssize_t rc = peer_write_tls(p, iov, n, total);

		errno = rc < 0 ? (int)-rc : 0;
		return rc < 0 ? -1 : rc;
	}
	if (n == 1)
		return send(fd, iov[0].iov_base, total, flags);
	if (total > sizeof together)
		return sendmsg(fd, &msg, flags);
	for (int i = 0; i < n; i++) {
		memcpy(together + at, iov[i].iov_base, iov[i].iov_len);
		at += iov[i].iov_len;
	}
	return send(fd, together, total, flags);
}

static int
send_fin(struct peer *p)
{
	if (p->shut)
		return 0;
	if (p->tls != NULL && tls_stream_end(p->tls->stream) == -EAGAIN) {
		peer_want(p);
		return 0;
	}
	p->shut = true;
	if (p->tls != NULL)
		return 0;
	return shutdown(p->fd, SHUT_WR) < 0 ? -errno : 0;
}

static void
peer_on_sent(void *arg, const char *rest, size_t len)
{
	struct peer *p = arg;

	p->in = NULL;
	if (len > 0) {
		buf_add(&p->out, rest, len);
		peer_want(p);
	} else if (p->shutting) {
		(void)send_fin(p); /* it fails if the connection is broken, which WATCH_HUP tells */
	}
}

/* Before its socket is used otherwise. */
static void
peer_settle(const struct peer *p)
{
	if (p->in != NULL)
		send_ring_submit(p->in);
}

bool
peer_is_flushed(const struct peer *p)
{
	peer_settle(p);
	return buf_len(&p->out) == 0;
}

bool
peer_is_delivered(const struct peer *p)
{
	int unacked = 0;

	return peer_is_flushed(p) && (ioctl(p->fd, SIOCOUTQ, &unacked) < 0 || unacked == 0);
}

/* The segment of the last piece carries the FIN, which a later send would separate from it. */
static bool
send_later(struct peer *p, const struct iovec *iov, int n)
{
	struct send_ring *ring = p->later;

	p->later = NULL;
	if (p->tls == NULL && !p->last && buf_len(&p->out) == 0 &&
		send_ring_add(ring, p->fd, iov, n, peer_on_sent, p))
		p->in = ring;
	return p->in != NULL;
}

int
peer_send(struct peer *p, struct iovec *iov, int n)
{
	size_t total = 0;
	ssize_t sent = 0;

	peer_settle(p);
	if (p->broken)
		return -EPIPE;
	if (p->later != NULL && send_later(p, iov, n))
		return 0;
	for (int i = 0; i < n; i++)
		total += iov[i].iov_len;
	if (buf_len(&p->out) == 0) {
		do
			sent = send_now(p, iov, n, total);
		while (sent < 0 && errno == EINTR);
		if (sent < 0 && errno != EAGAIN) {
			p->broken = true;
			return -errno;
		}
		sent = MAX(sent, 0);
	}
	return (size_t)sent == total ? 0 : keep_rest(p, iov, n, (size_t)sent);
}

int
peer_send_bytes(struct peer *p, const void *data, size_t len)
{
	struct iovec iov = {.iov_len = len};

	memcpy(&iov.iov_base, &data, sizeof data); /* iovec has no const */
	return peer_send(p, &iov, 1);
}

static ssize_t
peer_write_out(struct peer *p)
{
	ssize_t n = 0;

	if (p->tls == NULL)
		return buf_write(&p->out, p->fd);
	while (buf_len(&p->out) > 0 && n >= 0) {
		n = tls_stream_write(p->tls->stream, buf_at(&p->out), buf_len(&p->out));
		buf_consume(&p->out, (size_t)MAX(n, 0));
	}
	return n;
}

int
peer_flush(struct peer *p)
{
	ssize_t n = peer_write_out(p);

	if (n < 0 && n != -EAGAIN) {
		p->broken = true;
		buf_fini(&p->out);
		return (int)n;
	}
	if (buf_len(&p->out) > 0)
		return 0;
	buf_release(&p->out);
	peer_want(p);
	return p->shutting ? send_fin(p) : 0;
}

int
peer_shut(struct peer *p)
{
	p->shutting = true;
	if (p->in != NULL) {
		send_ring_more(p->in, p);
		return 0;
	}
	return buf_len(&p->out) == 0 ? send_fin(p) : 0;
}

void
peer_pause(struct peer *p)
{
	p->paused = true;
	peer_want(p);
}

void
peer_resume(struct peer *p)
{
	if (!p->paused)
		return;
	p->paused = false;
	peer_want(p);
	peer_kick(p);
}

size_t
peer_room(const struct peer *p)
{
	uint32_t info[SK_MEMINFO_VARS] = {0};
	socklen_t len = sizeof info;

	if (getsockopt(p->fd, SOL_SOCKET, SO_MEMINFO, info, &len) < 0)
		return SIZE_MAX;
	return info[SK_MEMINFO_SNDBUF] - MIN(info[SK_MEMINFO_SNDBUF], info[SK_MEMINFO_WMEM_QUEUED]);
}

uint64_t
peer_unacked_bytes(struct peer *p)
{
	struct tcp_info info;
	socklen_t len = sizeof info;
	uint64_t sent, acked;

	peer_settle(p);
	if (getsockopt(p->fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0 ||
		len < offsetof(struct tcp_info, tcpi_bytes_retrans) +
				sizeof info.tcpi_bytes_retrans)
		return 0;
	sent = info.tcpi_bytes_sent - info.tcpi_bytes_retrans;
	acked = info.tcpi_bytes_acked - (info.tcpi_bytes_acked > 0); /* the SYN counts as one */
	return (sent > acked ? sent - acked : 0) + buf_len(&p->out);
}

void
peer_close(struct peer *p, bool reset)
{
	if (p->fd < 0)
		return;
	peer_settle(p);
	watch_stop(&p->watch);
	if (p->tls != NULL) {
		timer_free(&p->tls->kick);
		if (reset)
			tls_stream_reset(&p->tls->stream);
		else
			tls_stream_free(&p->tls->stream);
		free(take_ptr(&p->tls));
	}
	sock_close(&p->fd, reset);
	buf_fini(&p->out);
}
