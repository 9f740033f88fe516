/*
 * One direction of a connection made smaller as it passes: a byte says what follows, raw deflate
 * (RFC 1951, zlib level 1) or the bytes as they are. The sender looks at the first of them: what is
 * no text (TLS, what was compressed before) goes as it is, at no cost. Every write can be read
 * whole at the other end. Where text becomes something else later, stored blocks carry it, and
 * smaller ones are tried again now and then. Leaves; memory is bounded by DEFLATE_STREAM_BYTES and
 * EXPAND_BYTES.
 *
 *	struct deflate_stream *q = deflate_stream_new();
 *	deflate_stream_write(q, data, n, put, me);		// put is called with what is to be sent
 *	struct expand *x = expand_new();
 *	rc = expand_read(x, &data, &n, to, size);	// -EBADMSG: not made by deflate_stream_write
 */
#ifndef EDGEWAY_BASE_TLS_DEFLATE_STREAM_H
#define EDGEWAY_BASE_TLS_DEFLATE_STREAM_H

#include <sys/types.h>

#include "base/core/util.h"

struct deflate_stream;
struct expand;

enum {
	DEFLATE_STREAM_BYTES = 272 * 1024, /* of memory, while it squeezes */
	EXPAND_BYTES = 48 * 1024,
};

typedef void deflate_stream_put_fn(void *arg, const void *data, size_t n);

struct deflate_stream *deflate_stream_new(void);
void deflate_stream_free(struct deflate_stream **q);
void deflate_stream_write(struct deflate_stream *q, const void *data, size_t n,
	deflate_stream_put_fn *put, void *arg);
/* The memory that it takes now. */
size_t deflate_stream_memory(const struct deflate_stream *q);

struct expand *expand_new(void);
void expand_free(struct expand **x);
/* Takes from *data, *n of them, and moves both on; > 0: bytes put into `to`; 0: all that came is
 * told; -EBADMSG. */
ssize_t expand_read(struct expand *x, const void **data, size_t *n, void *to, size_t size);
/* There may be more to read without further input. */
bool expand_more(const struct expand *x);

#endif
