/*
 * Parses the start of an HTTP/2 connection with prior knowledge (RFC 9113 section 3.3), as far as
 * needed to learn which authority the client asks for before anything is answered. Pure: untrusted
 * bytes in, facts out; hub/ingress/client_conn_h2.c calls it again when more bytes have come, and
 * goes on where it was, so that bytes that come one by one cost no more than all at once.
 *
 *	struct h2_preface o = {0};
 *	switch (h2_preface_read(bytes, n, &o)) { case H2_PREFACE_ASKED: reach for o.authority
 *
 * A client may wait for the server's SETTINGS before it sends a request (gRPC clients do);
 * h2_preface_settings makes the SETTINGS to send then. The client will acknowledge them; the server
 * behind the hub did not send them and must not see that acknowledgement.
 */
#ifndef EDGEWAY_BASE_HTTP_H2_PREFACE_H
#define EDGEWAY_BASE_HTTP_H2_PREFACE_H

#include "base/core/buf.h"

enum {
	H2_PREFACE_AUTHORITY_MAX = 261, /* a DNS name, a colon and a port */
	H2_PREFACE_HEAD_MAX = 32 * 1024, /* of the first request's header block, compressed */
};

enum h2_preface_state {
	H2_PREFACE_NONE, /* not HTTP/2 */
	H2_PREFACE_MORE, /* not enough has come */
	H2_PREFACE_WAITS, /* the client's SETTINGS have come, and no request yet */
	H2_PREFACE_ASKED, /* the header fields of the first request are complete */
	H2_PREFACE_BAD,
};

struct h2_preface {
	char authority[H2_PREFACE_AUTHORITY_MAX + 1]; /* "": the request has none */
	uint32_t stream; /* of the first request */
	size_t ack_at; /* offset of the first SETTINGS acknowledgement; 0: none has come */
	/* how far it was read: offsets of the first frame that was incomplete, and of the HEADERS
	 * of the first request; the fields of that are complete */
	size_t at, head_at;
	bool whole;
};

enum { H2_PREFACE_FRAME_HEAD = 9 /* size of an acknowledgement */ };

/* bytes: all that have come. o: zeroed at first, then as the last call has left it. */
enum h2_preface_state h2_preface_read(const void *bytes, size_t n, struct h2_preface *o);
/* The server's first frame: SETTINGS with default values only. */
void h2_preface_settings(struct buf *to);
/* Answers `stream` so that it and the connection end: an HTTP status, and a reason in gRPC's form.
 * settings: true if the server's first SETTINGS frame has not been sent yet. */
void h2_preface_refuse(
	struct buf *to, uint32_t stream, unsigned status, const char *reason, bool settings);

#endif
