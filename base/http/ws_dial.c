#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/http/ws_lws.h"
#include "base/tls/pki_tls.h"

static struct ws_conn *
conn_new(struct ws *ws, bool server)
{
	struct ws_conn *c = xcalloc(1, sizeof *c);

	c->ws = ws;
	c->server = server;
	c->since_ms = loop_now_ms(ws->loop);
	c->beat_ms = ws->config.heartbeat_ms;
	c->last = &c->first;
	buf_init(&c->received, BUF_UNLIMITED);
	c->next = ws->conns;
	c->link = &ws->conns;
	if (c->next != NULL)
		c->next->link = &c->next;
	ws->conns = c;
	c->tick = timer_new(ws->loop, ws_on_tick, c);
	ws_tick_soon(c);
	return c;
}

int
ws_adopt(struct ws *ws, int fd, const char *from)
{
	struct ws_conn *c;
	struct addr peer;
	lws_adopt_desc_t desc = {
		.vh = ws->server,
		.type = LWS_ADOPT_HTTP | LWS_ADOPT_SOCKET | LWS_ADOPT_ALLOW_SSL,
		.fd.sockfd = fd,
	};

	c = conn_new(ws, true);
	desc.opaque = c;
	peer = preauth_from(fd, from);
	c->place = (struct preauth_conn){.drop = ws_on_dropped, .arg = c};
	if (!preauth_enter(ws->config.preauth, &c->place, &peer, c->since_ms)) {
		ws_conn_free(c);
		close(fd);
		return -EBUSY;
	}
	c->proxied = from != NULL;
	if (from != NULL)
		snprintf(c->peer_addr, sizeof c->peer_addr, "%s", from);
	else if (peer.sa.sa_family != AF_UNSPEC)
		addr_text(&peer, c->peer_addr);
	sock_nodelay(fd);
	c->dialing = true;
	ws->adopted = false;
	c->wsi = lws_adopt_descriptor_vhost_via_info(&desc);
	c->dialing = false;
	if (c->wsi != NULL)
		return 0;
	c->state = WS_ENDED;
	if (c->released || !ws->adopted)
		ws_conn_free(c);
	return -ECONNABORTED;
}

static void
on_vhost_gone(struct lws_vhost *vhost, void *arg)
{
	struct ssl_ctx_st *tls = arg;

	(void)vhost;
	pki_ctx_free(&tls);
}

/* libwebsockets binds a client's TLS context to a vhost, so each connection has its own. */
static struct lws_vhost *
client_vhost(struct ws *ws, struct ssl_ctx_st *tls)
{
	struct lws_context_creation_info info = ws_common_info(ws);

	info.vhost_name = "client";
	info.port = CONTEXT_PORT_NO_LISTEN;
	info.options = WS_OPTIONS;
	info.provided_client_ssl_ctx = tls;
	info.finalize = on_vhost_gone;
	info.finalize_arg = tls;
	pki_ctx_ref(tls);
	return lws_create_vhost(ws->context, &info);
}

static int
join_headers(struct buf *to, const char *const *headers, struct err *err)
{
	for (; headers != NULL && *headers != NULL; headers++) {
		if (strpbrk(*headers, "\r\n") != NULL)
			return err_set(err, EINVAL, "a request header holds a line break");
		buf_printf(to, "%s\r\n", *headers);
	}
	return 0;
}

struct lws *
ws_connect(struct ws_conn *c, const char *address, uint16_t port, const char *path)
{
	char host[300];
	struct lws_client_connect_info info = {
		.context = c->ws->context,
		.vhost = c->vhost,
		.address = address,
		.port = port,
		.path = path,
		.host = host,
		.ssl_connection = LCCSCF_USE_SSL | LCCSCF_SKIP_SERVER_CERT_HOSTNAME_CHECK |
			LCCSCF_HTTP_NO_FOLLOW_REDIRECT,
		.alpn = "http/1.1",
		.opaque_user_data = c,
		.pwsi = &c->wsi,
		.retry_and_idle_policy = &ws_no_pings,
	};

	snprintf(host, sizeof host, strchr(c->host, ':') != NULL ? "[%s]" : "%s", c->host);
	return lws_client_connect_via_info(&info);
}

static struct lws *
connect_to(struct ws_conn *c, const struct ws_dial *dial)
{
	char address[INET6_ADDRSTRLEN] = "";
	bool six = dial->addr.sa.sa_family == AF_INET6;
	const void *raw = six ? (const void *)&dial->addr.in6.sin6_addr : &dial->addr.in.sin_addr;

	if (inet_ntop(dial->addr.sa.sa_family, raw, address, sizeof address) == NULL)
		return NULL;
	return ws_connect(c, address, addr_port(&dial->addr), dial->path);
}

/* Dials through a proxy or a websocket tunnel; libwebsockets connects to that later. */
static struct ws_conn *
dial_by_way(struct ws_conn *c, const struct ws_dial *dial, struct err *err)
{
	int rc = c->vhost != NULL ? ws_way_start(c, dial, err)
				  : err_set(err, ENOMEM, "no TLS context");

	if (rc == 0)
		return c;
	c->state = WS_ENDED;
	ws_conn_free(c);
	return NULL;
}

/*
 * When connect(2) fails at once, libwebsockets 4.1 leaks its libuv handle. Connecting a UDP socket
 * sends nothing and fails for the same reasons: no route, no such family, forbidden.
 */
static int
check_route(const struct addr *a)
{
	auto_fd int fd = socket(a->sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	return fd < 0 || connect(fd, &a->sa, a->len) < 0 ? -errno : 0;
}

struct ws_conn *
ws_dial(struct ws *ws, const struct ws_dial *dial, struct err *err)
{
	auto_buf struct buf request;
	char text[ADDR_TEXT_MAX];
	struct ws_conn *c;
	int rc;

	buf_init(&request, BUF_UNLIMITED);
	if (ws->freeing) {
		err_set(err, ESHUTDOWN, "shutting down");
		return NULL;
	}
	if (join_headers(&request, dial->headers, err) < 0)
		return NULL;
	rc = check_route(&dial->addr);
	if (rc < 0) {
		err_set(err, rc, "cannot connect to %s: %s", addr_text(&dial->addr, text),
			strerror(-rc));
		return NULL;
	}
	c = conn_new(ws, false);
	c->arg = dial->arg;
	c->host = xstrdup(dial->host);
	c->request = buf_take_str(&request);
	addr_text(&dial->addr, c->peer_addr);
	c->vhost = client_vhost(ws, dial->tls);
	if (dial->proxy != NULL || dial->carriers != NULL)
		return dial_by_way(c, dial, err);
	c->dialing = true;
	c->wsi = c->vhost != NULL ? connect_to(c, dial) : NULL;
	c->dialing = false;
	if (c->wsi != NULL)
		return c;
	err_set(err, ECONNREFUSED, "cannot connect to %s", c->peer_addr);
	c->state = WS_ENDED;
	if (c->vhost != NULL)
		ws_retire_vhost(ws, take_ptr(&c->vhost));
	/* Unless libwebsockets ran out of memory, it has freed its object by now. */
	if (c->released)
		ws_conn_free(c);
	return NULL;
}

int
ws_send(struct ws_conn *c, const char *text, size_t len)
{
	struct ws_frame *f;

	if (c->state != WS_OPEN)
		return -ENOTCONN;
	f = xmalloc(sizeof *f + LWS_PRE + len);
	f->next = NULL;
	f->len = len;
	memcpy(f->data + LWS_PRE, text, len);
	*c->last = f;
	c->last = &f->next;
	c->queued += len;
	lws_callback_on_writable(c->wsi);
	if (c->queued > c->ws->config.high_water)
		c->over = true;
	return c->over ? 1 : 0;
}

size_t
ws_queued(const struct ws_conn *c)
{
	return c->queued;
}

void
ws_close(struct ws_conn *c, unsigned code, const char *reason)
{
	if (c->state != WS_STARTING && c->state != WS_OPEN)
		return;
	ws_set_why(c, "we closed it: %s", reason);
	c->close_code = code;
	snprintf(c->close_reason, sizeof c->close_reason, "%s", reason);
	c->since_ms = loop_now_ms(c->ws->loop);
	ws_tick_soon(c);
	if (c->state == WS_OPEN) {
		c->state = WS_CLOSING;
		lws_callback_on_writable(c->wsi);
		return;
	}
	/* No peer to send a close frame to yet: the next tick ends it. */
	c->state = WS_CLOSING;
	c->since_ms -= MIN(c->since_ms, c->ws->config.handshake_ms + 1);
}

void
ws_set_heartbeat(struct ws_conn *c, uint64_t ms)
{
	c->beat_ms = ms;
	ws_tick_soon(c);
}

void
ws_share_life(struct ws_conn *c, struct liveness *all, const char *peer, bool keeps)
{
	liveness_leave(&c->line);
	liveness_join(all, peer, &c->line, loop_now_ms(c->ws->loop));
	c->keeps = keeps;
	ws_tick_soon(c);
}

void
ws_ask_to_wait(struct ws_conn *c, unsigned seconds)
{
	c->wait_ms = seconds * 1000ull;
}

uint64_t
ws_asked_to_wait_ms(const struct ws_conn *c)
{
	return c->server ? 0 : c->wait_ms;
}

bool
ws_resumed(const struct ws_conn *c)
{
	return c->resumed;
}

const char *
ws_path(const struct ws_conn *c)
{
	return c->path != NULL ? c->path : "";
}

const char *
ws_peer_name(const struct ws_conn *c)
{
	return c->peer_name != NULL ? c->peer_name : "";
}

const char *
ws_peer_serial(const struct ws_conn *c)
{
	return c->peer_serial;
}

char *
ws_peer_cert(const struct ws_conn *c)
{
	return c->wsi != NULL ? pki_peer_pem((const struct ssl_st *)lws_get_ssl(c->wsi)) : NULL;
}

uint64_t
ws_heard_ms(const struct ws_conn *c)
{
	return c->line.peer != NULL ? MAX(c->heard_ms, liveness_program_ms(&c->line)) : c->heard_ms;
}

int64_t
ws_peer_expires(const struct ws_conn *c)
{
	return c->peer_expires_s;
}

const char *
ws_peer_addr(const struct ws_conn *c)
{
	return c->peer_addr;
}

bool
ws_is_proxied(const struct ws_conn *c)
{
	return c->proxied;
}

void *
ws_arg(const struct ws_conn *c)
{
	return c->arg;
}

void
ws_set_arg(struct ws_conn *c, void *arg)
{
	c->arg = arg;
}
