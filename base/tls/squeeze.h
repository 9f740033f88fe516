/*
 * One direction of a connection made smaller as it passes: a byte says what follows, raw deflate
 * (RFC 1951, zlib level 1) or the bytes as they are. The sender looks at the first of them: what is
 * no text (TLS, what was compressed before) goes as it is, at no cost. Every write can be read
 * whole at the other end. Where text becomes something else later, stored blocks carry it, and
 * smaller ones are tried again now and then. Leaves; memory is bounded by SQUEEZE_BYTES and
 * EXPAND_BYTES.
 *
 *	struct squeeze *q = squeeze_new();
 *	squeeze_write(q, data, n, put, me);		// put is called with what is to be sent
 *	struct expand *x = expand_new();
 *	rc = expand_read(x, &data, &n, to, size);	// -EBADMSG: not made by squeeze_write
 */
#ifndef EDGEWAY_BASE_TLS_SQUEEZE_H
#define EDGEWAY_BASE_TLS_SQUEEZE_H

#include <sys/types.h>

#include "base/core/util.h"

struct squeeze;
struct expand;

enum {
	SQUEEZE_BYTES = 272 * 1024, /* of memory, while it squeezes */
	EXPAND_BYTES = 48 * 1024,
};

typedef void squeeze_put_fn(void *arg, const void *data, size_t n);

struct squeeze *squeeze_new(void);
void squeeze_free(struct squeeze **q);
void squeeze_write(struct squeeze *q, const void *data, size_t n, squeeze_put_fn *put, void *arg);
/* The memory that it takes now. */
size_t squeeze_memory(const struct squeeze *q);

struct expand *expand_new(void);
void expand_free(struct expand **x);
/* Takes from *data, *n of them, and moves both on; > 0: bytes put into `to`; 0: all that came is
 * told; -EBADMSG. */
ssize_t expand_read(struct expand *x, const void **data, size_t *n, void *to, size_t size);
/* There may be more to read without further input. */
bool expand_more(const struct expand *x);

#endif
