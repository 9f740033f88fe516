#include "base/http/admin_conn.h"

#include <stdio.h>
#include <unistd.h>

#include "base/core/log.h"
#include "base/http/own_host.h"

enum {
	BODY_MAX = 64 * 1024,
	REQUEST_MS = 5000, /* for the whole request; also the longest stall of a reply */
	REPLY_MS = 60000,
};

#define NO_STORE "Cache-Control: no-store\r\n"

struct admin_conn {
	struct http_conn http;
	struct admin_listener *listener;
	const struct admin_route *route; /* NULL: none */
	const char *allow; /* without a route: the method that the path has; NULL: no such path */
	admin_take_fn *take; /* NULL: answered here */
	char *query;
	void (*more)(void *arg, uint64_t *at, struct buf *out);
	uint64_t more_at;
};

static struct admin_conn *
admin_conn_of(struct http_conn *c)
{
	return container_of(c, struct admin_conn, http);
}

static void
admin_conn_free(struct http_conn *http)
{
	struct admin_conn *c = admin_conn_of(http);

	free(c->query);
	free(c);
}

/* --- one request ---------------------------------------------------------------------------- */

static struct http_answer
admin_conn_reply(const struct admin_reply *reply)
{
	return (struct http_answer){(unsigned)reply->status, reply->type, NO_STORE,
		buf_at(&reply->body), buf_len(&reply->body), reply->more != NULL};
}

/* The reply is small and the socket's buffer empty: one write sends all, or the peer does not
 * read. */
void
admin_answer(int fd, const struct admin_reply *reply)
{
	const struct http_answer answer = admin_conn_reply(reply);
	auto_fd int mine = fd;
	auto_buf struct buf out;

	buf_init(&out, BUF_UNLIMITED);
	http_answer_head(&out, &answer, true);
	buf_add(&out, answer.body, answer.len);
	if (buf_write(&out, mine) > 0)
		shutdown(mine, SHUT_WR);
}

static void
admin_conn_refuse(struct http_conn *c, unsigned status, const char *why)
{
	http_conn_refuse(c, status, why, NO_STORE);
}

static bool
admin_conn_same(struct http1_str s, const char *text)
{
	return s.len == strlen(text) && memcmp(s.at, text, s.len) == 0;
}

static void
admin_conn_find_route(struct admin_conn *c, struct http1_str path, struct http1_str method)
{
	for (const struct admin_route *r = c->listener->admin->routes; r->method != NULL; r++) {
		if (!admin_conn_same(path, r->path))
			continue;
		c->allow = r->method;
		if (admin_conn_same(method, r->method))
			c->route = r;
	}
}

static void
admin_conn_find_taker(struct admin_conn *c, struct http1_str path, struct http1_str method)
{
	const struct admin_taken *t = c->listener->admin->taken;

	if (!c->listener->local || !admin_conn_same(method, "POST"))
		return;
	for (; t != NULL && t->path != NULL; t++) {
		if (admin_conn_same(path, t->path))
			c->take = t->take;
	}
}

static void
admin_conn_give_away(struct admin_conn *c)
{
	const struct admin *a = c->listener->admin;
	auto_free char *query = take_ptr(&c->query);
	admin_take_fn *take = c->take;

	take(a->arg, http_conn_release(&c->http), query);
}

static bool
admin_conn_request(struct http_conn *http)
{
	struct admin_conn *c = admin_conn_of(http);
	const struct admin_request req = {
		.query = c->query,
		.body = buf_str(&http->body),
		.body_len = buf_len(&http->body),
		.local = c->listener->local,
	};
	struct admin_reply reply = {.status = 200};
	struct http_answer answer;

	if (c->take != NULL) {
		admin_conn_give_away(c);
		return false;
	}
	if (c->route == NULL && c->allow != NULL) {
		auto_free char *fields = xasprintf("Allow: %s\r\n" NO_STORE, c->allow);

		http_conn_refuse(http, 405, "wrong method", fields);
	} else if (c->route == NULL) {
		admin_conn_refuse(http, 404, "no such page");
	} else if (c->route->local_only && !req.local) {
		admin_conn_refuse(http, 403, "only on the Unix socket");
	} else {
		buf_init(&reply.body, BUF_UNLIMITED);
		c->route->fn(c->listener->admin->arg, &req, &reply);
		answer = admin_conn_reply(&reply);
		c->more = reply.more;
		http_conn_answer(http, &answer);
		buf_fini(&reply.body);
	}
	return true;
}

static void
admin_conn_more(struct http_conn *http)
{
	struct admin_conn *c = admin_conn_of(http);

	c->more(c->listener->admin->arg, &c->more_at, &http->out);
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
admin_conn_head(struct http_conn *http, const struct http1_head *h)
{
	struct admin_conn *c = admin_conn_of(http);
	const char *mark = memchr(h->target.at, '?', h->target.len);
	size_t n = mark != NULL ? (size_t)(mark - h->target.at) : h->target.len;
	const struct http1_str path = {h->target.at, n},
			       method = h->is_head ? (struct http1_str){"GET", 3} : h->method;

	if (!is_asked_for(c, h)) {
		admin_conn_refuse(http, 421,
			"this is none of our names: ask by an address, by localhost, or put the "
			"name into admin.names");
		return;
	}
	c->query = mark != NULL ? xstrndup(mark + 1, h->target.len - n - 1) : xstrdup("");
	admin_conn_find_route(c, path, method);
	admin_conn_find_taker(c, path, method);
}

void
admin_conn_start(struct admin_listener *l, int fd, const struct addr *peer)
{
	struct admin_conn *c = xcalloc(1, sizeof *c);

	c->listener = l;
	http_conn_start(&c->http, &l->server, fd, peer);
}

void
admin_conn_server(struct admin_listener *l)
{
	static const struct http_server_ops ops = {
		.head = admin_conn_head,
		.request = admin_conn_request,
		.more = admin_conn_more,
		.refuse = admin_conn_refuse,
		.free = admin_conn_free,
	};

	l->server = (struct http_server){
		.ops = &ops,
		.loop = l->admin->loop,
		.body_max = BODY_MAX,
		.head_ms = REQUEST_MS,
		.stall_ms = REQUEST_MS,
		.reply_ms = REPLY_MS,
	};
	TAILQ_INIT(&l->server.conns);
}
