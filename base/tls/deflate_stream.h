/*
 * Compresses one direction of a connection on the fly. A leading byte says what follows: raw
 * deflate (RFC 1951, zlib level 1) or plain bytes. The sender examines the first bytes: what is not
 * text (TLS, compressed data) passes unchanged, at no cost. The peer can read every write
 * completely at once. If text later turns into something else, stored blocks carry it, and
 * compression is retried from time to time. Leaves; memory is bounded by DEFLATE_STREAM_BYTES and
 * EXPAND_BYTES.
 *
 *	struct deflate_stream *q = deflate_stream_new();
 *	deflate_stream_write(q, data, n, put, me);	// calls put with bytes to send
 *	struct expand *x = expand_new();
 *	rc = expand_read(x, &data, &n, to, size);	// -EBADMSG: not such a stream
 */
#ifndef EDGEWAY_BASE_TLS_DEFLATE_STREAM_H
#define EDGEWAY_BASE_TLS_DEFLATE_STREAM_H

#include <sys/types.h>

#include "base/core/util.h"

struct deflate_stream;
struct expand;

enum {
	DEFLATE_STREAM_BYTES = 272 * 1024, /* of memory, while it compresses */
	EXPAND_BYTES = 48 * 1024,
};

typedef void deflate_stream_put_fn(void *arg, const void *data, size_t n);

struct deflate_stream *deflate_stream_new(void);
void deflate_stream_free(struct deflate_stream **q);
void deflate_stream_write(struct deflate_stream *q, const void *data, size_t n,
	deflate_stream_put_fn *put, void *arg);
/* The memory that it uses now. */
size_t deflate_stream_memory(const struct deflate_stream *q);

struct expand *expand_new(void);
void expand_free(struct expand **x);
/* Consumes from the *n bytes at *data and advances both; > 0: bytes put into `to`; 0: all input is
 * expanded; -EBADMSG. */
ssize_t expand_read(struct expand *x, const void **data, size_t *n, void *to, size_t size);
/* Can expand_read give more without further input? */
bool expand_more(const struct expand *x);

#endif
