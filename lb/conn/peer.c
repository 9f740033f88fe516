#include "lb/conn/peer.h"

#include <errno.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/core/sock.h"

enum { TOGETHER_BYTES = 4096 };

static void
peer_want(struct peer *p)
{
	unsigned events = p->paused || p->eof ? 0 : WATCH_READ;

	if (buf_len(&p->out) > 0)
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
	p->watch = watch_start(loop, fd, connecting ? WATCH_WRITE : WATCH_READ, fn, arg);
}

void
peer_connected(struct peer *p)
{
	peer_want(p);
}

ssize_t
peer_read(struct peer *p, char *to, size_t size)
{
	ssize_t n;

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
send_now(int fd, struct iovec *iov, int n, size_t total)
{
	const struct msghdr msg = {.msg_iov = iov, .msg_iovlen = (size_t)n};
	char together[TOGETHER_BYTES];
	size_t at = 0;

	if (n == 1)
		return send(fd, iov[0].iov_base, total, MSG_NOSIGNAL);
	if (total > sizeof together)
		return sendmsg(fd, &msg, MSG_NOSIGNAL);
	for (int i = 0; i < n; i++) {
		memcpy(together + at, iov[i].iov_base, iov[i].iov_len);
		at += iov[i].iov_len;
	}
	return send(fd, together, total, MSG_NOSIGNAL);
}

int
peer_send(struct peer *p, struct iovec *iov, int n)
{
	size_t total = 0;
	ssize_t sent = 0;

	if (p->broken)
		return -EPIPE;
	for (int i = 0; i < n; i++)
		total += iov[i].iov_len;
	if (buf_len(&p->out) == 0) {
		do
			sent = send_now(p->fd, iov, n, total);
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

static int
send_fin(struct peer *p)
{
	if (p->shut)
		return 0;
	p->shut = true;
	return shutdown(p->fd, SHUT_WR) < 0 ? -errno : 0;
}

int
peer_flush(struct peer *p)
{
	ssize_t n = buf_write(&p->out, p->fd);

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
peer_unacked_bytes(const struct peer *p)
{
	struct tcp_info info;
	socklen_t len = sizeof info;
	uint64_t sent, acked;

	if (getsockopt(p->fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0 ||
		len < offsetof(struct tcp_info, tcpi_bytes_retrans) +
				sizeof info.tcpi_bytes_retrans)
		return 0;
	sent = info.tcpi_bytes_sent - info.tcpi_bytes_retrans;
	acked = info.tcpi_bytes_acked - (info.tcpi_bytes_acked > 0); /* the SYN counts as one */
	return sent > acked ? sent - acked : 0;
}

void
peer_close(struct peer *p, bool reset)
{
	if (p->fd < 0)
		return;
	watch_stop(&p->watch);
	sock_close(&p->fd, reset);
	buf_fini(&p->out);
}
