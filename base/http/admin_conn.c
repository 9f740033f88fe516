#include "base/http/admin_conn.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/core/log.h"
#include "base/http/http1.h"
#include "base/http/own_host.h"

enum {
	HEAD_MAX = 8 * 1024,
	BODY_MAX = 64 * 1024,
	REQUEST_MS = 5000, /* for the whole request; also the longest stall of a reply */
	REPLY_MS = 60000,
	LINGER_MS = 1000,
};

enum stage { STAGE_HEAD, STAGE_BODY, STAGE_REPLY, STAGE_LINGER };

struct admin_conn {
	TAILQ_ENTRY(admin_conn) entry;
	struct admin_listener *listener;
	struct in6_addr peer; /* all zero for the Unix socket */
	struct watch *watch;
	struct timer *timer;
	uint64_t end_ms; /* deadline of this stage, whatever arrives */
	int fd;
	enum stage stage;
	bool is_head;
	char *method, *path, *query;
	struct http1_body framing;
	struct buf in, body, out;
};

void
admin_conn_free(struct admin_conn *c)
{
	TAILQ_REMOVE(&c->listener->conns, c, entry);
	c->listener->n_conns--;
	watch_stop(&c->watch);
	timer_free(&c->timer);
	cleanup_fd(&c->fd);
	buf_fini(&c->in);
	buf_fini(&c->body);
	buf_fini(&c->out);
	free(c->method);
	free(c->path);
	free(c->query);
	free(c);
}

/* --- eviction ------------------------------------------------------------------------------- */

static unsigned
admin_conn_count(const struct admin_listener *l, const struct in6_addr *peer)
{
	const struct admin_conn *c;
	unsigned n = 0;

	TAILQ_FOREACH(c, &l->conns, entry)
		n += IN6_ARE_ADDR_EQUAL(&c->peer, peer);
	return n;
}

/* What closing it would lose, in rising order: a wait for the peer's end, a request that may never
 * come, a reply. */
static unsigned
admin_conn_worth(const struct admin_conn *c)
{
	return c->stage == STAGE_LINGER ? 0 : c->stage == STAGE_REPLY ? 2 : 1;
}

struct admin_conn *
admin_conn_victim(const struct admin_listener *l)
{
	struct admin_conn *c, *victim = NULL;
	unsigned most = 0;

	TAILQ_FOREACH(c, &l->conns, entry) {
		unsigned n = admin_conn_count(l, &c->peer);

		if (n > most || (n == most && admin_conn_worth(c) < admin_conn_worth(victim)))
			victim = c;
		most = MAX(most, n);
	}
	return victim;
}

/* --- one request ---------------------------------------------------------------------------- */

static void
on_deadline(void *arg)
{
	admin_conn_free(arg);
}

/* A peer that sends byte by byte is still limited by the stage's deadline. */
static void
set_deadline(struct admin_conn *c)
{
	uint64_t now = loop_now_ms(c->listener->admin->loop);

	timer_start(c->timer, c->end_ms > now ? MIN(c->end_ms - now, (uint64_t)REQUEST_MS) : 0, 0);
}

/* Sends what is queued. The reply is followed by a short wait for the peer's end, since closing
 * over unread bytes would reset the connection and take the reply with it. */
static void
admin_conn_flush(struct admin_conn *c)
{
	ssize_t n = 0;

	while (buf_len(&c->out) > 0 && (n = buf_write(&c->out, c->fd)) > 0)
		set_deadline(c);
	if (n < 0 && n != -EAGAIN) {
		admin_conn_free(c);
		return;
	}
	if (buf_len(&c->out) > 0) {
		watch_set(c->watch, WATCH_WRITE);
		return;
	}
	watch_set(c->watch, WATCH_READ);
	if (c->stage == STAGE_REPLY) {
		shutdown(c->fd, SHUT_WR);
		c->stage = STAGE_LINGER;
		timer_start(c->timer, LINGER_MS, 0);
	}
}

static void
add_head(struct buf *out, const struct admin_reply *reply, const char *allow)
{
	const char *type = reply->type != NULL ? reply->type : "text/plain; charset=utf-8";

	buf_printf(out,
		"HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nCache-Control: "
		"no-store\r\n"
		"X-Content-Type-Options: nosniff\r\n%s%s%sConnection: close\r\n\r\n",
		reply->status, http1_reason(reply->status), type, buf_len(&reply->body),
		allow != NULL ? "Allow: " : "", allow != NULL ? allow : "",
		allow != NULL ? "\r\n" : "");
}

/* The reply is small and the socket's buffer empty: one write sends all, or the peer does not
 * read. */
void
admin_answer(int fd, const struct admin_reply *reply)
{
	auto_fd int mine = fd;
	auto_buf struct buf out;

	buf_init(&out, BUF_UNLIMITED);
	add_head(&out, reply, NULL);
	buf_add(&out, buf_at(&reply->body), buf_len(&reply->body));
	if (buf_write(&out, mine) > 0)
		shutdown(mine, SHUT_WR);
}

static void
reply_with(struct admin_conn *c, struct admin_reply *reply, const char *allow)
{
	add_head(&c->out, reply, allow);
	if (!c->is_head)
		buf_add(&c->out, buf_at(&reply->body), buf_len(&reply->body));
	c->stage = STAGE_REPLY;
	c->end_ms = loop_now_ms(c->listener->admin->loop) + REPLY_MS;
	admin_conn_flush(c);
}

static void
admin_conn_refuse(struct admin_conn *c, int status, const char *why, const char *allow)
{
	struct admin_reply reply = {.status = status};

	buf_init(&reply.body, BUF_UNLIMITED);
	buf_printf(&reply.body, "%s\n", why);
	reply_with(c, &reply, allow);
	buf_fini(&reply.body);
}

static const struct admin_route *
find_route(const struct admin_conn *c, const char **allow)
{
	const char *method = c->is_head ? "GET" : c->method;

	*allow = NULL;
	for (const struct admin_route *r = c->listener->admin->routes; r->method != NULL; r++) {
		if (strcmp(r->path, c->path) != 0)
			continue;
		if (strcmp(r->method, method) == 0)
			return r;
		*allow = r->method;
	}
	return NULL;
}

static admin_take_fn *
find_taker(const struct admin_conn *c)
{
	const struct admin_taken *t = c->listener->admin->taken;

	if (!c->listener->local || strcmp(c->method, "POST") != 0)
		return NULL;
	for (; t != NULL && t->path != NULL; t++) {
		if (strcmp(c->path, t->path) == 0)
			return t->take;
	}
	return NULL;
}

static void
give_away(struct admin_conn *c, admin_take_fn *take)
{
	const struct admin *a = c->listener->admin;
	auto_free char *query = take_ptr(&c->query);
	int fd = take_fd(&c->fd);

	admin_conn_free(c);
	take(a->arg, fd, query);
}

static void
admin_conn_answer(struct admin_conn *c)
{
	struct admin_request req = {
		.path = c->path, .query = c->query, .local = c->listener->local};
	struct admin_reply reply = {.status = 200};
	const char *allow;
	const struct admin_route *r = find_route(c, &allow);
	admin_take_fn *take = find_taker(c);

	if (take != NULL) {
		give_away(c, take);
		return;
	}
	if (r == NULL) {
		admin_conn_refuse(c, allow != NULL ? 405 : 404,
			allow != NULL ? "wrong method" : "no such page", allow);
		return;
	}
	if (r->local_only && !req.local) {
		admin_conn_refuse(c, 403, "only on the Unix socket", NULL);
		return;
	}
	req.body = buf_str(&c->body);
	req.body_len = buf_len(&c->body);
	buf_init(&reply.body, BUF_UNLIMITED);
	r->fn(c->listener->admin->arg, &req, &reply);
	reply_with(c, &reply, NULL);
	buf_fini(&reply.body);
}

static void
take_body(struct admin_conn *c)
{
	while (!http1_body_done(&c->framing)) {
		struct http1_str piece = {0};
		size_t used = 0;
		enum http1_got got = http1_body_next(
			&c->framing, buf_at(&c->in), buf_len(&c->in), &used, &piece);

		if (got == HTTP1_BAD) {
			admin_conn_refuse(c, 400, "malformed body", NULL);
			return;
		}
		if (got == HTTP1_DATA && buf_add(&c->body, piece.at, piece.len) < 0) {
			admin_conn_refuse(c, 413, "the body is too large", NULL);
			return;
		}
		buf_consume(&c->in, used);
		if (got == HTTP1_MORE)
			return;
	}
	admin_conn_answer(c);
}

static void
use_head(struct admin_conn *c, const struct http1_head *h)
{
	const char *mark = memchr(h->target.at, '?', h->target.len);
	size_t path = mark != NULL ? (size_t)(mark - h->target.at) : h->target.len;

	c->is_head = h->is_head;
	c->method = xstrndup(h->method.at, h->method.len);
	c->path = xstrndup(h->target.at, path);
	c->query = mark != NULL ? xstrndup(mark + 1, h->target.len - path - 1) : xstrdup("");
	c->stage = STAGE_BODY;
	http1_body_init(&c->framing, (enum http1_framing)h->framing, h->length);
}

/* Protects against DNS rebinding: accepts the Unix socket, requests without Host (HTTP/1.0), which
 * browsers cannot send, and Hosts that are ours. */
static bool
is_asked_for(struct admin_conn *c, const struct http1_head *h)
{
	struct admin_listener *l = c->listener;
	char name[80], clean[80];

	if (l->local || h->host.len == 0 || own_host(h->host, l->admin->own))
		return true;
	for (size_t i = 0; i < ARRAY_LEN(l->admin->names); i++)
		if (own_host(h->host, l->admin->names[i]))
			return true;
	l->misnamed++;
	snprintf(name, sizeof name, "%.*s", (int)MIN(h->host.len, sizeof name - 1), h->host.at);
	log_limited(LOG_LEVEL_WARN, 6, "admin",
		"refused a request for a name that is not ours; admin.names takes more of them "
		"listener=%s host=\"%s\"",
		l->key, log_clean(clean, sizeof clean, name));
	return false;
}

static void
take_head(struct admin_conn *c)
{
	struct http1_head h;
	size_t from = 0;
	ssize_t n;
	int status;

	buf_consume(&c->in, http1_skip_blank(buf_at(&c->in), buf_len(&c->in)));
	n = buf_len(&c->in) > 0 ? http1_find_end(buf_at(&c->in), buf_len(&c->in), &from) : 0;
	if (n == 0 && buf_len(&c->in) < HEAD_MAX)
		return;
	if (n == 0 || n > HEAD_MAX) {
		admin_conn_refuse(c, 431, "the head is too large", NULL);
		return;
	}
	if (n < 0) {
		admin_conn_refuse(c, 400, "not an HTTP/1.1 request", NULL);
		return;
	}
	status = http1_parse_request(&h, buf_at(&c->in), (size_t)n);
	if (status != 0) {
		admin_conn_refuse(c, status, h.why, NULL);
		return;
	}
	if (!is_asked_for(c, &h)) {
		admin_conn_refuse(c, 421,
			"this is none of our names: ask by an address, by localhost, or put the "
			"name "
			"into admin.names",
			NULL);
		return;
	}
	if (h.has_length && h.length > BODY_MAX) {
		admin_conn_refuse(c, 413, "the body is too large", NULL);
		return;
	}
	use_head(c, &h);
	buf_consume(&c->in, (size_t)n);
	if (h.expects && buf_len(&c->in) == 0 && !http1_body_done(&c->framing)) {
		buf_adds(&c->out, "HTTP/1.1 100 Continue\r\n\r\n");
		admin_conn_flush(c);
		return;
	}
	take_body(c);
}

static void
on_readable(struct admin_conn *c)
{
	ssize_t n = buf_read(&c->in, c->fd, HEAD_MAX);

	if (n == -EAGAIN)
		return;
	if (n <= 0) {
		admin_conn_free(c);
		return;
	}
	if (c->stage == STAGE_LINGER) {
		buf_consume(&c->in, buf_len(&c->in));
		return;
	}
	if (c->stage == STAGE_HEAD)
		take_head(c);
	else
		take_body(c);
}

static void
on_ready(void *arg, int fd, unsigned events)
{
	struct admin_conn *c = arg;

	(void)fd;
	if (events & WATCH_HUP)
		admin_conn_free(c);
	else if (events & WATCH_WRITE)
		admin_conn_flush(c);
	else
		on_readable(c);
}

void
admin_conn_start(struct admin_listener *l, int fd, const struct addr *peer)
{
	struct admin_conn *c = xcalloc(1, sizeof *c);

	c->listener = l;
	c->fd = fd;
	if (addr_ip(peer, &c->peer) && !IN6_IS_ADDR_V4MAPPED(&c->peer))
		memset(&c->peer.s6_addr[8], 0, 8); /* one machine may use a whole /64 */
	buf_init(&c->in, HEAD_MAX + 4096);
	buf_init(&c->body, BODY_MAX);
	buf_init(&c->out, BUF_UNLIMITED);
	TAILQ_INSERT_TAIL(&l->conns, c, entry);
	l->n_conns++;
	c->timer = timer_new(l->admin->loop, on_deadline, c);
	c->end_ms = loop_now_ms(l->admin->loop) + REQUEST_MS;
	timer_start(c->timer, REQUEST_MS, 0);
	c->watch = watch_start(l->admin->loop, fd, WATCH_READ, on_ready, c);
	on_readable(c);
}
