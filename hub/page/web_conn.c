#include "hub/page/web_private.h"

#include <errno.h>
#include <string.h>

#include "base/core/log.h"
#include "base/http/wshake.h"
#include "hub/page/web_files.h"
#include "hub/page/web_judge.h"

enum { READ_BYTES = 16 * 1024, LINGER_MS = 1000 };

/* Headers of every response: no guessing of types, no referrer, no foreign content, no frames, no
 * use by other pages. */
#define COMMON                                                                                     \
	"X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n"                      \
	"Cross-Origin-Resource-Policy: same-origin\r\nCross-Origin-Opener-Policy: same-origin\r\n" \
	"Content-Security-Policy: default-src 'self'; base-uri 'none'; form-action 'none'; "       \
	"frame-ancestors 'none'; object-src 'none'\r\nX-Frame-Options: DENY\r\n"

void
web_conn_free(struct web_conn *c)
{
	struct web *w = c->web;

	if (c->viewer != NULL)
		web_live_stop(c);
	TAILQ_REMOVE(&w->conns, c, link);
	w->n_conns--;
	timer_free(&c->timer);
	tls_stream_free(&c->tls);
	if (c->wire != NULL)
		c->wire->ops->free(c->wire);
	buf_fini(&c->in);
	buf_fini(&c->out);
	free(c);
}

static void
on_impatience(void *arg)
{
	struct web_conn *c = arg;

	if (c->stage == WEB_LIVE)
		web_drop(c, "nothing came from him any more");
	web_conn_free(c);
}

bool
web_conn_flush(struct web_conn *c)
{
	ssize_t n = 0;

	while (buf_len(&c->out) > 0 &&
		(n = c->wire->ops->write(c->wire, buf_at(&c->out), buf_len(&c->out))) > 0) {
		buf_consume(&c->out, (size_t)n);
		c->web->bytes += (uint64_t)n;
		if (c->stage == WEB_REPLY)
			timer_start(c->timer, WEB_STALL_MS, 0);
	}
	if (n < 0 && n != -EAGAIN) {
		web_conn_free(c);
		return false;
	}
	c->wire->ops->want(c->wire, buf_len(&c->out) > 0);
	return true;
}

/* --- responses ------------------------------------------------------------------------------ */

struct answer {
	unsigned status;
	const char *type, *more; /* more: complete header lines, "": none */
	const void *body;
	size_t len;
	bool to_head;
};

static void
web_conn_answer(struct web_conn *c, const struct answer *a)
{
	buf_printf(&c->out, "HTTP/1.1 %u %s\r\n%s" COMMON "Connection: %s\r\n", a->status,
		http1_reason((int)a->status), a->more, c->close ? "close" : "keep-alive");
	if (a->status != 304)
		buf_printf(&c->out, "Content-Type: %s\r\nContent-Length: %zu\r\n", a->type, a->len);
	buf_adds(&c->out, "\r\n");
	if (!a->to_head && a->status != 304)
		buf_add(&c->out, a->body, a->len);
	c->stage = WEB_REPLY;
}

static void
web_conn_decline(struct web_conn *c, unsigned status, const char *why, bool to_head)
{
	static const struct {
		unsigned status;
		const char *line;
	} lines[] = {
		{401, "WWW-Authenticate: Basic realm=\"edgeway\", charset=\"UTF-8\"\r\n"},
		{405, "Allow: GET, HEAD\r\n"},
		{426, "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"},
		{503, "Retry-After: 10\r\n"},
	};
	auto_free char *text = xasprintf("%s\n", why), *more = NULL;

	for (size_t i = 0; i < ARRAY_LEN(lines) && more == NULL; i++)
		if (lines[i].status == status)
			more = xasprintf("%sCache-Control: no-store\r\n", lines[i].line);
	if (more == NULL)
		more = xstrdup("Cache-Control: no-store\r\n");
	c->close = true;
	web_conn_answer(c,
		&(struct answer){
			status, "text/plain; charset=utf-8", more, text, strlen(text), to_head});
}

static void
web_conn_refuse(struct web_conn *c, unsigned status, const char *why, bool to_head)
{
	char from[ACCESS_NAME_MAX + 8];

	log_limited(LOG_LEVEL_WARN, 6, "web", "a request is refused caller=%s status=%u why=\"%s\"",
		caller_text(&c->caller, from), status, why);
	web_conn_decline(c, status, why, to_head);
}

static void
give_file(struct web_conn *c, const struct http1_head *h, const struct web_file *file)
{
	char etag[WEB_ETAG_TEXT];
	auto_free char *more = NULL;

	web_file_etag(file, etag);
	more = xasprintf("ETag: %s\r\nCache-Control: no-cache\r\n", etag);
	web_conn_answer(c,
		&(struct answer){web_unchanged(h, etag) ? 304 : 200, file->type, more, file->data,
			file->len, h->is_head});
}

/* --- authentication ------------------------------------------------------------------------- */

/* 0: the client may see the page; else the status to refuse it with. */
static unsigned
judge_caller(struct web_conn *c, const struct http1_head *h, const char **why)
{
	const struct acl *access = c->web->config.access;
	const struct acl_target page = {.kind = TARGET_WEB};
	auto_free char *secret = web_secret(h);
	const char *name = secret != NULL ? acl_token(access, secret, strlen(secret)) : NULL;

	snprintf(c->caller.token, sizeof c->caller.token, "%s", name != NULL ? name : "");
	*why = "the token is not known here";
	if (secret != NULL && name == NULL)
		return 401;
	if (acl_check(access, &c->caller, &page))
		return 0;
	*why = "no rule of access lets this caller see the page: {from: ..., to: ['hub:web']}";
	return secret == NULL && c->caller.cert[0] == '\0' ? 401 : 403;
}

static void
refuse_caller(struct web_conn *c, const struct http1_head *h, unsigned status, const char *why)
{
	/* Every browser's first request is like this: not counted as refused. */
	if (status == 401 && wshake_find(h, "authorization") == NULL) {
		web_conn_decline(c, status, why, h->is_head);
		return;
	}
	c->web->refused_who++;
	web_conn_refuse(c, status, why, h->is_head);
}

/* --- requests ------------------------------------------------------------------------------- */

static void
begin_live(struct web_conn *c, const struct http1_head *h)
{
	struct web *w = c->web;
	char accept[WSHAKE_ACCEPT_TEXT];
	const char *why;
	unsigned status = wshake_judge(h, NULL, accept, &why);

	if (status != 0) {
		w->refused_how++;
		web_conn_refuse(c, status, why, h->is_head);
	} else if (w->n_viewers >= w->config.options.viewers) {
		w->refused_full++;
		web_conn_refuse(c, 503, "as many look as web.viewers lets", false);
	} else {
		wshake_accept(&c->out, NULL, accept);
		web_live_start(c);
	}
}

static void
web_conn_serve(struct web_conn *c, const struct http1_head *h)
{
	struct web *w = c->web;
	const char *why, *mark = memchr(h->target.at, '?', h->target.len);
	size_t path = mark != NULL ? (size_t)(mark - h->target.at) : h->target.len;
	const struct web_file *file = web_file_find(h->target.at, path);
	unsigned status = web_judge(h, w->config.options.names, w->tls != NULL, &why);

	w->requests++;
	c->close = !h->keep_alive;
	if (status != 0) {
		w->refused_how++;
		web_conn_refuse(c, status, why, h->is_head);
	} else if ((status = judge_caller(c, h, &why)) != 0) {
		refuse_caller(c, h, status, why);
	} else if (file != NULL) {
		give_file(c, h, file);
	} else if (path == 5 && memcmp(h->target.at, "/live", 5) == 0) {
		begin_live(c, h);
	} else {
		w->refused_how++;
		web_conn_refuse(c, 404, "no such page", h->is_head);
	}
}

/* True: there was a request, and it is being answered. */
static bool
take_head(struct web_conn *c)
{
	auto_free struct http1_head *h = NULL;
	size_t from = 0;
	ssize_t n;
	int status = 400;

	buf_consume(&c->in, http1_skip_blank(buf_at(&c->in), buf_len(&c->in)));
	n = buf_len(&c->in) > 0 ? http1_find_end(buf_at(&c->in), buf_len(&c->in), &from) : 0;
	if (n == 0 && buf_len(&c->in) < WEB_HEAD_MAX)
		return false;
	h = xcalloc(1, sizeof *h);
	if (n == 0 || n > WEB_HEAD_MAX)
		status = 431;
	else if (n > 0)
		status = http1_parse_request(h, buf_at(&c->in), (size_t)n);
	if (status == 0) {
		web_conn_serve(c, h);
		buf_consume(&c->in, (size_t)n);
		return true;
	}
	c->web->refused_how++;
	web_conn_refuse(c, (unsigned)status,
		status == 431   ? "the head is too large"
			: n > 0 ? h->why
				: "no request of HTTP/1.1",
		false);
	return true;
}

/* Answers one request after the other; web_live handles a viewer's frames. False: the connection is
 * gone. */
static bool
go_on(struct web_conn *c)
{
	for (;;) {
		if (c->stage == WEB_LINGER)
			buf_consume(&c->in, buf_len(&c->in));
		if (c->stage == WEB_LIVE && (!web_live_read(c) || !web_conn_flush(c)))
			return false;
		if (c->stage == WEB_LIVE)
			return true;
		if (c->stage == WEB_REPLY && buf_len(&c->out) == 0) {
			c->stage = c->close ? WEB_LINGER : WEB_HEAD;
			timer_start(c->timer, c->close ? LINGER_MS : WEB_HEAD_MS, 0);
		} else if (c->stage != WEB_HEAD || !take_head(c)) {
			return true;
		} else if (c->stage != WEB_LIVE && !web_conn_flush(c)) {
			return false;
		}
	}
}

static void
on_wire(void *arg)
{
	struct web_conn *c = arg;
	ssize_t n;

	if (!web_conn_flush(c))
		return;
	while (go_on(c)) {
		bool held =
			/* a client that does not read its response is not read from */
			c->stage == WEB_REPLY;

		c->wire->ops->hold(c->wire, held);
		if (held)
			return;
		n = c->wire->ops->read(c->wire, buf_reserve(&c->in, READ_BYTES), READ_BYTES);
		if (n == -EAGAIN)
			return;
		if (n <= 0) {
			web_conn_free(c);
			return;
		}
		buf_commit(&c->in, (size_t)n);
	}
}

static void
listen_to(struct web_conn *c, struct transport *wire)
{
	c->wire = wire;
	c->wire->arg = c;
	c->wire->on = on_wire;
	c->stage = WEB_HEAD;
}

static void
on_tls(void *arg, enum tls_event event)
{
	struct web_conn *c = arg;
	char from[ACCESS_NAME_MAX + 8];

	if (event != TLS_OPEN) {
		c->web->refused_who++;
		log_limited(LOG_LEVEL_WARN, 6, "web", "a TLS handshake failed caller=%s why=\"%s\"",
			caller_text(&c->caller, from), tls_stream_why(c->tls));
		web_conn_free(c);
		return;
	}
	c->caller.admitted = c->web->proven;
	if (c->web->proven)
		snprintf(c->caller.cert, sizeof c->caller.cert, "%s", tls_stream_peer(c->tls));
	listen_to(c, transport_tls(&c->tls));
	on_wire(c);
}

void
web_conn_take(struct web *w, int fd, const struct caller *caller)
{
	static const char *const offers[] = {"http/1.1", NULL};
	struct web_conn *c = xcalloc(1, sizeof *c);
	struct tls_setup tls = {
		.loop = w->config.loop,
		.fd = fd,
		.ctx = w->tls,
		.offers = offers,
		.proof = w->proven ? TLS_PROVEN : TLS_ANYBODY,
		.on = on_tls,
		.arg = c,
	};
	struct err err = {0};

	c->web = w;
	c->caller = *caller;
	buf_init(&c->in, BUF_UNLIMITED); /* a request head or a line, plus the data of one read */
	buf_init(&c->out, BUF_UNLIMITED); /* one response, or the data of one turn */
	c->timer = timer_new(w->config.loop, on_impatience, c);
	timer_start(c->timer, WEB_HEAD_MS, 0);
	TAILQ_INSERT_TAIL(&w->conns, c, link);
	w->n_conns++;
	if (w->tls == NULL) {
		listen_to(c, transport_socket(w->config.loop, fd));
	} else if (tls_stream_new(&tls, &c->tls, &err) < 0) {
		log_limited(LOG_LEVEL_ERROR, 6, "web", "%s", err.text);
		web_conn_free(c);
	}
}
