/*
 * The handshake of a websocket tunnel (RFC 6455 section 4): writes and reads the client's request
 * and the server's answer. Pure; leaves of base/http/ws_tunnels and of the hub; takes untrusted
 * bytes.
 *
 *	ws_tunnel_ask(&out, "hub.example", "/path", key);
 *	n = ws_tunnel_read_answer(buf_at(&in), buf_len(&in), key, &answer);	// -EPROTO: why
 */
#ifndef EDGEWAY_BASE_HTTP_WS_TUNNEL_HEAD_H
#define EDGEWAY_BASE_HTTP_WS_TUNNEL_HEAD_H

#include <sys/types.h>

#include "base/http/wshake.h"

/* The subprotocol (Sec-WebSocket-Protocol; it may not contain a slash). */
#define WS_TUNNEL_PROTOCOL "edgeway-carrier.1"

enum {
	WS_TUNNEL_HEAD_MAX = 8 * 1024,
	WS_TUNNEL_PATH_MAX = 511,
	WS_TUNNEL_WHY_MAX = 320,
};

/* host: as in the Host field. `key` is filled in. */
void ws_tunnel_ask(struct buf *out, const char *host, const char *path, char key[WSHAKE_KEY_TEXT]);

struct ws_tunnel_answer {
	unsigned status; /* 0: it could not be read */
	char why[WS_TUNNEL_WHY_MAX]; /* what is wrong, and the remedy */
};

/* Length of a head that accepts; 0: it is incomplete; -EPROTO: see answer->why. */
ssize_t ws_tunnel_read_answer(const char *data, size_t len, const char key[WSHAKE_KEY_TEXT],
	struct ws_tunnel_answer *answer);

struct ws_tunnel_request {
	char path[WS_TUNNEL_PATH_MAX + 1];
	char accept[WSHAKE_ACCEPT_TEXT];
	unsigned status; /* to refuse with */
	const char *why; /* static */
};

/* Length of a valid head; 0: it is incomplete; -EPROTO: see request->status. */
ssize_t ws_tunnel_read_request(const char *data, size_t len, struct ws_tunnel_request *request);
/* Status 101, or a refusal after which the connection ends. */
void ws_tunnel_accept(struct buf *out, const struct ws_tunnel_request *request);
void ws_tunnel_refuse(struct buf *out, unsigned status, const char *why);

#endif
