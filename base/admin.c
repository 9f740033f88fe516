#include "base/admin.h"

#include <assert.h>
#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <unistd.h>

#include "base/http1.h"
#include "base/log.h"
#include "base/sock.h"

enum {
	CONNS_MAX = 32, /* a listener */
	HEAD_MAX = 8 * 1024,
	BODY_MAX = 64 * 1024,
	REQUEST_MS = 5000,
	LINGER_MS = 1000,
	PAUSE_MS = 200,
};

struct listener {
	struct admin *admin;
	struct watch *watch;
	struct timer *pause; /* no descriptors or too many connections: look again later */
	int fd;
	unsigned conns;
	bool local;
};

struct admin {
	struct loop *loop;
	const struct admin_route *routes;
	void *arg;
	char *socket_path; /* removed at the end, NULL without one */
	struct listener tcp, local;
	struct conn *conns;
};

enum stage { STAGE_HEAD, STAGE_BODY, STAGE_REPLY, STAGE_LINGER };

struct conn {
	struct conn *next, **link;
	struct listener *listener;
	struct watch *watch;
	struct timer *timer;
	int fd;
	enum stage stage;
	bool is_head;
	char *method, *path, *query;
	struct http1_body framing;
	struct buf in, body, out;
};

static void
conn_free(struct conn *c)
{
	*c->link = c->next;
	if (c->next != NULL)
		c->next->link = c->link;
	c->listener->conns--;
	watch_stop(&c->watch);
	timer_free(&c->timer);
	close(c->fd);
	buf_fini(&c->in);
	buf_fini(&c->body);
	buf_fini(&c->out);
	free(c->method);
	free(c->path);
	free(c->query);
	free(c);
}

static void
on_deadline(void *arg)
{
	conn_free(arg);
}

/* Sends what is queued. The reply is followed by a short wait for the peer's end, since closing over unread
 * bytes would reset the connection and take the reply with it. */
static void
flush(struct conn *c)
{
	ssize_t n = 0;

	while (buf_len(&c->out) > 0 && (n = buf_write(&c->out, c->fd)) > 0)
		timer_start(c->timer, REQUEST_MS, 0);
	if (n < 0 && n != -EAGAIN) {
		conn_free(c);
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
reply_with(struct conn *c, struct admin_reply *reply, const char *allow)
{
	const char *type = reply->type != NULL ? reply->type : "text/plain; charset=utf-8";

	buf_printf(&c->out,
		"HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nCache-Control: "
		"no-store\r\n"
		"X-Content-Type-Options: nosniff\r\n%s%s%sConnection: close\r\n\r\n",
		reply->status, http1_reason(reply->status), type, buf_len(&reply->body),
		allow != NULL ? "Allow: " : "", allow != NULL ? allow : "",
		allow != NULL ? "\r\n" : "");
	if (!c->is_head)
		buf_add(&c->out, buf_at(&reply->body), buf_len(&reply->body));
	c->stage = STAGE_REPLY;
	flush(c);
}

static void
refuse(struct conn *c, int status, const char *why, const char *allow)
{
	struct admin_reply reply = {.status = status};

	buf_init(&reply.body, BUF_UNLIMITED);
	buf_printf(&reply.body, "%s\n", why);
	reply_with(c, &reply, allow);
	buf_fini(&reply.body);
}

static const struct admin_route *
find_route(const struct conn *c, const char **allow)
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

static void
answer(struct conn *c)
{
	struct admin_request req = {
		.path = c->path, .query = c->query, .local = c->listener->local};
	struct admin_reply reply = {.status = 200};
	const char *allow;
	const struct admin_route *r = find_route(c, &allow);

	if (r == NULL) {
		refuse(c, allow != NULL ? 405 : 404,
			allow != NULL ? "wrong method" : "no such page", allow);
		return;
	}
	if (r->local_only && !req.local) {
		refuse(c, 403, "only on the Unix socket", NULL);
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
take_body(struct conn *c)
{
	while (!http1_body_done(&c->framing)) {
		struct http1_str piece = {0};
		size_t used = 0;
		enum http1_got got = http1_body_next(
			&c->framing, buf_at(&c->in), buf_len(&c->in), &used, &piece);

		if (got == HTTP1_BAD) {
			refuse(c, 400, "malformed body", NULL);
			return;
		}
		if (got == HTTP1_DATA && buf_add(&c->body, piece.at, piece.len) < 0) {
			refuse(c, 413, "the body is too large", NULL);
			return;
		}
		buf_consume(&c->in, used);
		if (got == HTTP1_MORE)
			return;
	}
	answer(c);
}

static void
use_head(struct conn *c, const struct http1_head *h)
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

static void
take_head(struct conn *c)
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
		refuse(c, 431, "the head is too large", NULL);
		return;
	}
	if (n < 0) {
		refuse(c, 400, "not an HTTP/1.1 request", NULL);
		return;
	}
	status = http1_parse_request(&h, buf_at(&c->in), (size_t)n);
	if (status != 0) {
		refuse(c, status, h.why, NULL);
		return;
	}
	if (h.has_length && h.length > BODY_MAX) {
		refuse(c, 413, "the body is too large", NULL);
		return;
	}
	use_head(c, &h);
	buf_consume(&c->in, (size_t)n);
	if (h.expects && buf_len(&c->in) == 0 && !http1_body_done(&c->framing)) {
		buf_adds(&c->out, "HTTP/1.1 100 Continue\r\n\r\n");
		flush(c);
		return;
	}
	take_body(c);
}

static void
on_readable(struct conn *c)
{
	ssize_t n = buf_read(&c->in, c->fd, HEAD_MAX);

	if (n == -EAGAIN)
		return;
	if (n <= 0) {
		conn_free(c);
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
	struct conn *c = arg;

	(void)fd;
	if (events & WATCH_HUP)
		conn_free(c);
	else if (events & WATCH_WRITE)
		flush(c);
	else
		on_readable(c);
}

static void
conn_start(struct listener *l, int fd)
{
	struct conn *c = xcalloc(1, sizeof *c);

	c->listener = l;
	c->fd = fd;
	buf_init(&c->in, HEAD_MAX + 4096);
	buf_init(&c->body, BODY_MAX);
	buf_init(&c->out, BUF_UNLIMITED);
	c->link = &l->admin->conns;
	c->next = *c->link;
	if (c->next != NULL)
		c->next->link = &c->next;
	*c->link = c;
	l->conns++;
	c->timer = timer_new(l->admin->loop, on_deadline, c);
	timer_start(c->timer, REQUEST_MS, 0);
	c->watch = watch_start(l->admin->loop, fd, WATCH_READ, on_ready, c);
}

static void
pause_accepting(struct listener *l)
{
	watch_set(l->watch, 0);
	timer_start(l->pause, PAUSE_MS, 0);
}

static void
on_pause_over(void *arg)
{
	struct listener *l = arg;

	watch_set(l->watch, WATCH_READ);
}

static void
on_accept(void *arg, int listen_fd, unsigned events)
{
	struct listener *l = arg;
	int fd;

	(void)events;
	while (l->conns < CONNS_MAX) {
		fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd >= 0) {
			conn_start(l, fd);
			continue;
		}
		if (errno == EINTR || errno == ECONNABORTED)
			continue;
		if (errno != EAGAIN) {
			log_limited(LOG_LEVEL_WARN, 6, "admin", "cannot accept error=\"%s\"",
				strerror(errno));
			pause_accepting(l);
		}
		return;
	}
	pause_accepting(l);
}

static int
listen_on(struct admin *a, struct listener *l, const char *address, struct err *err)
{
	struct addr addr;
	int rc = addr_parse(&addr, address, 0, err);

	if (rc == 0)
		rc = sock_listen(&addr, 0, &l->fd, err);
	if (rc < 0)
		return rc;
	l->admin = a;
	l->local = addr.sa.sa_family == AF_UNIX;
	l->pause = timer_new(a->loop, on_pause_over, l);
	l->watch = watch_start(a->loop, l->fd, WATCH_READ, on_accept, l);
	return 0;
}

static int
listen_local(struct admin *a, const char *path, struct err *err)
{
	auto_free char *copy = xstrdup(path), *address = xasprintf("unix:%s", path);
	const char *folder = dirname(copy);
	int rc = mkdir_p(folder, 0755);

	if (rc < 0)
		return err_set(err, rc, "cannot make the folder %s: %s", folder, strerror(-rc));
	rc = listen_on(a, &a->local, address, err);
	if (rc == 0)
		a->socket_path = xstrdup(path);
	return rc;
}

int
admin_start(
	struct admin **out, struct loop *loop, const struct admin_config *config, struct err *err)
{
	struct admin *a = xcalloc(1, sizeof *a);
	int rc = 0;

	a->loop = loop;
	a->routes = config->routes;
	a->arg = config->arg;
	a->tcp.fd = a->local.fd = -1;
	if (config->listen[0] != '\0')
		rc = listen_on(a, &a->tcp, config->listen, err);
	if (rc == 0 && config->socket_path[0] != '\0')
		rc = listen_local(a, config->socket_path, err);
	if (rc < 0) {
		admin_stop(&a);
		return err_wrap(err, rc, "admin");
	}
	*out = a;
	return 0;
}

static void
listener_stop(struct listener *l)
{
	watch_stop(&l->watch);
	timer_free(&l->pause);
	if (l->fd >= 0)
		close(l->fd);
}

void
admin_stop(struct admin **out)
{
	struct admin *a = take_ptr(out);

	if (a == NULL)
		return;
	while (a->conns != NULL)
		conn_free(a->conns);
	listener_stop(&a->tcp);
	listener_stop(&a->local);
	if (a->socket_path != NULL)
		unlink(a->socket_path);
	free(a->socket_path);
	free(a);
}

static int
hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes up to '&' or the end. */
static bool
decode(const char *from, char *to, size_t size)
{
	size_t n = 0;

	for (; *from != '\0' && *from != '&'; from++) {
		char c = *from == '+' ? ' ' : *from;

		if (c == '%') {
			int high = hex_value(from[1]), low = high < 0 ? -1 : hex_value(from[2]);

			if (low < 0 || (high == 0 && low == 0))
				return false;
			c = (char)(high * 16 + low);
			from += 2;
		}
		if (n + 1 >= size)
			return false;
		to[n++] = c;
	}
	to[n] = '\0';
	return true;
}

bool
admin_query(const char *query, const char *name, char *to, size_t size)
{
	size_t len = strlen(name);

	while (*query != '\0') {
		if (strncmp(query, name, len) == 0 &&
			(query[len] == '=' || query[len] == '&' || query[len] == '\0'))
			return decode(query + len + (query[len] == '='), to, size);
		query += strcspn(query, "&");
		query += *query == '&';
	}
	return false;
}
