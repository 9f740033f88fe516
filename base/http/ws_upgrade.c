#include <limits.h>
#include <netinet/tcp.h>
#include <string.h>

#include "base/core/util.h"
#include "base/http/retry_after.h"
#include "base/http/ws_lws.h"
#include "base/tls/pki_tickets.h"
#include "base/tls/pki_tls.h"

enum {
	NOTSENT_LOWAT = 128 * 1024,
	PATH_MAX_BYTES = 2048,
};

static char *
copy_token(struct lws *wsi, enum lws_token_indexes token)
{
	int len = lws_hdr_total_length(wsi, token);
	char *value;

	if (len <= 0)
		return NULL;
	value = xcalloc(1, (size_t)len + 2);
	if (lws_hdr_copy(wsi, value, len + 1, token) < 0) {
		free(value);
		return NULL;
	}
	return value;
}

/* libwebsockets keeps well-known headers by number, all others by name. */
static char *
copy_header(struct lws *wsi, const char *name)
{
	auto_free char *with_colon = xasprintf("%s:", name);
	int name_len = (int)strlen(with_colon), len, i;
	char *value;

	for (i = 0; i < WSI_TOKEN_COUNT; i++) {
		const unsigned char *token = lws_token_to_string((enum lws_token_indexes)i);

		if (token != NULL && strcmp((const char *)token, with_colon) == 0)
			return copy_token(wsi, (enum lws_token_indexes)i);
	}
	len = lws_hdr_custom_length(wsi, with_colon, name_len);
	if (len <= 0)
		return NULL;
	value = xcalloc(1, (size_t)len + 2);
	if (lws_hdr_custom_copy(wsi, value, len + 1, with_colon, name_len) < 0) {
		free(value);
		return NULL;
	}
	return value;
}

const char *
ws_header(const struct ws_conn *c, const char *name)
{
	struct ws_conn *writable = *c->link; /* the list's own pointer to c */
	size_t size = strlen(name) + 1;
	struct ws_field *f;

	for (f = c->fields; f != NULL; f = f->next) {
		if (strcmp(f->name, name) == 0)
			return f->value;
	}
	if (!c->server || c->wsi == NULL)
		return "";
	f = xcalloc(1, sizeof *f + size);
	memcpy(f->name, name, size);
	f->value = copy_header(c->wsi, name);
	if (f->value == NULL)
		f->value = xstrdup("");
	f->next = c->fields;
	writable->fields = f;
	return f->value;
}

void
ws_answer(struct lws *wsi, int status, const char *words, unsigned retry_after_s)
{
	unsigned char out[LWS_PRE + 256];
	char *text = (char *)out + LWS_PRE, wait[32] = "";
	int len;

	if (retry_after_s > 0)
		snprintf(wait, sizeof wait, "retry-after: %u\r\n", retry_after_s);
	len = snprintf(text, sizeof out - LWS_PRE,
		"HTTP/1.1 %d %s\r\n%sconnection: close\r\ncontent-length: 0\r\n\r\n", status, words,
		wait);

	lws_write(wsi, out + LWS_PRE, (size_t)len, LWS_WRITE_HTTP_HEADERS);
}

static const char *
status_words(int status)
{
	switch (status) {
	case 400:
		return "Bad Request";
	case 401:
		return "Unauthorized";
	case 403:
		return "Forbidden";
	case 404:
		return "Not Found";
	case 410:
		return "Gone";
	case 421:
		return "Misdirected Request";
	case 426:
		return "Upgrade Required";
	case 503:
		return "Service Unavailable";
	default:
		return "Refused";
	}
}

/* Nonzero ends the connection. */
int
ws_on_upgrade(struct ws_conn *c, struct lws *wsi)
{
	const struct ws_config *config = &c->ws->config;
	int status = 0;

	if (lws_hdr_total_length(wsi, WSI_TOKEN_GET_URI) > PATH_MAX_BYTES)
		return 1;
	c->wsi = wsi;
	c->path = copy_token(wsi, WSI_TOKEN_GET_URI);
	c->peer_name = pki_peer_name((const struct ssl_st *)lws_get_ssl(wsi));
	pki_peer_serial((const struct ssl_st *)lws_get_ssl(wsi), c->peer_serial);
	c->peer_expires_s = pki_peer_not_after((const struct ssl_st *)lws_get_ssl(wsi));
	c->resumed = pki_resumed((const struct ssl_st *)lws_get_ssl(wsi));
	if (config->events->accept != NULL)
		status = config->events->accept(config->arg, c);
	if (status == 0) {
		c->accepted = true;
		return 0;
	}
	ws_set_why(c, "refused with HTTP status %d", status);
	ws_answer(wsi, status, status_words(status), (unsigned)(c->wait_ms / 1000));
	return 1;
}

int
ws_add_request_headers(struct ws_conn *c, void *in, size_t room)
{
	unsigned char **at = in;
	size_t len = strlen(c->request);

	/* Send no secret before the server is verified. */
	if (!c->verified && !pki_resumed((const struct ssl_st *)lws_get_ssl(c->wsi))) {
		ws_set_why(c, "the peer's certificate was not verified");
		return -1;
	}
	if (len > room) {
		ws_set_why(c, "the request's headers are too long");
		return -1;
	}
	memcpy(*at, c->request, len);
	*at += len;
	return 0;
}

int
ws_on_open(struct ws_conn *c)
{
	int lowat = NOTSENT_LOWAT;

	c->state = c->state == WS_STARTING ? WS_OPEN : c->state;
	preauth_leave(&c->place);
	c->heard_ms = c->pinged_ms = loop_now_ms(c->ws->loop);
	setsockopt(lws_get_socket_fd(c->wsi), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &lowat, sizeof lowat);
	if (c->state == WS_OPEN && c->ws->config.events->open != NULL)
		c->ws->config.events->open(c->ws->config.arg, c);
	return 0;
}

static uint64_t
asked_to_wait(struct lws *wsi, unsigned status, struct ssl_st *ssl)
{
	auto_free char *said = status == 503 ? copy_token(wsi, WSI_TOKEN_HTTP_RETRY_AFTER) : NULL;
	uint64_t random;

	random_bytes(&random, sizeof random);
	if (said != NULL)
		return retry_after_read(said, random);
	return ssl != NULL && pki_peer_busy(ssl)
		? RETRY_AFTER_BUSY_MS + random % RETRY_AFTER_BUSY_MS
		: 0;
}

void
ws_on_dial_failed(struct ws_conn *c, struct lws *wsi, const char *in, size_t len)
{
	unsigned status = lws_http_client_http_response(wsi);
	struct ssl_st *ssl = (struct ssl_st *)lws_get_ssl(wsi);
	char why[WS_WHY_MAX];

	c->wait_ms = asked_to_wait(wsi, status, ssl);
	if (status > 0 && status != 101)
		ws_set_why(c, "%s refused: HTTP status %u", c->host, status);
	else if (c->wait_ms > 0)
		ws_set_why(c, "%s is busy", c->host);
	else if (ssl != NULL && pki_peer_alert(ssl, why, sizeof why))
		ws_set_why(c, "%s", why);
	else if (ssl != NULL && pki_peer_no_tls(ssl))
		ws_set_why(c, "what listens at %s does not speak TLS", c->peer_addr);
	else if (ssl == NULL)
		/* libwebsockets 4.1 has consumed the socket's error; timeouts are our own (ws.c) */
		ws_set_why(c, "cannot connect to %s: " WS_REFUSED_OR_UNREACHABLE, c->peer_addr);
	else
		ws_set_why(c, "the handshake with %s failed: %.*s", c->peer_addr,
			in != NULL ? (int)MIN(len, (size_t)200) : INT_MAX,
			in != NULL ? in : "the peer ended the connection");
	ws_end(c, NULL);
}
