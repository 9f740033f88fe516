/*
 * Bytes that wait, in pieces: what comes is put behind, what has gone leaves in front, and nothing ever moves in between, however
 * much waits. Takes at most twice the memory of what it holds, and none while it is empty. Plain data of its owner's; no
 * limit of its own (windows are the limit). Chains of one thread may share a few spare pieces, so that bulk does not take
 * its memory from the kernel and give it back each time. Not thread-safe.
 *
 *	struct chain c = {0};
 *	chain_add(&c, data, n);
 *	n = chain_peek(&c, &data);	// the first piece
 *	chain_consume(&c, sent);
 *	chain_fini(&c);
 */
#ifndef EDGEWAY_TUNNEL_CHAIN_H
#define EDGEWAY_TUNNEL_CHAIN_H

#include "base/util.h"

struct piece;

struct spare { /* large pieces that wait for another use; all zero: none */
	struct piece *first;
	unsigned n;
};

struct chain {
	struct spare *spare; /* NULL: shares nothing */
	struct piece *first, *last;
	size_t len; /* bytes in all */
	unsigned grow; /* log2 of how much more than usual the next piece holds */
};

void chain_add(struct chain *c, const void *data, size_t n);
/* Where bytes may be put, *room of them, at most `want` and at least one; then how many were. Nothing in between. */
void *chain_reserve(struct chain *c, size_t want, size_t *room);
void chain_commit(struct chain *c, size_t n);
/* Start and length of what comes first; 0: empty. */
size_t chain_peek(const struct chain *c, const void **data);
/* n <= len. */
void chain_consume(struct chain *c, size_t n);
/* Empty afterwards; may be used again. */
void chain_fini(struct chain *c);
/* Gives back what is spare. */
void spare_release(struct spare *s);

#endif
