/*
 * The server's side of a websocket's handshake (RFC 6455 section 4.2), for those who speak HTTP/1.1
 * by base/http/http1: is this request one for a websocket, and what answers it. Pure.
 *
 *	status = wshake_judge(&head, NULL, accept, &why);	// 0, or the status to refuse with
 *	wshake_accept(&out, NULL, accept);
 */
#ifndef EDGEWAY_BASE_HTTP_WSHAKE_H
#define EDGEWAY_BASE_HTTP_WSHAKE_H

#include "base/http/http1.h"

enum {
	WSHAKE_KEY_BYTES = 16, /* random; */
	WSHAKE_KEY_TEXT = 25, /* in base64, and NUL */
	WSHAKE_ACCEPT_TEXT = 29, /* a sha1 */
};

/* First field of that name in small letters, or NULL. */
const struct http1_field *wshake_find(const struct http1_head *h, const char *lowercase);
/* Is the word, in small letters, among the members of the field's list? NULL has none. */
bool wshake_lists(const struct http1_field *f, const char *lowercase);
/* Section 4.2.2, point 5.4: what a server says to a key. */
void wshake_accept_for(const char *key, size_t len, char accept[WSHAKE_ACCEPT_TEXT]);
/* protocol: a Sec-WebSocket-Protocol that the client must offer; NULL: none. *why is static. */
unsigned wshake_judge(const struct http1_head *h, const char *protocol,
	char accept[WSHAKE_ACCEPT_TEXT], const char **why);
/* Appends the answer with status 101. */
void wshake_accept(struct buf *out, const char *protocol, const char *accept);

#endif
