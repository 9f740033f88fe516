#include "hub/page/web_private.h"

#include <string.h>

#include "base/core/log.h"
#include "base/http/wshake.h"
#include "hub/page/web_files.h"
#include "hub/page/web_judge.h"

/* Headers of every response: no referrer, no foreign content, no frames, no use by other pages. */
#define COMMON                                                                                     \
	"Referrer-Policy: no-referrer\r\n"                                                         \
	"Cross-Origin-Resource-Policy: same-origin\r\nCross-Origin-Opener-Policy: same-origin\r\n" \
	"Content-Security-Policy: default-src 'self'; base-uri 'none'; form-action 'none'; "       \
	"frame-ancestors 'none'; object-src 'none'\r\nX-Frame-Options: DENY\r\n"

struct web_conn *
web_conn_of(struct http_conn *c)
{
	return container_of(c, struct web_conn, http);
}

static void
web_conn_free(struct http_conn *http)
{
	struct web_conn *c = web_conn_of(http);

	if (c->viewer != NULL)
		web_live_stop(c);
	free(c);
}

/* --- responses ------------------------------------------------------------------------------ */

static void
web_conn_decline(struct web_conn *c, unsigned status, const char *why)
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
	auto_free char *fields = NULL;
	const char *line = "";

	for (size_t i = 0; i < ARRAY_LEN(lines); i++)
		if (lines[i].status == status)
			line = lines[i].line;
	fields = xasprintf("%sCache-Control: no-store\r\n" COMMON, line);
	http_conn_refuse(&c->http, status, why, fields);
}

static void
web_conn_refuse(struct web_conn *c, uint64_t *count, unsigned status, const char *why)
{
	char from[ACCESS_NAME_MAX + 8];

	(*count)++;
	log_limited(LOG_LEVEL_WARN, 6, "web", "a request is refused caller=%s status=%u why=\"%s\"",
		caller_text(&c->caller, from), status, why);
	web_conn_decline(c, status, why);
}

static void
web_conn_refuse_request(struct http_conn *c, unsigned status, const char *why)
{
	web_conn_refuse(web_conn_of(c), &web_conn_of(c)->web->refused_how, status, why);
}

static void
give_file(struct web_conn *c, const struct http1_head *h, const struct web_file *file)
{
	char etag[WEB_ETAG_TEXT];
	auto_free char *fields = NULL;

	web_file_etag(file, etag);
	fields = xasprintf("ETag: %s\r\nCache-Control: no-cache\r\n" COMMON, etag);
	http_conn_answer(&c->http,
		&(struct http_answer){web_unchanged(h, etag) ? 304 : 200, file->type, fields,
			file->data, file->len, false});
}

/* --- authentication ------------------------------------------------------------------------- */

/* 0: the client may see the page; else the status to refuse it with. */
static unsigned
judge_caller(struct web_conn *c, const struct http1_head *h, const char **why)
{
	const struct acl *access = c->web->config.access;
	const struct acl_target page = {.kind = TARGET_WEB};
	auto_free char *secret = web_secret(h);

	*why = "the token is not known here";
	c->caller.token[0] = c->caller.token_hash[0] = '\0';
	if (secret != NULL && !acl_use_token(access, secret, strlen(secret), &c->caller))
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
	if (status == 401 && wshake_find(h, "authorization") == NULL)
		web_conn_decline(c, status, why);
	else
		web_conn_refuse(c, &c->web->refused_who, status, why);
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
		web_conn_refuse_request(&c->http, status, why);
	} else if (w->n_viewers >= w->config.options.viewers) {
		web_conn_refuse(c, &w->refused_full, 503, "as many look as web.viewers lets");
	} else {
		wshake_accept(&c->http.out, NULL, accept);
		web_live_start(c);
	}
}

static void
web_conn_serve(struct http_conn *http, const struct http1_head *h)
{
	struct web_conn *c = web_conn_of(http);
	struct web *w = c->web;
	const char *why, *mark = memchr(h->target.at, '?', h->target.len);
	size_t path = mark != NULL ? (size_t)(mark - h->target.at) : h->target.len;
	const struct web_file *file = web_file_find(h->target.at, path);
	unsigned status = web_judge(h, w->config.options.names, w->server.tls != NULL, &why);

	if (status != 0)
		web_conn_refuse_request(http, status, why);
	else if ((status = judge_caller(c, h, &why)) != 0)
		refuse_caller(c, h, status, why);
	else if (file != NULL)
		give_file(c, h, file);
	else if (path == 5 && memcmp(h->target.at, "/live", 5) == 0)
		begin_live(c, h);
	else
		web_conn_refuse_request(http, 404, "no such page");
}

/* --- the connection ------------------------------------------------------------------------- */

static void
web_conn_on_handshake(struct http_conn *http, const char *why)
{
	struct web_conn *c = web_conn_of(http);
	char from[ACCESS_NAME_MAX + 8];

	if (why != NULL) {
		c->web->refused_who++;
		log_limited(LOG_LEVEL_WARN, 6, "web", "a TLS handshake failed caller=%s why=\"%s\"",
			caller_text(&c->caller, from), why);
		return;
	}
	c->caller.admitted = c->web->server.proven;
	if (c->web->server.proven)
		snprintf(c->caller.cert, sizeof c->caller.cert, "%s", tls_stream_peer(http->tls));
}

static void
web_conn_late(struct http_conn *c)
{
	web_drop(web_conn_of(c), "nothing came from him any more");
}

void
web_conn_take(struct web *w, int fd, const struct caller *caller)
{
	struct web_conn *c = xcalloc(1, sizeof *c);

	c->web = w;
	c->caller = *caller;
	http_conn_start(&c->http, &w->server, fd, &c->caller.addr);
}

void
web_conn_server(struct web *w)
{
	static const struct http_server_ops ops = {
		.head = web_conn_serve,
		.refuse = web_conn_refuse_request,
		.upgraded = web_live_read,
		.late = web_conn_late,
		.handshake = web_conn_on_handshake,
		.free = web_conn_free,
	};

	w->server = (struct http_server){
		.ops = &ops,
		.loop = w->config.loop,
		.keep_alive = true,
		.head_ms = WEB_HEAD_MS,
		.stall_ms = WEB_STALL_MS,
	};
	TAILQ_INIT(&w->server.conns);
}
