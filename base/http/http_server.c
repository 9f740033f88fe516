#include "base/http/http_server.h"

#include <errno.h>
#include <sys/socket.h>

enum { READ_BYTES = 16 * 1024, LINGER_MS = 1000 };

void
http_conn_free(struct http_conn *c)
{
	TAILQ_REMOVE(&c->server->conns, c, link);
	c->server->n_conns--;
	timer_free(&c->timer);
	tls_stream_free(&c->tls);
	if (c->wire != NULL)
		c->wire->ops->free(c->wire);
	buf_fini(&c->in);
	buf_fini(&c->body);
	buf_fini(&c->out);
	c->server->ops->free(c);
}

int
http_conn_release(struct http_conn *c)
{
	int fd = transport_socket_release(&c->wire);

	http_conn_free(c);
	return fd;
}

/* --- timeouts ------------------------------------------------------------------------------- */

static void
http_conn_on_late(void *arg)
{
	struct http_conn *c = arg;

	if (c->stage == HTTP_UPGRADED)
		c->server->ops->late(c);
	http_conn_free(c);
}

static void
http_conn_enter(struct http_conn *c, enum http_stage stage, unsigned ms)
{
	c->stage = stage;
	c->end_ms = ms > 0 ? loop_now_ms(c->server->loop) + ms : UINT64_MAX;
}

/* A peer that takes byte by byte is still limited by the stage's deadline. */
static void
http_conn_progress(struct http_conn *c)
{
	uint64_t now = loop_now_ms(c->server->loop);

	if (c->stage != HTTP_UPGRADED)
		timer_start(c->timer,
			c->end_ms > now ? MIN(c->end_ms - now, (uint64_t)c->server->stall_ms) : 0,
			0);
}

/* --- responses ------------------------------------------------------------------------------ */

bool
http_conn_flush(struct http_conn *c)
{
	ssize_t n = 0;

	do {
		while (buf_len(&c->out) > 0 &&
			(n = c->wire->ops->write(c->wire, buf_at(&c->out), buf_len(&c->out))) > 0) {
			buf_consume(&c->out, (size_t)n);
			http_conn_progress(c);
		}
		if (c->open && buf_len(&c->out) == 0) {
			c->server->ops->more(c);
			c->open = buf_len(&c->out) > 0;
		}
	} while (n > 0 && buf_len(&c->out) > 0);
	if (n < 0 && n != -EAGAIN) {
		http_conn_free(c);
		return false;
	}
	c->wire->ops->want(c->wire, buf_len(&c->out) > 0);
	return true;
}

void
http_answer_head(struct buf *out, const struct http_answer *a, bool close)
{
	buf_printf(out, "HTTP/1.1 %u %s\r\n", a->status, http1_reason((int)a->status));
	if (a->status != 304)
		buf_printf(out, "Content-Type: %s\r\n",
			a->type != NULL ? a->type : "text/plain; charset=utf-8");
	if (a->status != 304 && !a->open)
		buf_printf(out, "Content-Length: %zu\r\n", a->len);
	buf_printf(out, "%sX-Content-Type-Options: nosniff\r\nConnection: %s\r\n\r\n", a->fields,
		close ? "close" : "keep-alive");
}

void
http_conn_answer(struct http_conn *c, const struct http_answer *a)
{
	c->open = a->open && !c->is_head;
	c->close |= a->open;
	http_answer_head(&c->out, a, c->close);
	if (!c->is_head && a->status != 304)
		buf_add(&c->out, a->body, a->len);
	http_conn_enter(c, HTTP_REPLY, c->server->reply_ms);
}

void
http_conn_refuse(struct http_conn *c, unsigned status, const char *why, const char *fields)
{
	auto_free char *text = xasprintf("%s\n", why);

	c->close = true;
	http_conn_answer(c, &(struct http_answer){status, NULL, fields, text, strlen(text), false});
}

bool
http_conn_end(struct http_conn *c)
{
	c->close = true;
	http_conn_enter(c, HTTP_REPLY, c->server->reply_ms);
	return http_conn_flush(c);
}

/* Closing over unread bytes would reset the connection and take the response with it: so a short
 * wait for the peer's end. */
static void
http_conn_replied(struct http_conn *c)
{
	unsigned ms = c->close ? LINGER_MS : c->server->head_ms;

	if (!c->server->keep_alive && c->fd >= 0)
		shutdown(c->fd, SHUT_WR);
	buf_consume(&c->body, buf_len(&c->body));
	http_conn_enter(c, c->close ? HTTP_LINGER : HTTP_HEAD, ms);
	timer_start(c->timer, ms, 0);
}

/* --- requests ------------------------------------------------------------------------------- */

/* The head is complete and valid. A request with a body ends its connection: it may be answered
 * before the body has been read. */
static void
http_conn_use_head(struct http_conn *c, const struct http1_head *h, size_t len)
{
	struct http_server *s = c->server;

	c->is_head = h->is_head;
	http1_body_init(&c->framing, (enum http1_framing)h->framing, h->length);
	c->close = !s->keep_alive || !h->keep_alive || !http1_body_done(&c->framing);
	c->stage = HTTP_BODY;
	s->ops->head(c, h);
	buf_consume(&c->in, len);
	if (c->stage != HTTP_BODY)
		return;
	if (h->has_length && h->length > s->body_max)
		s->ops->refuse(c, 413, "the body is too large");
	else if (h->expects && buf_len(&c->in) == 0 && !http1_body_done(&c->framing))
		buf_adds(&c->out, "HTTP/1.1 100 Continue\r\n\r\n");
}

/* False: more must come. */
static bool
http_conn_take_head(struct http_conn *c)
{
	const struct http_server_ops *ops = c->server->ops;
	struct http1_head h;
	size_t from = 0;
	ssize_t n;
	int status;

	buf_consume(&c->in, http1_skip_blank(buf_at(&c->in), buf_len(&c->in)));
	n = buf_len(&c->in) > 0 ? http1_find_end(buf_at(&c->in), buf_len(&c->in), &from) : 0;
	if (n == 0 && buf_len(&c->in) < HTTP_SERVER_HEAD_MAX)
		return false;
	c->is_head = false;
	if (n == 0 || n > HTTP_SERVER_HEAD_MAX)
		ops->refuse(c, 431, "the head is too large");
	else if (n < 0)
		ops->refuse(c, 400, "not an HTTP/1.1 request");
	else if ((status = http1_parse_request(&h, buf_at(&c->in), (size_t)n)) != 0)
		ops->refuse(c, (unsigned)status, h.why);
	else
		http_conn_use_head(c, &h, (size_t)n);
	return true;
}

/* False: more must come. */
static bool
http_conn_take_body(struct http_conn *c)
{
	while (!http1_body_done(&c->framing)) {
		struct http1_str piece = {0};
		size_t used = 0;
		enum http1_got got = http1_body_next(
			&c->framing, buf_at(&c->in), buf_len(&c->in), &used, &piece);

		if (got == HTTP1_BAD || buf_add(&c->body, piece.at, piece.len) < 0) {
			bool bad = got == HTTP1_BAD;

			c->server->ops->refuse(c, bad ? 400 : 413,
				bad ? "malformed body" : "the body is too large");
			return true;
		}
		buf_consume(&c->in, used);
		if (got == HTTP1_MORE)
			return false;
	}
	return true;
}

/* Goes through the stages as far as what has arrived leads. False: the connection is gone. */
static bool
http_conn_advance(struct http_conn *c)
{
	const struct http_server_ops *ops = c->server->ops;

	do {
		switch (c->stage) {
		case HTTP_HEAD:
			if (!http_conn_take_head(c))
				return true;
			break;
		case HTTP_BODY:
			if (!http_conn_take_body(c))
				return true;
			if (c->stage == HTTP_BODY && !ops->request(c))
				return false;
			break;
		case HTTP_REPLY:
			if (buf_len(&c->out) > 0)
				return true;
			http_conn_replied(c);
			continue;
		case HTTP_UPGRADED:
			if (!ops->upgraded(c))
				return false;
			if (c->stage == HTTP_UPGRADED)
				return http_conn_flush(c);
			break;
		default:
			buf_consume(&c->in, buf_len(&c->in));
			return true;
		}
	} while (http_conn_flush(c));
	return false;
}

/* --- the connection ------------------------------------------------------------------------- */

/* A client that does not read its response is not read from. TLS may hold more than the socket
 * tells: it is read until -EAGAIN. */
static void
http_conn_on_wire(void *arg)
{
	struct http_conn *c = arg;
	bool more = true;

	if (!http_conn_flush(c))
		return;
	while (http_conn_advance(c)) {
		bool held = c->stage == HTTP_REPLY;
		ssize_t n;

		c->wire->ops->hold(c->wire, held);
		if (held || !more)
			return;
		n = c->wire->ops->read(c->wire, buf_reserve(&c->in, READ_BYTES), READ_BYTES);
		if (n == -EAGAIN)
			return;
		if (n <= 0) {
			http_conn_free(c);
			return;
		}
		if (c->stage == HTTP_LINGER) /* dropped, a piece in each turn */
			return;
		buf_commit(&c->in, (size_t)n);
		more = c->fd < 0 || n == READ_BYTES;
	}
}

static void
http_conn_open(struct http_conn *c, struct transport *wire)
{
	wire->arg = c;
	wire->on = http_conn_on_wire;
	c->wire = wire;
	c->stage = HTTP_HEAD;
	http_conn_on_wire(c);
}

static void
http_conn_on_tls(void *arg, enum tls_event event)
{
	struct http_conn *c = arg;

	c->server->ops->handshake(c, event == TLS_OPEN ? NULL : tls_stream_why(c->tls));
	if (event == TLS_OPEN)
		http_conn_open(c, transport_tls(&c->tls));
	else
		http_conn_free(c);
}

static void
http_conn_shake(struct http_conn *c, int fd)
{
	static const char *const offers[] = {"http/1.1", NULL};
	const struct http_server *s = c->server;
	const struct tls_setup tls = {
		.loop = s->loop,
		.fd = fd,
		.ctx = s->tls,
		.offers = offers,
		.proof = s->proven ? TLS_PROVEN : TLS_ANYBODY,
		.on = http_conn_on_tls,
		.arg = c,
	};
	struct err err = {0};

	c->fd = -1;
	if (tls_stream_new(&tls, &c->tls, &err) < 0) {
		s->ops->handshake(c, err.text);
		http_conn_free(c);
	}
}

void
http_conn_start(struct http_conn *c, struct http_server *s, int fd, const struct addr *peer)
{
	c->server = s;
	c->fd = fd;
	if (addr_ip(peer, &c->peer) && !IN6_IS_ADDR_V4MAPPED(&c->peer))
		memset(&c->peer.s6_addr[8], 0, 8); /* one machine may use a whole /64 */
	buf_init(&c->in, BUF_UNLIMITED); /* a head, plus the data of one read */
	buf_init(&c->body, s->body_max);
	buf_init(&c->out, BUF_UNLIMITED); /* one response */
	c->timer = timer_new(s->loop, http_conn_on_late, c);
	http_conn_enter(c, HTTP_HANDSHAKE, s->head_ms);
	timer_start(c->timer, s->head_ms, 0);
	TAILQ_INSERT_TAIL(&s->conns, c, link);
	s->n_conns++;
	if (s->tls != NULL)
		http_conn_shake(c, fd);
	else
		http_conn_open(c, transport_socket(s->loop, fd));
}

/* --- eviction ------------------------------------------------------------------------------- */

static unsigned
http_conn_count(const struct http_server *s, const struct in6_addr *peer)
{
	struct http_conn *c;
	unsigned n = 0;

	TAILQ_FOREACH(c, &s->conns, link)
		n += c->stage != HTTP_UPGRADED && IN6_ARE_ADDR_EQUAL(&c->peer, peer);
	return n;
}

/* What closing it would lose, in rising order: a wait for the peer's end, a request that may never
 * come, a reply. */
static unsigned
http_conn_worth(const struct http_conn *c)
{
	return c->stage == HTTP_LINGER ? 0 : c->stage == HTTP_REPLY ? 2 : 1;
}

struct http_conn *
http_server_victim(const struct http_server *s)
{
	struct http_conn *c, *victim = NULL;
	unsigned most = 0;

	TAILQ_FOREACH(c, &s->conns, link) {
		unsigned n = c->stage != HTTP_UPGRADED ? http_conn_count(s, &c->peer) : 0;

		if (n > most ||
			(n > 0 && n == most && http_conn_worth(c) < http_conn_worth(victim)))
			victim = c;
		most = MAX(most, n);
	}
	return victim;
}

void
http_server_fini(struct http_server *s)
{
	struct http_conn *c;

	while ((c = TAILQ_FIRST(&s->conns)) != NULL)
		http_conn_free(c);
}
