/*
 * Body bytes on their way from one socket to another: decoded, re-framed, and collected into as few
 * writes as possible. Lives on the stack during one call. Nothing is copied unless the socket does
 * not take it, except small chunks that arrive together, which are merged into larger ones.
 */
#ifndef EDGEWAY_LB_CONN_GATHER_H
#define EDGEWAY_LB_CONN_GATHER_H

#include "base/http/http1.h"
#include "lb/conn/peer.h"

enum {
	GATHER_IOV = 48,
	GATHER_CHUNKS = 16,
	GATHER_SMALL = 512, /* smaller pieces are copied */
	GATHER_MERGED = 8192,
};

struct gather {
	struct peer *to; /* NULL: discard everything */
	int rc; /* of the first failed write, else 0 */
	int n;
	unsigned n_chunks;
	uint64_t payload; /* bytes */
	struct iovec iov[GATHER_IOV];
	char chunks[GATHER_CHUNKS][HTTP1_CHUNK_HEAD];
	size_t merged_from,
		/* positions in `small`: what waits to become a chunk; what precedes it is in iov */
		merged;
	char small[GATHER_MERGED];
};

void gather_init(struct gather *g, struct peer *to);
void gather_add(struct gather *g, const void *data, size_t len);
/* Takes the part of data that belongs to the body and sets *used to its bytes. Returns HTTP1_MORE,
 * HTTP1_DONE or HTTP1_BAD. */
enum http1_got gather_body(struct gather *g, struct http1_body *body, bool chunked_out,
	const char *data, size_t len, size_t *used);
/* Writes what is left. Returns 0, or -errno of any write so far. */
int gather_flush(struct gather *g);

#endif
