/*
 * One end of a websocket after its handshake (RFC 6455), whose binary messages together form a byte
 * stream; based on libwslay. Pure: bytes in, bytes out, no I/O, no clock. A client's frames must be
 * masked and a server's not. Wrong masking, a text message, a message above WSFRAME_MESSAGE_MAX, or
 * any other violation is refused: wsframe_emit then gives a close frame with the code, or one
 * without a code where not even the frame's header is valid. A header is checked once a byte of its
 * payload has arrived. wsframe_emit also answers pings. A leaf; takes untrusted bytes.
 *
 *	struct wsframe *f = wsframe_new(true);		// we are the client
 *	wsframe_put(f, data, n, &out);			// as binary frames
 *	rc = wsframe_take(f, bytes, n, &in);		// payload of what came
 *	wsframe_emit(f, &out);				// pongs, close frames
 */
#ifndef EDGEWAY_BASE_HTTP_WSFRAME_H
#define EDGEWAY_BASE_HTTP_WSFRAME_H

#include "base/core/buf.h"

enum {
	/* Payload of the frames that we make; with its header (8 bytes when masked) a frame fills a
	 * TLS record. */
	WSFRAME_PAYLOAD = 16 * 1024 - 8,
	/* Limit of a received message: middleboxes may merge or split our frames. */
	WSFRAME_MESSAGE_MAX = 64 * 1024,
};

enum wsframe_code { /* section 7.4.1 */
	WSFRAME_NORMAL = 1000,
	WSFRAME_LEAVING = 1001,
	WSFRAME_PROTOCOL = 1002,
	WSFRAME_TEXT = 1003,
	WSFRAME_POLICY = 1008,
	WSFRAME_TOO_BIG = 1009,
};

struct wsframe;

struct wsframe *wsframe_new(bool client);
void wsframe_free(struct wsframe **f);
/* Appends payload to `in`, which is unlimited: never more than n bytes. 0; 1: the peer has closed
 * (wsframe_closed), later bytes are ignored; -EPROTO: refused (wsframe_closed), all later input is
 * ignored. */
int wsframe_take(struct wsframe *f, const void *data, size_t n, struct buf *in);
/* Appends binary frames; nothing after a close frame was made. */
void wsframe_put(struct wsframe *f, const void *data, size_t n, struct buf *out);
void wsframe_ping(struct wsframe *f);
/* Only the first call has an effect. */
void wsframe_close(struct wsframe *f, enum wsframe_code code);
/* Appends control frames (pings, pongs, close). */
void wsframe_emit(struct wsframe *f, struct buf *out);
/* Code of the peer's close frame (1005: it has none), or the code with which we refused. */
unsigned wsframe_closed(const struct wsframe *f);
/* The meaning of the peer's close code in words; static. */
const char *wsframe_words(unsigned code);

#endif
