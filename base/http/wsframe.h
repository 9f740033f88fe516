/*
 * One end of a websocket after its handshake (RFC 6455), whose binary messages together are a
 * stream of bytes; libwslay behind it. Pure: bytes in, bytes out, no I/O, no clock. Frames of a
 * client are masked and those of a server are not, and what says otherwise, a text, a message above
 * WSFRAME_MESSAGE_MAX, or anything else against the rules is refused: a close frame with the code
 * is what wsframe_emit gives then, or one without a code where not even the frame's head makes
 * sense. A head counts once a byte of its payload is there. Pings are answered by wsframe_emit. A
 * leaf, fed with bytes of strangers.
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
	/* Payload of the frames that we make; with its head (8 bytes masked) one fills a TLS
	 * record. */
	WSFRAME_PAYLOAD = 16 * 1024 - 8,
	/* Of a message that comes: what is on the way may put our frames together, or cut them. */
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
/* Payload is appended to `in`, which is unlimited: never more than n bytes. 0; 1: the other end has
 * closed (wsframe_closed), what comes after it is passed over; -EPROTO: refused (wsframe_closed),
 * nothing of what comes counts any more. */
int wsframe_take(struct wsframe *f, const void *data, size_t n, struct buf *in);
/* Appends binary frames. After a close frame was made nothing is. */
void wsframe_put(struct wsframe *f, const void *data, size_t n, struct buf *out);
void wsframe_ping(struct wsframe *f);
/* The first one counts. */
void wsframe_close(struct wsframe *f, enum wsframe_code code);
/* Appends what is to be said and is no payload. */
void wsframe_emit(struct wsframe *f, struct buf *out);
/* Code of the other end's close frame (1005: it says none), or that with which it was refused. */
unsigned wsframe_closed(const struct wsframe *f);
/* What such a code says of the other end, in words; static. */
const char *wsframe_words(unsigned code);

#endif
