/*
 * A byte queue in pieces: new bytes are appended at the end, sent bytes are removed from the front,
 * and nothing in between ever moves, however long the queue is. It takes at most twice the memory
 * of its content, and none while it is empty. Plain data that its owner holds; it has no limit of
 * its own (the windows are the limit). Chains of one thread may share a few spare pieces, so that
 * bulk transfers do not get memory from the kernel and return it each time. Not thread-safe.
 *
 * A whole piece is as large as a TLS record. In front of each byte there are CHAIN_HEADROOM bytes
 * that are free by the time the byte is sent: the frame header goes there, so header and payload
 * are written together without a copy. A piece that was filled elsewhere can be given to a chain
 * without a copy (chain_take).
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
	CHAIN_HEADROOM = 9, /* frame header, RFC 9113 section 4.1 */
	CHAIN_PIECE = TLS_RECORD_BYTES, /* a whole piece, including its headroom */
	CHAIN_MOST = 8, /* pieces that one call reserves or returns */
};

struct piece;

struct spare { /* whole pieces kept for reuse; all zero: none */
	struct piece *first;
	unsigned n;
};

struct chain {
	struct spare *spare; /* NULL: not shared */
	struct piece *first, *last;
	size_t len; /* total bytes */
	/* log2 of the number of pieces reserved next: grows while they are filled */
	unsigned ahead;
};

void chain_add(struct chain *c, const void *data, size_t n);
/* chain_reserve fills v (CHAIN_MOST entries) with free space for at most `want` bytes, at least
 * one, and returns the number of entries. chain_commit then says how many bytes were written there.
 * No other call on the chain may come in between. */
int chain_reserve(struct chain *c, size_t want, struct iovec *v);
void chain_commit(struct chain *c, size_t n);
/* Start and length of the first piece; 0: the chain is empty. */
size_t chain_peek(const struct chain *c, const void **data);
/* The same for the first pieces, at most CHAIN_MOST; returns how many. */
int chain_peek_all(const struct chain *c, struct iovec *v);
/* n <= len. */
void chain_consume(struct chain *c, size_t n);
/* Empty afterwards; may be used again. */
void chain_fini(struct chain *c);

/* A whole piece of CHAIN_PIECE bytes to read into. */
struct piece *piece_new(struct spare *s);
void *piece_bytes(struct piece *p);
void piece_drop(struct spare *s, struct piece **p);
/* Appends the n bytes at `from` inside the piece, without a copy. The chain takes the piece
 * over. */
void chain_take(struct chain *c, struct piece **p, const void *from, size_t n);
/* Frees the spare pieces. */
void spare_release(struct spare *s);

#endif
