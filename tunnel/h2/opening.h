/*
 * How a client of HTTP/2 with prior knowledge (RFC 9113 section 3.3) opens its connection: enough
 * of it to know whom it asks for, before anything is answered. Pure: bytes of strangers in, facts
 * out; hub/ingress/visit_h2.c calls it again when there are more.
 *
 *	switch (opening_read(bytes, n, &o)) { case OPENING_ASKED: reach for o.authority
 *
 * A client may wait for the server's SETTINGS before it asks for anything (gRPC's do):
 * opening_settings is what to send it then. It will be acknowledged; the server behind, which has
 * not sent that one, must not see the acknowledgement.
 */
#ifndef EDGEWAY_TUNNEL_H2_OPENING_H
#define EDGEWAY_TUNNEL_H2_OPENING_H

#include "base/core/buf.h"

enum {
	OPENING_AUTHORITY_MAX = 261, /* a DNS name, a colon and a port */
	OPENING_HEAD_MAX = 32 * 1024, /* of the first request's fields, compressed */
};

enum opening_state {
	OPENING_NONE, /* not HTTP/2 */
	OPENING_MORE, /* not enough has come */
	OPENING_WAITS, /* the client's SETTINGS have come, and no request yet */
	OPENING_ASKED, /* the first request's fields are complete */
	OPENING_BAD,
};

struct opening {
	char authority[OPENING_AUTHORITY_MAX + 1]; /* "" the request has none */
	uint32_t stream; /* of the first request */
	/* where the first acknowledgement of SETTINGS begins; SIZE_MAX: none has come */
	size_t ack_at;
};

enum { OPENING_FRAME_HEAD = 9 /* what an acknowledgement takes */ };

enum opening_state opening_read(const void *bytes, size_t n, struct opening *out);
/* A server's first frame, with nothing but defaults. */
void opening_settings(struct buf *to);
/* The answer to `stream` that ends it, and the connection: an HTTP status, and a reason as gRPC
 * knows it. settings: must the server's first frame yet come? */
void opening_refuse(
	struct buf *to, uint32_t stream, unsigned status, const char *reason, bool settings);

#endif
