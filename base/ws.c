#include "base/ws.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>

#include "base/log.h"
#include "base/pki_tls.h"
#include "base/ws_lws.h"

enum {
	DEADLINE_MS = 10 * 1000, /* TLS and upgrade; and the closing handshake */
	TICK_MAX_MS = 500,
	TICK_MIN_MS = 10,
	CLIENT_FDS = 64, /* libwebsockets allocates tables for as many */
	SERVER_OPTIONS = LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT |
		LWS_SERVER_OPTION_DISABLE_OS_CA_CERTS | LWS_SERVER_OPTION_VALIDATE_UTF8,
};

static const struct lws_protocols protocols[] = {
	{
		.name = "edgeway",
		.callback = ws_on_lws,
		.rx_buffer_size = WS_RECEIVE,
		.tx_packet_size = WS_FRAGMENT,
	},
	{0},
};

/* Its own pings are not wanted, ours are timed by the owner's heartbeat. */
static const lws_retry_bo_t no_pings = {
	.secs_since_valid_ping = 0xffff,
	.secs_since_valid_hangup = 0xffff,
};

static void
on_lws_log(int level, const char *line)
{
	int len = (int)strcspn(line, "\n");

	/* Certificates that are refused are told with the connection. */
	if (level == LLL_ERR && strncmp(line, "SSL error", 9) != 0)
		log_limited(LOG_LEVEL_WARN, 10, "ws", "%.*s", len, line);
	else
		log_debug("ws", "%.*s", len, line);
}

static struct lws_context_creation_info
common_info(struct ws *ws)
{
	struct lws_context_creation_info info = {
		.protocols = protocols,
		.retry_and_idle_policy = &no_pings,
		.timeout_secs = DEADLINE_MS / 1000,
		.connect_timeout_secs = DEADLINE_MS / 1000,
		.keepalive_timeout = 5,
		.user = ws,
		/* Else libwebsockets takes the variable http_proxy for wss as well; port 0 is none. */
		.http_proxy_address = ":0",
		.alpn = "http/1.1",
	};

	return info;
}

static int
start_context(struct ws *ws, struct err *err)
{
	struct lws_context_creation_info info = common_info(ws);
	void *loops[] = {loop_backend(ws->loop)};
	bool before[WS_FDS_SEEN];

	info.port = CONTEXT_PORT_NO_LISTEN;
	info.options = SERVER_OPTIONS | LWS_SERVER_OPTION_EXPLICIT_VHOSTS |
		LWS_SERVER_OPTION_LIBUV | LWS_SERVER_OPTION_UV_NO_SIGSEGV_SIGFPE_SPIN;
	info.foreign_loops = loops;
	if (ws->config.server_tls == NULL)
		info.fd_limit_per_thread = CLIENT_FDS;
	ws_mark_fds(before);
	ws->context = lws_create_context(&info);
	ws_note_fds(ws, before);
	if (ws->context == NULL)
		return err_set(err, ENOTSUP,
			"libwebsockets does not start: is the package libwebsockets-evlib-uv "
			"installed?");
	return 0;
}

static int
start_server(struct ws *ws, struct err *err)
{
	struct lws_context_creation_info info = common_info(ws);

	info.vhost_name = "server";
	info.port = CONTEXT_PORT_NO_LISTEN_SERVER;
	info.options = SERVER_OPTIONS | LWS_SERVER_OPTION_CREATE_VHOST_SSL_CTX |
		LWS_SERVER_OPTION_REQUIRE_VALID_OPENSSL_CLIENT_CERT |
		LWS_SERVER_OPTION_PEER_CERT_NOT_REQUIRED;
	/* Never used, but it keeps libwebsockets from making a client context of its own. */
	info.provided_client_ssl_ctx = ws->config.server_tls;
	ws->server = lws_create_vhost(ws->context, &info);
	if (ws->server == NULL)
		return err_set(err, EINVAL, "libwebsockets refuses the TLS context of the server");
	return 0;
}

void
ws_reap_vhosts(void *arg)
{
	struct ws *ws = arg;

	while (ws->old != NULL) {
		struct ws_old_vhost *old = ws->old;

		ws->old = old->next;
		lws_vhost_destroy(old->vhost);
		free(old);
	}
}

void
ws_retire_vhost(struct ws *ws, struct lws_vhost *vhost)
{
	struct ws_old_vhost *old;

	if (ws->freeing)
		return; /* the context takes its vhosts along */
	old = xcalloc(1, sizeof *old);
	old->vhost = vhost;
	old->next = ws->old;
	ws->old = old;
	timer_start(ws->reap, 0, 0);
}

/* --- time ----------------------------------------------------------------- */

static void
kill_conn(struct ws_conn *c)
{
	struct lws *wsi = c->wsi;

	if (wsi == NULL)
		return;
	/* What is still buffered would hold the connection open. */
	shutdown(lws_get_socket_fd(wsi), SHUT_RDWR);
	lws_set_timeout(wsi, PENDING_TIMEOUT_USER_REASON_BASE, LWS_TO_KILL_SYNC);
}

/* The kernel knows of bytes that libwebsockets has not passed on yet. */
static uint64_t
silence_ms(struct ws_conn *c, uint64_t now)
{
	uint64_t silence = now - c->heard_ms;
	struct tcp_info info = {0};
	socklen_t len = sizeof info;

	if (getsockopt(lws_get_socket_fd(c->wsi), IPPROTO_TCP, TCP_INFO, &info, &len) == 0 &&
		info.tcpi_last_data_recv < silence) {
		silence = info.tcpi_last_data_recv;
		c->heard_ms = now - silence;
	}
	return silence;
}

static void
tick_open(struct ws_conn *c, uint64_t now)
{
	uint64_t beat = c->ws->config.heartbeat_ms, limit = 2 * beat + 1000;

	if (now - c->heard_ms > limit && silence_ms(c, now) > limit) {
		ws_set_why(
			c, "no sign of life for %llu ms", (unsigned long long)(now - c->heard_ms));
		kill_conn(c);
		ws_end(c, NULL);
		return;
	}
	if (now - c->pinged_ms >= beat) {
		c->pinged_ms = now;
		c->ping_due = true;
		lws_callback_on_writable(c->wsi);
	}
}

static void
tick_conn(struct ws_conn *c, uint64_t now)
{
	if (c->wsi == NULL)
		return;
	if (c->state == WS_OPEN) {
		if (c->ws->config.heartbeat_ms > 0)
			tick_open(c, now);
		return;
	}
	if (now - c->since_ms <= c->ws->config.handshake_ms)
		return;
	if (c->state == WS_STARTING)
		ws_set_why(c, "no answer to the TLS or websocket handshake within %llu ms",
			(unsigned long long)c->ws->config.handshake_ms);
	c->since_ms = now;
	kill_conn(c);
	ws_end(c, "the connection ended");
}

static void
on_tick(void *arg)
{
	struct ws *ws = arg;
	struct ws_conn *c, *next;
	uint64_t now = loop_now_ms(ws->loop);

	for (c = ws->conns; c != NULL; c = next) {
		next = c->next;
		tick_conn(c, now);
	}
}

int
ws_new(struct ws **out, struct loop *loop, const struct ws_config *config, struct err *err)
{
	struct ws *ws = xcalloc(1, sizeof *ws);
	uint64_t tick = MIN(config->heartbeat_ms / 4, (uint64_t)TICK_MAX_MS);
	int rc;

	ws->loop = loop;
	ws->config = *config;
	if (ws->config.handshake_ms == 0)
		ws->config.handshake_ms = DEADLINE_MS;
	lws_set_log_level(LLL_ERR | LLL_WARN, on_lws_log);
	ws->tick = timer_new(loop, on_tick, ws);
	ws->reap = timer_new(loop, ws_reap_vhosts, ws);
	rc = start_context(ws, err);
	if (rc == 0 && config->server_tls != NULL)
		rc = start_server(ws, err);
	if (rc < 0) {
		ws_free(&ws);
		return rc;
	}
	tick = config->heartbeat_ms == 0 ? TICK_MAX_MS : MAX(tick, (uint64_t)TICK_MIN_MS);
	timer_start(ws->tick, tick, tick);
	*out = ws;
	return 0;
}

/* --- connections ---------------------------------------------------------- */

static struct ws_conn *
conn_new(struct ws *ws, bool server)
{
	struct ws_conn *c = xcalloc(1, sizeof *c);

	c->ws = ws;
	c->server = server;
	c->since_ms = loop_now_ms(ws->loop);
	c->last = &c->first;
	buf_init(&c->received, BUF_UNLIMITED);
	c->next = ws->conns;
	c->link = &ws->conns;
	if (c->next != NULL)
		c->next->link = &c->next;
	ws->conns = c;
	return c;
}

int
ws_adopt(struct ws *ws, int fd)
{
	struct ws_conn *c = conn_new(ws, true);
	struct addr peer = {.len = sizeof peer.in6};
	lws_adopt_desc_t desc = {
		.vh = ws->server,
		.type = LWS_ADOPT_HTTP | LWS_ADOPT_SOCKET | LWS_ADOPT_ALLOW_SSL,
		.fd.sockfd = fd,
		.opaque = c,
	};

	if (getpeername(fd, &peer.sa, &peer.len) == 0)
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
	struct lws_context_creation_info info = common_info(ws);

	info.vhost_name = "client";
	info.port = CONTEXT_PORT_NO_LISTEN;
	info.options = SERVER_OPTIONS;
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

static struct lws *
connect_lws(struct ws_conn *c, const struct ws_dial *dial)
{
	char address[INET6_ADDRSTRLEN] = "", host[300];
	bool six = dial->addr.sa.sa_family == AF_INET6;
	struct lws_client_connect_info info = {
		.context = c->ws->context,
		.vhost = c->vhost,
		.address = address,
		.port = addr_port(&dial->addr),
		.path = dial->path,
		.host = host,
		.ssl_connection = LCCSCF_USE_SSL | LCCSCF_SKIP_SERVER_CERT_HOSTNAME_CHECK |
			LCCSCF_HTTP_NO_FOLLOW_REDIRECT,
		.alpn = "http/1.1",
		.opaque_user_data = c,
		.pwsi = &c->wsi,
		.retry_and_idle_policy = &no_pings,
	};
	const void *raw = six ? (const void *)&dial->addr.in6.sin6_addr : &dial->addr.in.sin_addr;

	if (inet_ntop(dial->addr.sa.sa_family, raw, address, sizeof address) == NULL)
		return NULL;
	snprintf(host, sizeof host, strchr(dial->host, ':') != NULL ? "[%s]" : "%s", dial->host);
	return lws_client_connect_via_info(&info);
}

/*
 * Where connect(2) says no at once, libwebsockets 4.1 loses its libuv handle. Connecting a UDP socket
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
	c->dialing = true;
	c->wsi = c->vhost != NULL ? connect_lws(c, dial) : NULL;
	c->dialing = false;
	if (c->wsi != NULL)
		return c;
	err_set(err, ECONNREFUSED, "cannot connect to %s", c->peer_addr);
	c->state = WS_ENDED;
	if (c->vhost != NULL)
		ws_retire_vhost(ws, take_ptr(&c->vhost));
	/* Out of memory inside libwebsockets apart, it has let go of it by now. */
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
	if (c->state == WS_OPEN) {
		c->state = WS_CLOSING;
		lws_callback_on_writable(c->wsi);
		return;
	}
	/* Nobody to talk to yet: the next tick ends it. */
	c->state = WS_CLOSING;
	c->since_ms -= MIN(c->since_ms, c->ws->config.handshake_ms + 1);
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
ws_peer_addr(const struct ws_conn *c)
{
	return c->peer_addr;
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
