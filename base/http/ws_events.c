#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "base/core/log.h"
#include "base/http/ws_lws.h"
#include "base/tls/pki_tls.h"

enum {
	FRAGMENTS_PER_TURN = 16, /* of one connection per turn, before others are served */
	WRITE_CLOSE = 4, /* LWS_WRITE_CLOSE of libwebsockets' private headers */
};

void
ws_set_why(struct ws_conn *c, const char *fmt, ...)
{
	va_list ap;

	if (c->why[0] != '\0')
		return;
	va_start(ap, fmt);
	vsnprintf(c->why, sizeof c->why, fmt, ap);
	va_end(ap);
}

void
ws_end(struct ws_conn *c, const char *why)
{
	bool known = c->server ? c->accepted : !c->dialing;
	const struct ws_config *config = &c->ws->config;

	if (c->state == WS_ENDED)
		return;
	c->state = WS_ENDED;
	liveness_leave(&c->line);
	preauth_leave(&c->place);
	if (why != NULL)
		ws_set_why(c, "%s", why);
	if (known)
		config->events->closed(config->arg, c, c->why);
	else if (c->server)
		log_limited(LOG_LEVEL_INFO, 10, "ws",
			"connection dropped before the upgrade peer=%s why=\"%s\"", c->peer_addr,
			c->why);
}

static void
drop_frame(struct ws_conn *c)
{
	struct ws_frame *f = c->first;

	c->queued -= f->len;
	c->sent = 0;
	c->first = f->next;
	if (c->first == NULL)
		c->last = &c->first;
	free(f);
}

void
ws_conn_free(struct ws_conn *c)
{
	timer_free(&c->tick);
	liveness_leave(&c->line);
	preauth_leave(&c->place);
	while (c->first != NULL)
		drop_frame(c);
	ws_way_free(&c->way);
	while (c->fields != NULL) {
		struct ws_field *f = c->fields;

		c->fields = f->next;
		free(f->value);
		free(f);
	}
	if (c->vhost != NULL)
		ws_retire_vhost(c->ws, c->vhost);
	*c->link = c->next;
	if (c->next != NULL)
		c->next->link = c->link;
	buf_fini(&c->received);
	free(c->peer_name);
	free(c->path);
	free(c->host);
	free(c->request);
	free(c);
}

/* --- TLS ------------------------------------------------------------------------------------ */

static int
on_server_cert(struct ws_conn *c, void *chain, bool ok)
{
	char why[WS_WHY_MAX];
	enum pki_step step = pki_verify_step(chain, ok, c->host, why, sizeof why);

	if (step == PKI_VERIFIED)
		c->verified = true;
	if (step == PKI_REFUSED)
		ws_set_why(c, "%s", why);
	return step == PKI_REFUSED;
}

static int
on_client_cert(struct ws_conn *c, void *chain, bool ok)
{
	char why[WS_WHY_MAX];

	if (pki_verify_client_step(chain, ok, why, sizeof why) != PKI_REFUSED)
		return 0;
	ws_set_why(c, "%s", why);
	return 1;
}

/* --- frames --------------------------------------------------------------------------------- */

/* The rest of what the peer is sending is read and dropped until its close frame comes. */
static int
ws_events_refuse(struct ws_conn *c, unsigned code, const char *why)
{
	buf_fini(&c->received);
	ws_close(c, code, why);
	return 0;
}

static int
on_piece(struct ws_conn *c, struct lws *wsi, const void *in, size_t len)
{
	const struct ws_config *config = &c->ws->config;
	size_t left = lws_remaining_packet_payload(wsi);
	size_t have;

	ws_heard(c);
	if (c->state != WS_OPEN)
		return 0;
	if (lws_frame_is_binary(wsi))
		return ws_events_refuse(c, LWS_CLOSE_STATUS_UNACCEPTABLE_OPCODE, "a binary frame");
	have = buf_len(&c->received);
	if (left > config->message_limit || have + len + left > config->message_limit)
		return ws_events_refuse(
			c, LWS_CLOSE_STATUS_MESSAGE_TOO_LARGE, "a message is too large");
	buf_add(&c->received, in, len);
	if (left > 0 || !lws_is_final_fragment(wsi))
		return 0;
	have = buf_len(&c->received);
	config->events->text(config->arg, c, buf_str(&c->received), have);
	buf_consume(&c->received, have);
	buf_release(&c->received);
	return 0;
}

static int
send_fragment(struct ws_conn *c, struct lws *wsi)
{
	struct ws_frame *f = c->first;
	size_t len = MIN(f->len - c->sent, (size_t)WS_FRAGMENT);
	int how = c->sent == 0 ? LWS_WRITE_TEXT : LWS_WRITE_CONTINUATION;

	if (c->sent + len < f->len)
		how |= LWS_WRITE_NO_FIN;
	/* libwebsockets writes its header over the bytes before, which have been sent. */
	if (lws_write(wsi, f->data + LWS_PRE + c->sent, len, (enum lws_write_protocol)how) < 0)
		return -1;
	c->sent += len;
	if (c->sent == f->len)
		drop_frame(c);
	return 0;
}

static int
send_ping(struct ws_conn *c, struct lws *wsi)
{
	unsigned char out[LWS_PRE + 1];

	c->ping_due = false;
	return lws_write(wsi, out + LWS_PRE, 0, LWS_WRITE_PING) < 0 ? -1 : 0;
}

/* Not with lws_close_reason: on libuv, Debian's libwebsockets closes the connection before the
 * frame is sent. */
static int
send_close(struct ws_conn *c, struct lws *wsi)
{
	unsigned char out[LWS_PRE + 2 + WS_REASON_MAX];
	size_t len = strlen(c->close_reason);

	c->close_sent = true;
	out[LWS_PRE] = (unsigned char)(c->close_code >> 8);
	out[LWS_PRE + 1] = (unsigned char)c->close_code;
	memcpy(out + LWS_PRE + 2, c->close_reason, len);
	return lws_write(wsi, out + LWS_PRE, len + 2, (enum lws_write_protocol)WRITE_CLOSE) < 0 ? -1
												: 0;
}

static int
on_writable(struct ws_conn *c, struct lws *wsi)
{
	const struct ws_config *config = &c->ws->config;
	int i;

	if (c->ping_due && send_ping(c, wsi) < 0)
		return -1;
	for (i = 0; i < FRAGMENTS_PER_TURN && c->first != NULL; i++) {
		if (lws_send_pipe_choked(wsi))
			break;
		if (send_fragment(c, wsi) < 0)
			return -1;
	}
	if (c->first != NULL) {
		lws_callback_on_writable(wsi);
	} else if (c->state == WS_CLOSING && !c->close_sent) {
		return send_close(c, wsi);
	}
	if (c->over && c->state == WS_OPEN && c->queued <= config->high_water / 2) {
		c->over = false;
		if (config->events->drained != NULL)
			config->events->drained(config->arg, c);
	}
	return 0;
}

static int
on_peer_close(struct ws_conn *c, const unsigned char *in, size_t len)
{
	unsigned code = len >= 2 ? (unsigned)in[0] << 8 | in[1] : 1005;
	const char *text = len > 2 ? (const char *)in + 2 : "no reason given";
	int text_len = (int)(len > 2 ? len - 2 : strlen(text));

	ws_set_why(c, "the peer closed it: %.*s (%u)", text_len, text, code);
	return c->close_sent ? -1 : 0; /* both sides have sent close */
}

static int
on_destroy(struct ws_conn *c)
{
	ws_end(c, "the connection was lost");
	c->wsi = NULL;
	c->released = true;
	if (!c->dialing)
		ws_conn_free(c);
	return 0;
}

int
ws_renew(struct ws *ws, struct ssl_ctx_st *server_tls)
{
	int rc = ws->server_ctx != NULL ? pki_ctx_copy(ws->server_ctx, server_tls) : -ENOTSUP;

	if (rc == 0)
		ws->config.server_tls = server_tls;
	return rc;
}

/* Callbacks without a connection of ours. */
static int
on_context(struct lws *wsi, enum lws_callback_reasons reason, void *user)
{
	struct ws *ws = lws_context_user(lws_get_context(wsi));

	switch (reason) {
	case LWS_CALLBACK_OPENSSL_LOAD_EXTRA_SERVER_VERIFY_CERTS:
		ws->server_ctx = user;
		return pki_ctx_copy(user, ws->config.server_tls);
	case LWS_CALLBACK_WSI_CREATE:
		ws->adopted = true;
		return 0;
	case LWS_CALLBACK_OPENSSL_PERFORM_SERVER_CERT_VERIFICATION:
	case LWS_CALLBACK_OPENSSL_PERFORM_CLIENT_CERT_VERIFICATION:
	case LWS_CALLBACK_FILTER_PROTOCOL_CONNECTION:
	case LWS_CALLBACK_HTTP:
		return 1;
	default:
		return 0;
	}
}

/* Callbacks of TLS, HTTP and the upgrade. */
static int
on_start(struct ws_conn *c, struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in,
	size_t len)
{
	switch (reason) {
	case LWS_CALLBACK_OPENSSL_PERFORM_SERVER_CERT_VERIFICATION:
		return on_server_cert(c, user, len != 0);
	case LWS_CALLBACK_OPENSSL_PERFORM_CLIENT_CERT_VERIFICATION:
		return on_client_cert(c, user, len != 0);
	case LWS_CALLBACK_HTTP:
		ws_set_why(c, "not a websocket");
		ws_answer(wsi, 426, "Upgrade Required", 0);
		return -1;
	case LWS_CALLBACK_FILTER_PROTOCOL_CONNECTION:
		return ws_on_upgrade(c, wsi);
	case LWS_CALLBACK_CLIENT_APPEND_HANDSHAKE_HEADER:
		return ws_add_request_headers(c, in, len);
	case LWS_CALLBACK_ESTABLISHED:
	case LWS_CALLBACK_CLIENT_ESTABLISHED:
		return ws_on_open(c);
	case LWS_CALLBACK_CLIENT_CONNECTION_ERROR:
		ws_on_dial_failed(c, wsi, in, len);
		return 0;
	case LWS_CALLBACK_CLOSED_CLIENT_HTTP:
		ws_on_dial_failed(c, wsi, NULL, 0);
		return 0;
	default:
		return 0;
	}
}

int
ws_on_lws(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t len)
{
	struct ws_conn *c = NULL;

	/* The callbacks that load TLS contexts get an object that is not a complete connection. */
	if (reason != LWS_CALLBACK_OPENSSL_LOAD_EXTRA_SERVER_VERIFY_CERTS)
		c = lws_get_opaque_user_data(wsi);
	if (c == NULL)
		return on_context(wsi, reason, user);
	switch (reason) {
	case LWS_CALLBACK_RECEIVE:
	case LWS_CALLBACK_CLIENT_RECEIVE:
		return on_piece(c, wsi, in, len);
	case LWS_CALLBACK_RECEIVE_PONG:
	case LWS_CALLBACK_CLIENT_RECEIVE_PONG:
		ws_heard(c);
		return 0;
	case LWS_CALLBACK_SERVER_WRITEABLE:
	case LWS_CALLBACK_CLIENT_WRITEABLE:
		return on_writable(c, wsi);
	case LWS_CALLBACK_WS_PEER_INITIATED_CLOSE:
		return on_peer_close(c, in, len);
	case LWS_CALLBACK_CLOSED:
	case LWS_CALLBACK_CLIENT_CLOSED:
		ws_end(c, "the connection was lost");
		return 0;
	case LWS_CALLBACK_WSI_DESTROY:
		return on_destroy(c);
	default:
		return on_start(c, wsi, reason, user, in, len);
	}
}
