/*
 * Bytes that wait, in pieces: what comes is put behind, what has gone leaves in front, and nothing
 * ever moves in between, however much waits. Takes at most twice the memory of what it holds, and
 * none while it is empty. Plain data of its owner's; no limit of its own (windows are the limit).
 * Chains of one thread may share a few spare pieces, so that bulk does not take its memory from the
 * kernel and give it back each time. Not thread-safe.
 *
 * A whole piece is as large as a TLS record, and each byte has CHAIN_HEADROOM bytes in front of it
 * that are nobody's any more: the head of a frame goes there, and head and bytes leave together
 * without being copied. What was read into a piece elsewhere can be handed to a chain with the
 * piece (chain_take).
 *
 *	struct chain c = {0};
 *	chain_add(&c, data, n);
 *	n = chain_peek(&c, &data);	// the first piece
 *	chain_consume(&c, sent);
 *	chain_fini(&c);
 */
#ifndef EDGEWAY_TUNNEL_H2_CHAIN_H
#define EDGEWAY_TUNNEL_H2_CHAIN_H

#include <sys/uio.h>

#include "base/core/util.h"
#include "base/tls/tls_stream.h"

enum {
	CHAIN_HEADROOM = 9, /* the head of a frame, RFC 9113 section 4.1 */
	CHAIN_PIECE = TLS_RECORD_BYTES, /* a whole piece, its headroom included */
	CHAIN_MOST = 8, /* pieces that are reserved or looked at in one go */
};

struct piece;

struct spare { /* whole pieces that wait for another use; all zero: none */
	struct piece *first;
	unsigned n;
};

struct chain {
	struct spare *spare; /* NULL: shares nothing */
	struct piece *first, *last;
	size_t len; /* bytes in all */
	unsigned ahead; /* log2 of how many pieces are reserved next: more while they are filled */
};

void chain_add(struct chain *c, const void *data, size_t n);
/* Where at most `want` bytes may be put, at least one: fills v, of CHAIN_MOST, and says how many;
 * then how many bytes were. Nothing in between. */
int chain_reserve(struct chain *c, size_t want, struct iovec *v);
void chain_commit(struct chain *c, size_t n);
/* Start and length of what comes first; 0: empty. */
size_t chain_peek(const struct chain *c, const void **data);
/* The same of the first CHAIN_MOST pieces at most: how many. */
int chain_peek_all(const struct chain *c, struct iovec *v);
/* n <= len. */
void chain_consume(struct chain *c, size_t n);
/* Empty afterwards; may be used again. */
void chain_fini(struct chain *c);

/* A whole piece, to read into; CHAIN_PIECE bytes. */
struct piece *piece_new(struct spare *s);
void *piece_bytes(struct piece *p);
void piece_drop(struct spare *s, struct piece **p);
/* Of a piece that was read into, n bytes at `from`, without a copy. The piece is the chain's. */
void chain_take(struct chain *c, struct piece **p, const void *from, size_t n);
/* Gives back what is spare. */
void spare_release(struct spare *s);

#endif
