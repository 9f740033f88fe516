/*
 * Body bytes on their way from one socket to another: decoded, re-framed, and gathered into as few
 * writes as possible. Lives on the stack during one call; nothing is copied unless the socket does
 * not take it, but for small chunks that came together: those are put together to larger ones.
 */
#ifndef EDGEWAY_LB_GATHER_H
#define EDGEWAY_LB_GATHER_H

#include "base/http/http1.h"
#include "lb/peer.h"

enum {
	GATHER_IOV = 48,
	GATHER_CHUNKS = 16,
	GATHER_SMALL = 512, /* pieces below that are copied */
	GATHER_MERGED = 8192,
};

struct gather {
	struct peer *to; /* NULL: everything is dropped */
	int rc; /* of the first write that failed, else 0 */
	int n;
	unsigned n_chunks;
	uint64_t payload; /* bytes */
	struct iovec iov[GATHER_IOV];
	char chunks[GATHER_CHUNKS][HTTP1_CHUNK_HEAD];
	size_t merged_from,
		merged; /* of `small`: what waits to become a chunk; before it is what is in iov */
	char small[GATHER_MERGED];
};

void gather_init(struct gather *g, struct peer *to);
void gather_add(struct gather *g, const void *data, size_t len);
/* Takes from data what belongs to the body; *used bytes. HTTP1_MORE, HTTP1_DONE or HTTP1_BAD. */
enum http1_got gather_body(struct gather *g, struct http1_body *body, bool chunked_out,
	const char *data, size_t len, size_t *used);
/* Writes what is left. 0 or -errno of any write so far. */
int gather_flush(struct gather *g);

#endif
