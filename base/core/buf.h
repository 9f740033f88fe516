/*
 * A byte buffer with a hard limit: bytes enter at the end and leave at the front. Grows by doubling
 * up to `limit`, then refuses. Plain data; the owner calls buf_fini. Not thread-safe.
 *
 *	struct buf b;
 *	buf_init(&b, 64 * 1024);
 *	n = buf_read(&b, fd, 16384);	// >0, 0 at EOF, -errno (-EAGAIN, -ENOBUFS: full)
 *	buf_consume(&b, parsed);
 *	buf_fini(&b);
 */
#ifndef EDGEWAY_BASE_CORE_BUF_H
#define EDGEWAY_BASE_CORE_BUF_H

#include <string.h>

#include "base/core/util.h"

struct buf {
	char *data;
	size_t start; /* first unread byte */
	size_t end; /* one past the last */
	size_t size; /* allocated */
	size_t limit; /* most bytes ever held; 0: unlimited */
};

#define BUF_UNLIMITED ((size_t)0)
#define auto_buf __attribute__((cleanup(buf_fini)))

void buf_init(struct buf *b, size_t limit);
void buf_fini(struct buf *b);
/* Give back the memory of an empty buffer; keeps the limit. */
void buf_release(struct buf *b);

static inline size_t
buf_len(const struct buf *b)
{
	return b->end - b->start;
}

/* NULL when nothing was ever put in. */
static inline char *
buf_at(const struct buf *b)
{
	return b->data != NULL ? b->data + b->start : NULL; /* no arithmetic on NULL */
}

/* Room for n more bytes at the end: pointer to write to, or NULL when the limit forbids it. */
char *buf_reserve(struct buf *b, size_t n);
void buf_commit(struct buf *b, size_t n);
void buf_consume(struct buf *b, size_t n);
/* 0, or -ENOBUFS with the buffer unchanged. */
int buf_add(struct buf *b, const void *data, size_t n);
int buf_adds(struct buf *b, const char *s);
int buf_printf(struct buf *b, const char *fmt, ...) printf_like(2, 3);
/* Appends seconds since 1970 as 2026-11-21T06:00:00Z. */
int buf_add_utc(struct buf *b, int64_t seconds);
/* The content followed by a NUL (not counted in buf_len); "" for an empty buffer. */
const char *buf_str(struct buf *b);
/* The content as a heap string, which the caller owns; the buffer is empty afterwards. */
char *buf_take_str(struct buf *b);
/* Non-blocking read and write of a descriptor, at most `most` bytes; results as above. EINTR is
 * retried. */
ssize_t buf_read(struct buf *b, int fd, size_t most);
ssize_t buf_write(struct buf *b, int fd);

#endif
