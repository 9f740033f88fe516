#include "base/http/ws.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>

#include "base/core/log.h"
#include "base/http/ws_lws.h"
#include "base/http/ws_tunnel_head.h"
#include "base/tls/pki_tls.h"

enum {
	DEADLINE_MS = 10 * 1000, /* TLS and upgrade; and the closing handshake */
	TICK_MAX_MS = LIVENESS_LOOK_MS,
	/* of connections that share their life, relative to twice the heartbeat and 1 s */
	PROBE_BEFORE_MS = 400, /* the only connection */
	FOLLOW_BEFORE_MS = 50, /* others probe first */
	LINK_DEAD_MS = 900,
	STALL_MS = 500, /* a tick this late: probes came unseen while this program was stopped */
	TICK_MIN_MS = 10,
	CLIENT_FDS = 64, /* libwebsockets allocates tables of this size */
};

static const struct lws_protocols protocols[] = {
	{
		.name = "edgeway",
		.callback = ws_on_lws,
		.rx_buffer_size = WS_RECEIVE,
		.tx_packet_size = WS_FRAGMENT,
	},
	/* So that `accept` sees a websocket tunnel that was dialled to this server by mistake, and
	 * can explain the error. */
	{
		.name = WS_TUNNEL_PROTOCOL,
		.callback = ws_on_lws,
		.rx_buffer_size = WS_RECEIVE,
		.tx_packet_size = WS_FRAGMENT,
	},
	{0},
};

/* No pings and no timer of libwebsockets' own; ours follow the owner's heartbeat. A timer for each
 * connection would go to the end of one list of all, at every pong. */
const lws_retry_bo_t ws_no_pings = {
	.secs_since_valid_ping = 0,
	.secs_since_valid_hangup = 0,
};

static void
on_lws_log(int level, const char *line)
{
	int len = (int)strcspn(line, "\n");

	/* Refused certificates are reported with their connection. */
	if (level == LLL_ERR && strncmp(line, "SSL error", 9) != 0)
		log_limited(LOG_LEVEL_WARN, 10, "ws", "%.*s", len, line);
	else
		log_debug("ws", "%.*s", len, line);
}

struct lws_context_creation_info
ws_common_info(struct ws *ws)
{
	struct lws_context_creation_info info = {
		.protocols = protocols,
		.retry_and_idle_policy = &ws_no_pings,
		.timeout_secs = DEADLINE_MS / 1000,
		.connect_timeout_secs = DEADLINE_MS / 1000,
		.keepalive_timeout = 5,
		.user = ws,
		/* Else libwebsockets uses the variable http_proxy for wss too; port 0 means no
		 * proxy. */
		.http_proxy_address = ":0",
		.alpn = "http/1.1",
	};

	return info;
}

static int
start_context(struct ws *ws, struct err *err)
{
	struct lws_context_creation_info info = ws_common_info(ws);
	void *loops[] = {loop_backend(ws->loop)};
	bool before[WS_FDS_SEEN];

	info.port = CONTEXT_PORT_NO_LISTEN;
	info.options = WS_OPTIONS | LWS_SERVER_OPTION_EXPLICIT_VHOSTS | LWS_SERVER_OPTION_LIBUV |
		LWS_SERVER_OPTION_UV_NO_SIGSEGV_SIGFPE_SPIN;
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
	struct lws_context_creation_info info = ws_common_info(ws);

	info.vhost_name = "server";
	info.port = CONTEXT_PORT_NO_LISTEN_SERVER;
	info.options = WS_OPTIONS | LWS_SERVER_OPTION_CREATE_VHOST_SSL_CTX |
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
		return; /* destroying the context destroys its vhosts */
	old = xcalloc(1, sizeof *old);
	old->vhost = vhost;
	old->next = ws->old;
	ws->old = old;
	timer_start(ws->reap, 0, 0);
}

/* --- time ----------------------------------------------------------------------------------- */

static void
kill_conn(struct ws_conn *c)
{
	struct lws *wsi = c->wsi;

	if (wsi == NULL)
		return;
	/* Buffered data would keep the connection open. */
	shutdown(lws_get_socket_fd(wsi), SHUT_RDWR);
	lws_set_timeout(wsi, PENDING_TIMEOUT_USER_REASON_BASE, LWS_TO_KILL_SYNC);
}

/* Also counts bytes that the kernel has received but libwebsockets has not yet delivered. */
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
ws_tick_ping(struct ws_conn *c, uint64_t now)
{
	if (now - c->pinged_ms < c->beat_ms)
		return;
	c->pinged_ms = now;
	c->ping_due = true;
	lws_callback_on_writable(c->wsi);
}

void
ws_heard(struct ws_conn *c)
{
	c->heard_ms = loop_now_ms(c->ws->loop);
	if (c->line.peer != NULL)
		liveness_heard(&c->line, c->heard_ms);
}

void
ws_ask(struct ws_conn *c)
{
	if (c->line.peer == NULL || c->wsi == NULL || c->state != WS_OPEN || c->asked_ms != 0)
		return;
	c->asked_ms = loop_now_ms(c->ws->loop);
	c->pinged_ms = 0;
	ws_tick_ping(c, c->asked_ms);
	ws_tick_soon(c);
}

static void
ws_tick_end(struct ws_conn *c, uint64_t silence)
{
	ws_set_why(c, "no sign of life for %llu ms%s", (unsigned long long)silence,
		sock_acknowledged(lws_get_socket_fd(c->wsi), (unsigned)(2 * c->beat_ms + 1000))
			? ", though its machine acknowledges what is sent to it"
			: "");
	kill_conn(c);
	ws_end(c, NULL);
}

static uint64_t
ws_program_patience_ms(const struct ws_conn *c)
{
	return (LIVENESS_PROGRAM_BEATS + 3) * c->beat_ms;
}

static uint64_t
ws_probe_before_ms(const struct ws_conn *c)
{
	return liveness_alone(&c->line) ? PROBE_BEFORE_MS : FOLLOW_BEFORE_MS;
}

/* When a connection that shares its life is to be looked at; 0: always. */
static uint64_t
ws_shared_due_ms(const struct ws_conn *c)
{
	uint64_t at = liveness_link_ms(&c->line) + 2 * c->beat_ms + 1000;

	/* who keeps it probes, the other end counts what the probes bring */
	at -= c->keeps ? ws_probe_before_ms(c) : PROBE_BEFORE_MS + LIVENESS_EARLY_MS;
	if (c->line.probing_ms != 0 || c->asked_ms != 0)
		return 0;
	at = MIN(at, c->line.heard_ms + LIVENESS_NAT_MS);
	return MIN(at, liveness_program_ms(&c->line) + ws_program_patience_ms(c));
}

/* The tick of a connection that shares its life; what is due when: tunnel/h2/session_life.c. The
 * tunnel asks the program first. */
static void
tick_shared(struct ws_conn *c, uint64_t now)
{
	const uint64_t limit = 2 * c->beat_ms + 1000;
	const uint64_t ask = ws_program_patience_ms(c);
	const uint64_t probe = limit - ws_probe_before_ms(c);
	const int fd = lws_get_socket_fd(c->wsi);
	uint64_t link;

	if (now < ws_shared_due_ms(c))
		return;
	(void)silence_ms(c, now);
	liveness_heard(&c->line, c->heard_ms);
	liveness_look(&c->line, fd, now);
	link = liveness_link_ago_ms(&c->line, now);
	if (c->asked_ms != 0 && c->heard_ms >= c->asked_ms)
		c->asked_ms = 0;
	if (link > limit + LINK_DEAD_MS) {
		ws_tick_end(c, link);
		return;
	}
	if (c->asked_ms != 0 && now - c->asked_ms > c->beat_ms + 1000) {
		ws_tick_end(c, now - c->heard_ms);
		return;
	}
	if (liveness_program_ago_ms(&c->line, now) >= ask)
		ws_ask(c);
	if (link >= limit)
		ws_tick_ping(c, now);
	if (c->keeps && c->line.probing_ms == 0 &&
		(link >= probe || now - c->line.heard_ms >= LIVENESS_NAT_MS) &&
		!liveness_probe(&c->line, fd, now))
		ws_tick_ping(c, now);
}

static void
tick_alone(struct ws_conn *c, uint64_t now)
{
	uint64_t beat = c->beat_ms, limit = 2 * beat + 1000, silence = now - c->heard_ms;

	if (silence >= beat)
		silence = silence_ms(c, now);
	if (silence > limit) {
		ws_tick_end(c, now - c->heard_ms);
		return;
	}
	/* Ping after a heartbeat without received bytes; ping and pong each show that the sender is
	 * alive. */
	if (silence >= beat)
		ws_tick_ping(c, now);
}

void
ws_drop(struct ws_conn *c, const char *why)
{
	if (c->wsi == NULL)
		return;
	ws_set_why(c, "%s", why);
	kill_conn(c);
	ws_end(c, NULL);
}

int
ws_fd(const struct ws_conn *c)
{
	return c->wsi != NULL ? lws_get_socket_fd(c->wsi) : -1;
}

/* Which stage a timed-out dial had reached. */
static const char *
dial_stage(const struct ws_conn *c)
{
	struct tcp_info info = {0};
	socklen_t len = sizeof info;

	if (c->server || c->way != NULL || c->wsi == NULL ||
		getsockopt(lws_get_socket_fd(c->wsi), IPPROTO_TCP, TCP_INFO, &info, &len) < 0)
		return "no answer to the TLS or websocket handshake";
	/* A program that hangs has a kernel that acknowledges. */
	if (info.tcpi_state == TCP_ESTABLISHED && info.tcpi_unacked > 0 && info.tcpi_backoff > 0)
		return "it takes the connection, and larger packets do not get there";
	return info.tcpi_state == TCP_SYN_SENT
		? "no answer to the connection's first packet"
		: "it takes the connection, and does not answer the TLS or websocket handshake";
}

static void
end_late(struct ws_conn *c, uint64_t now)
{
	if (c->wsi == NULL) {
		ws_way_fail(c, NULL);
		return;
	}
	c->since_ms = now;
	kill_conn(c);
	ws_end(c, "the connection ended");
}

/* May free it. */
static void
ws_tick_unopened(struct ws_conn *c, uint64_t now)
{
	if ((c->wsi == NULL && c->way == NULL) || now - c->since_ms <= c->ws->config.handshake_ms)
		return;
	if (c->state == WS_STARTING)
		ws_set_why(c, "%s%s%s within %llu ms", c->server ? "" : c->peer_addr,
			c->server ? "" : ": ", dial_stage(c),
			(unsigned long long)c->ws->config.handshake_ms);
	end_late(c, now);
}

void
ws_give_up(struct ws_conn *c, const char *why)
{
	if ((c->state != WS_STARTING && c->state != WS_CLOSING) ||
		(c->wsi == NULL && c->way == NULL))
		return;
	if (c->server || c->state != WS_STARTING)
		ws_set_why(c, "%s", why);
	else
		ws_set_why(c, "%s: %s %s", c->peer_addr, dial_stage(c), why);
	end_late(c, loop_now_ms(c->ws->loop));
}

void
ws_on_dropped(void *arg)
{
	struct ws_conn *c = arg;

	ws_set_why(c, "its place was needed: too many handshakes are under way");
	kill_conn(c);
	ws_end(c, NULL);
}

static uint64_t
ws_tick_ms(const struct ws *ws)
{
	const uint64_t beat = ws->config.heartbeat_ms;

	return beat == 0 ? TICK_MAX_MS
			 : MAX(MIN(beat / 4, (uint64_t)TICK_MAX_MS), (uint64_t)TICK_MIN_MS);
}

/* At a multiple of the context's tick, so that those of many connections fall together. */
static void
ws_tick_at(struct ws_conn *c, uint64_t at_ms)
{
	const uint64_t now = loop_now_ms(c->ws->loop), tick_ms = ws_tick_ms(c->ws);

	c->look_ms = (MAX(at_ms, now + 1) + tick_ms - 1) / tick_ms * tick_ms;
	timer_start(c->tick, c->look_ms - now, 0);
}

void
ws_tick_soon(struct ws_conn *c)
{
	/* one that is late stays so, or nobody would see that this program was stopped */
	if (!timer_active(c->tick) || c->look_ms > loop_now_ms(c->ws->loop) + ws_tick_ms(c->ws))
		ws_tick_at(c, 0);
}

/* When to look at an open connection again, if nothing calls ws_tick_soon before. */
static uint64_t
ws_due_ms(const struct ws_conn *c)
{
	if (c->line.peer != NULL)
		return ws_shared_due_ms(c);
	return c->ws->config.heartbeat_ms > 0 ? c->heard_ms + c->beat_ms : UINT64_MAX;
}

static void
ws_tick_open(struct ws_conn *c, uint64_t now)
{
	if (c->line.peer != NULL) {
		if (now > c->look_ms + STALL_MS)
			liveness_doubt(&c->line, now - MIN(now, 2 * c->beat_ms + 1000));
		tick_shared(c, now);
	} else if (c->ws->config.heartbeat_ms > 0) {
		tick_alone(c, now);
	}
}

void
ws_on_tick(void *arg)
{
	struct ws_conn *c = arg;
	const uint64_t now = loop_now_ms(c->ws->loop);
	const bool open = c->state == WS_OPEN;
	uint64_t due = 0;

	if (c->ws->freeing)
		return;
	if (open)
		ws_tick_open(c, now);
	if (c->state == WS_OPEN)
		due = ws_due_ms(c);
	if (due != UINT64_MAX)
		ws_tick_at(c, due);
	if (!open)
		ws_tick_unopened(c, now);
}

int
ws_new(struct ws **out, struct loop *loop, const struct ws_config *config, struct err *err)
{
	struct ws *ws = xcalloc(1, sizeof *ws);
	int rc;

	ws->loop = loop;
	ws->config = *config;
	if (ws->config.handshake_ms == 0)
		ws->config.handshake_ms = DEADLINE_MS;
	lws_set_log_level(LLL_ERR | LLL_WARN, on_lws_log);
	ws->reap = timer_new(loop, ws_reap_vhosts, ws);
	rc = start_context(ws, err);
	if (rc == 0 && config->server_tls != NULL)
		rc = start_server(ws, err);
	if (rc < 0) {
		ws_free(&ws);
		return rc;
	}
	*out = ws;
	return 0;
}
