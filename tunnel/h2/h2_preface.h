/*
 * How a client of HTTP/2 with prior knowledge (RFC 9113 section 3.3) opens its connection: enough
 * of it to know whom it asks for, before anything is answered. Pure: bytes of strangers in, facts
 * out; hub/ingress/client_conn_h2.c calls it again when there are more.
 *
 *	switch (h2_preface_read(bytes, n, &o)) { case H2_PREFACE_ASKED: reach for o.authority
 *
 * A client may wait for the server's SETTINGS before it asks for anything (gRPC's do):
 * h2_preface_settings is what to send it then. It will be acknowledged; the server behind, which
 * has not sent that one, must not see the acknowledgement.
 */
#ifndef EDGEWAY_TUNNEL_H2_H2_PREFACE_H
#define EDGEWAY_TUNNEL_H2_H2_PREFACE_H

#include "base/core/buf.h"

enum {
	H2_PREFACE_AUTHORITY_MAX = 261, /* a DNS name, a colon and a port */
	H2_PREFACE_HEAD_MAX = 32 * 1024, /* of the first request's fields, compressed */
};

enum h2_preface_state {
	H2_PREFACE_NONE, /* not HTTP/2 */
	H2_PREFACE_MORE, /* not enough has come */
	H2_PREFACE_WAITS, /* the client's SETTINGS have come, and no request yet */
	H2_PREFACE_ASKED, /* the first request's fields are complete */
	H2_PREFACE_BAD,
};

struct h2_preface {
	char authority[H2_PREFACE_AUTHORITY_MAX + 1]; /* "" the request has none */
	uint32_t stream; /* of the first request */
	/* where the first acknowledgement of SETTINGS begins; SIZE_MAX: none has come */
	size_t ack_at;
};

enum { H2_PREFACE_FRAME_HEAD = 9 /* what an acknowledgement takes */ };

enum h2_preface_state h2_preface_read(const void *bytes, size_t n, struct h2_preface *out);
/* A server's first frame, with nothing but defaults. */
void h2_preface_settings(struct buf *to);
/* The answer to `stream` that ends it, and the connection: an HTTP status, and a reason as gRPC
 * knows it. settings: must the server's first frame yet come? */
void h2_preface_refuse(
	struct buf *to, uint32_t stream, unsigned status, const char *reason, bool settings);

#endif
