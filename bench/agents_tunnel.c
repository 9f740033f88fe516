/* HTTP/2 by hand (RFC 9113): settings and pings are answered, all else is ignored. */
#include "bench/agents.h"

#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/err.h>

#include "tunnel/h2/wire.h"

enum { FRAME_HEAD = 9, SETTINGS = 4, PING = 6, GOAWAY = 7, ACK = 1, PREFACE = 24 };
enum { PROBE_MS = 2 * HEARTBEAT_MS + 600, LOOK_MS = 100 };

static void
tunnel_interest(struct tunnel *t)
{
	struct epoll_event e = {
		.events = EPOLLIN | (buf_len(&t->out) > 0 || t->writes ? (unsigned)EPOLLOUT : 0u),
		.data.ptr = t,
	};

	if (epoll_ctl(w.epoll, EPOLL_CTL_MOD, t->fd, &e) < 0)
		die("epoll_ctl");
}

void
tunnel_close(struct tunnel *t, const char *why)
{
	if (t->phase == IDLE)
		return;
	if (why != NULL && !w.coming)
		fprintf(stderr, "%s: tunnel: %s\n", t->of->name, why);
	w.failed += !t->settled;
	SSL_free(t->ssl);
	close(t->fd);
	buf_fini(&t->in);
	buf_fini(&t->out);
	t->ssl = NULL;
	retry_later(&t->retry, t->phase == OPEN);
	t->phase = IDLE;
	t->settled = false;
}

void
tunnel_dial(struct node *n)
{
	struct tunnel *t = &n->tunnel;

	if (t->phase != IDLE)
		return;
	t->ssl = dial_hub(n, &t->session, TUNNEL_ALPN_REVERSE, t, &t->fd);
	buf_init(&t->in, BUF_UNLIMITED);
	buf_init(&t->out, BUF_UNLIMITED);
	t->phase = TLS;
	t->writes = true;
	t->retry.since = now();
}

static void
tunnel_frame(struct tunnel *t, unsigned type, unsigned flags, const void *payload, size_t len)
{
	const unsigned char head[FRAME_HEAD] = {0, (unsigned char)(len >> 8), (unsigned char)len,
		(unsigned char)type, (unsigned char)flags};

	buf_add(&t->out, head, sizeof head);
	buf_add(&t->out, payload, len);
}

static void
tunnel_flush(struct tunnel *t)
{
	while (buf_len(&t->out) > 0) {
		int len = SSL_write(t->ssl, buf_at(&t->out), (int)buf_len(&t->out));

		if (len <= 0)
			break;
		buf_consume(&t->out, (size_t)len);
	}
	if (buf_len(&t->out) == 0)
		buf_release(&t->out);
	if (buf_len(&t->in) == 0)
		buf_release(&t->in);
	tunnel_interest(t);
}

static bool
tunnel_take(struct tunnel *t)
{
	const unsigned char *p = (const unsigned char *)buf_at(&t->in);
	size_t have = buf_len(&t->in), len;

	if (have < FRAME_HEAD)
		return false;
	len = (size_t)p[0] << 16 | (size_t)p[1] << 8 | p[2];
	if (have < FRAME_HEAD + len)
		return false;
	if (p[3] == SETTINGS && (p[4] & ACK) == 0) {
		tunnel_frame(t, SETTINGS, ACK, "", 0);
		t->settled = true;
		t->retry.most_ms = RETRY_FIRST_MS;
	} else if (p[3] == PING && (p[4] & ACK) == 0) {
		tunnel_frame(t, PING, ACK, p + FRAME_HEAD, len);
	}
	buf_consume(&t->in, FRAME_HEAD + len);
	return true;
}

static void
tunnel_read(struct tunnel *t)
{
	char piece[PIECE];
	int len;

	t->heard = now();
	ERR_clear_error();
	while ((len = SSL_read(t->ssl, piece, sizeof piece)) > 0)
		buf_add(&t->in, piece, (size_t)len);
	if (SSL_get_error(t->ssl, len) != SSL_ERROR_WANT_READ) {
		tunnel_close(t, "the hub ended the connection");
		return;
	}
	if (t->phase == UPGRADE && buf_len(&t->in) >= PREFACE) {
		buf_consume(&t->in, PREFACE);
		t->phase = OPEN;
	}
	while (t->phase == OPEN && tunnel_take(t)) {
	}
	tunnel_flush(t);
}

/* What an agent does where nothing was heard for two heartbeats (tunnel/h2/session_life.c). */
static void
tunnel_look(struct tunnel *t, double at)
{
	const bool due = at - t->heard >= PROBE_MS / 1000.0;
	const int on = due, second = 1;

	if (t->phase != OPEN || (!due && !t->probes))
		return;
	setsockopt(t->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
	t->probes = due;
	if (!due)
		return;
	setsockopt(t->fd, IPPROTO_TCP, TCP_KEEPINTVL, &second, sizeof second);
	setsockopt(t->fd, IPPROTO_TCP, TCP_KEEPIDLE, &second, sizeof second);
	t->heard = at;
}

void
tunnels_look(void)
{
	double at = now();

	if (w.heartbeat_ms > 0 || at - w.looked < LOOK_MS / 1000.0)
		return;
	w.looked = at;
	for (size_t i = 0; i < w.n; i++)
		tunnel_look(&w.nodes[i].tunnel, at);
}

static void
tunnel_say_beat(struct tunnel *t)
{
	const unsigned ms = w.heartbeat_ms > 0 ? w.heartbeat_ms : HEARTBEAT_MS;
	const uint32_t beat = htonl(ms);
	unsigned char payload[8];

	memcpy(payload, w.heartbeat_ms > 0 ? "beat" : "kept", 4);
	memcpy(payload + 4, &beat, sizeof beat);
	tunnel_frame(t, PING, 0, payload, sizeof payload);
}

void
tunnel_ready(struct tunnel *t, unsigned events)
{
	int rc, why;
	bool busy;

	if (t->phase == IDLE)
		return;
	if (t->phase != TLS) {
		if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
			tunnel_read(t);
		else
			tunnel_flush(t);
		return;
	}
	ERR_clear_error();
	rc = SSL_do_handshake(t->ssl);
	if (rc != 1) {
		why = SSL_get_error(t->ssl, rc);
		t->writes = why == SSL_ERROR_WANT_WRITE;
		if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) {
			tunnel_interest(t);
			return;
		}
		busy = is_busy_alert();
		w.failed -= busy;
		tunnel_close(t, "TLS failed");
		if (busy)
			retry_as_told(&t->retry, "2");
		return;
	}
	w.resumed += SSL_session_reused(t->ssl);
	t->writes = false;
	t->phase = UPGRADE;
	tunnel_frame(t, SETTINGS, 0, "", 0);
	tunnel_say_beat(t);
	tunnel_flush(t);
}
