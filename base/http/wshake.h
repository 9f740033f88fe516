/*
 * The server side of the websocket handshake (RFC 6455 section 4.2), for code that reads HTTP/1.1
 * with base/http/http1: decides whether a request asks for a websocket, and writes the answer.
 * Pure.
 *
 *	status = wshake_judge(&head, NULL, accept, &why);	// 0, or the status to refuse with
 *	wshake_accept(&out, NULL, accept);
 */
#ifndef EDGEWAY_BASE_HTTP_WSHAKE_H
#define EDGEWAY_BASE_HTTP_WSHAKE_H

#include "base/http/http1.h"

enum {
	WSHAKE_KEY_BYTES = 16, /* random */
	WSHAKE_KEY_TEXT = 25, /* the key in base64, and NUL */
	WSHAKE_ACCEPT_TEXT = 29, /* a SHA-1 in base64, and NUL */
};

/* First field with that lower-case name, or NULL. */
const struct http1_field *wshake_find(const struct http1_head *h, const char *lowercase);
/* Is the lower-case word among the members of the field's list? f NULL: false. */
bool wshake_lists(const struct http1_field *f, const char *lowercase);
/* Section 4.2.2, point 5.4: the Sec-WebSocket-Accept for a key. */
void wshake_accept_for(const char *key, size_t len, char accept[WSHAKE_ACCEPT_TEXT]);
/* protocol: a Sec-WebSocket-Protocol that the client must offer; NULL: none. *why is static. */
unsigned wshake_judge(const struct http1_head *h, const char *protocol,
	char accept[WSHAKE_ACCEPT_TEXT], const char **why);
/* Appends the answer with status 101. */
void wshake_accept(struct buf *out, const char *protocol, const char *accept);

#endif
