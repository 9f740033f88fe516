/*
 * Datagrams as bytes of a stream: capsules of RFC 9297 (type, length, value; numbers as in QUIC,
 * RFC 9000 section 16), of which a datagram of UDP is type 0 with the context 0 in front of it (RFC
 * 9298 section 5). Other types and contexts are passed over, as these documents want it. Pure; a
 * reader holds memory only while a datagram has come in part.
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
	CAPSULE_HEAD_MAX = 24, /* three numbers */
	DATAGRAM_MAX = 65527, /* payload of UDP, RFC 9298 section 5 */
};

enum capsule_result {
	CAPSULE_MORE, /* all was taken; the next datagram is not whole yet */
	CAPSULE_DATAGRAM,
	CAPSULE_BAD, /* no capsules: nothing more can be read */
};

struct capsule_reader {
	uint8_t head[CAPSULE_HEAD_MAX]; /* what has come of it */
	uint8_t n_head;
	uint8_t state;
	uint64_t left; /* of the datagram, or of what is passed over */
	struct buf body; /* of a datagram that came in pieces */
};

struct capsule_datagram {
	const void *data;
	size_t len;
};

/* What stands before a datagram of `len` <= DATAGRAM_MAX bytes; how many bytes it takes. */
size_t capsule_head(uint8_t to[CAPSULE_HEAD_MAX], size_t len);
/* Takes bytes from *data, *n, which are moved on. */
enum capsule_result capsule_read(
	struct capsule_reader *r, const void **data, size_t *n, struct capsule_datagram *out);
void capsule_fini(struct capsule_reader *r);

#endif
