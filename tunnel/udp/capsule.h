/*
 * Encodes datagrams into the bytes of a stream and back: capsules of RFC 9297 (type, length, value;
 * integers as in QUIC, RFC 9000 section 16). A UDP datagram has type 0 and starts with the context
 * 0 (RFC 9298 section 5). Other types and contexts are skipped, as these documents require. Pure; a
 * reader holds memory only while a datagram is incomplete.
 *
 *	n = capsule_head(head, len);	// then n bytes of head and len of the datagram go into the stream
 *
 *	struct capsule_reader r = {0};
 *	while ((result = capsule_read(&r, &data, &n, &got)) == CAPSULE_DATAGRAM)
 *		use(got.data, got.len);	// good until the next capsule_read, and as long as `data` is
 *	capsule_fini(&r);
 */
#ifndef EDGEWAY_TUNNEL_UDP_CAPSULE_H
#define EDGEWAY_TUNNEL_UDP_CAPSULE_H

#include "base/core/buf.h"

enum {
	CAPSULE_HEAD_MAX = 24, /* three integers */
	DATAGRAM_MAX = 65527, /* UDP payload, RFC 9298 section 5 */
};

enum capsule_result {
	CAPSULE_MORE, /* all input was consumed; the next datagram is incomplete */
	CAPSULE_DATAGRAM,
	CAPSULE_BAD, /* not a capsule: nothing more can be read */
};

struct capsule_reader {
	uint8_t head[CAPSULE_HEAD_MAX]; /* header bytes received so far */
	uint8_t n_head;
	uint8_t state;
	uint64_t left; /* bytes left of the datagram, or of a skipped capsule */
	struct buf body; /* a datagram that arrives in pieces */
	uint64_t dropped; /* sum of what capsules of capsule_dropped say */
};

struct capsule_datagram {
	const void *data;
	size_t len;
};

/* Writes the header of a datagram of `len` <= DATAGRAM_MAX bytes; returns its size. */
size_t capsule_head(uint8_t to[CAPSULE_HEAD_MAX], size_t len);
/* Writes a whole capsule, of a type of our own: so many datagrams were dropped on their way. */
size_t capsule_dropped(uint8_t to[CAPSULE_HEAD_MAX], uint64_t n);
/* Consumes bytes from *data, *n, and advances both. */
enum capsule_result capsule_read(
	struct capsule_reader *r, const void **data, size_t *n, struct capsule_datagram *out);
void capsule_fini(struct capsule_reader *r);

#endif
