#include "base/http/ws_tunnel_head.h"

#include <errno.h>
#include <stdio.h>

#include "base/core/base64.h"
#include "base/core/log.h"
#include "base/http/http1.h"
#include "base/http/wshake.h"

enum { LOCATION_SHOWN = 120 };

/* --- shared --------------------------------------------------------------------------------- */

static bool
ws_tunnel_head_says(const struct http1_field *f, const char *text)
{
	return f != NULL && f->value.len == strlen(text) &&
		memcmp(f->value.at, text, f->value.len) == 0;
}

/* --- the client ----------------------------------------------------------------------------- */

void
ws_tunnel_ask(struct buf *out, const char *host, const char *path, char key[WSHAKE_KEY_TEXT])
{
	uint8_t random[WSHAKE_KEY_BYTES];
	auto_buf struct buf text;

	buf_init(&text, BUF_UNLIMITED);
	random_bytes(random, sizeof random);
	base64_add(&text, random, sizeof random);
	snprintf(key, WSHAKE_KEY_TEXT, "%s", buf_str(&text));
	buf_printf(out,
		"GET %s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
		"Sec-WebSocket-Key: %s\r\nSec-WebSocket-Version: 13\r\n"
		"Sec-WebSocket-Protocol: " WS_TUNNEL_PROTOCOL "\r\n\r\n",
		path, host, key);
}

/* Not "status N": those words denote the hub's own answers. */
static void
ws_tunnel_head_explain(const struct http1_head *h, char why[WS_TUNNEL_WHY_MAX])
{
	const struct http1_field *location = wshake_find(h, "location");
	char shown[LOCATION_SHOWN + 1] = "?", clean[LOCATION_SHOWN + 1];
	const char *remedy;

	if (location != NULL)
		snprintf(shown, sizeof shown, "%.*s",
			(int)MIN(location->value.len, (size_t)LOCATION_SHOWN), location->value.at);
	if (h->status >= 300 && h->status < 400) {
		snprintf(why, WS_TUNNEL_WHY_MAX,
			"no websocket: it answers %u and points to %s; redirects are not followed: "
			"set hub.url to where the hub is",
			h->status, log_clean(clean, sizeof clean, shown));
		return;
	}
	switch (h->status) {
	case 400:
	case 426:
		remedy = "what is in front of the hub does not pass the fields Upgrade, Connection "
			 "and Sec-WebSocket-* on: switch websockets on there";
		break;
	case 401:
	case 407:
		remedy = "what is in front of the hub wants a login: exempt this path from it, the "
			 "hub itself proves who the node is";
		break;
	case 403:
	case 405:
		remedy = "what is in front of the hub forbids it: allow websockets on this path";
		break;
	case 404:
		remedy = "what is in front of the hub does not lead this path to it";
		break;
	case 421:
		remedy = "the hub was reached by TLS of a proxy: let it speak plain HTTP to the "
			 "hub, or ask for the server name carrier.edgeway.io";
		break;
	case 502:
	case 503:
	case 504:
		remedy = "what is in front of the hub does not reach it: is the hub up, and is its "
			 "address right there?";
		break;
	default:
		remedy = "expected 101; is this the hub, and are websockets switched on in what is "
			 "in front of it?";
	}
	snprintf(why, WS_TUNNEL_WHY_MAX, "no websocket: it answers %u; %s", h->status, remedy);
}

static const char *
ws_tunnel_head_objection(const struct http1_head *h, const char *key)
{
	char accept[WSHAKE_ACCEPT_TEXT];

	wshake_accept_for(key, strlen(key), accept);
	if (!h->upgrade || !wshake_lists(http1_find(h, HTTP1_UPGRADE), "websocket"))
		return "it answers 101 without a websocket";
	if (!ws_tunnel_head_says(wshake_find(h, "sec-websocket-accept"), accept))
		return "its Sec-WebSocket-Accept is wrong: the answer is not to our request";
	if (!ws_tunnel_head_says(wshake_find(h, "sec-websocket-protocol"), WS_TUNNEL_PROTOCOL))
		return "it does not speak " WS_TUNNEL_PROTOCOL
		       ": is this an edgeway-hub of this version?";
	if (wshake_find(h, "sec-websocket-extensions") != NULL)
		return "it uses extensions that nobody asked for";
	return NULL;
}

ssize_t
ws_tunnel_read_answer(const char *data, size_t len, const char key[WSHAKE_KEY_TEXT],
	struct ws_tunnel_answer *answer)
{
	auto_free struct http1_head *h = NULL;
	size_t from = 0;
	ssize_t n = http1_find_end(data, len, &from);
	const char *why;

	answer->status = 0;
	if (n == 0 && len < WS_TUNNEL_HEAD_MAX)
		return 0;
	h = xcalloc(1, sizeof *h);
	if (n <= 0 || http1_parse_response(h, data, (size_t)n, false) != 0) {
		snprintf(answer->why, sizeof answer->why, "it does not answer like a web server");
		return -EPROTO;
	}
	answer->status = h->status;
	if (h->status != 101) {
		ws_tunnel_head_explain(h, answer->why);
		return -EPROTO;
	}
	why = ws_tunnel_head_objection(h, key);
	if (why == NULL)
		return n;
	snprintf(answer->why, sizeof answer->why, "%s", why);
	return -EPROTO;
}

/* --- the server ----------------------------------------------------------------------------- */

static ssize_t
ws_tunnel_head_refuse(struct ws_tunnel_request *r, unsigned status, const char *why)
{
	r->status = status;
	r->why = why;
	return -EPROTO;
}

ssize_t
ws_tunnel_read_request(const char *data, size_t len, struct ws_tunnel_request *r)
{
	auto_free struct http1_head *h = NULL;
	size_t from = 0;
	ssize_t n = http1_find_end(data, len, &from);
	int status;

	*r = (struct ws_tunnel_request){.status = 400, .why = "no request of HTTP/1.1"};
	if (n == 0)
		return len < WS_TUNNEL_HEAD_MAX
			? 0
			: ws_tunnel_head_refuse(r, 431, "a head that is too large");
	if (n < 0)
		return -EPROTO;
	h = xcalloc(1, sizeof *h);
	status = http1_parse_request(h, data, (size_t)n);
	if (status != 0)
		return ws_tunnel_head_refuse(r, (unsigned)status, h->why);
	if (h->target.len > WS_TUNNEL_PATH_MAX)
		return ws_tunnel_head_refuse(r, 414, "a path that is too long");
	memcpy(r->path, h->target.at, h->target.len);
	r->status = wshake_judge(h, WS_TUNNEL_PROTOCOL, r->accept, &r->why);
	if (r->status != 0)
		return -EPROTO;
	return n;
}

void
ws_tunnel_accept(struct buf *out, const struct ws_tunnel_request *r)
{
	wshake_accept(out, WS_TUNNEL_PROTOCOL, r->accept);
}

void
ws_tunnel_refuse(struct buf *out, unsigned status, const char *why)
{
	buf_printf(out,
		"HTTP/1.1 %u %s\r\n%sConnection: close\r\nContent-Type: text/plain\r\n"
		"Content-Length: %zu\r\n\r\n%s\n",
		status, http1_reason((int)status),
		status == 426 ? "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" : "",
		strlen(why) + 1, why);
}
