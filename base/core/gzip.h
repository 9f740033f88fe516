/*
 * Bytes made small for the wire: zlib (RFC 1950) in base64 (RFC 4648 section 4, padded), so that
 * the result can stand in a JSON text. Leaves; what comes from a peer is bounded by the buffer that
 * it goes into.
 *
 *	gzip_text(&out, data, len);
 *	buf_init(&plain, limit);
 *	rc = unpack_text(&plain, text, text_len, &err);
 */
#ifndef EDGEWAY_BASE_CORE_GZIP_H
#define EDGEWAY_BASE_CORE_GZIP_H

#include "base/core/buf.h"
#include "base/core/err.h"

/* Appends; `out` must be unlimited. */
void gzip_text(struct buf *out, const void *data, size_t len);
/* The same as gzip (RFC 1952) has it, and without base64 (Content-Encoding), of what comes piece by
 * piece: each call appends what is ready, the last one the rest. `about`: how many bytes there will
 * be in all, as far as that is known. */
struct gzip;
struct gzip *gzip_new(size_t about);
void gzip_add(struct gzip *g, struct buf *out, const void *data, size_t len);
void gzip_end(struct gzip **g, struct buf *out);
void gzip_free(struct gzip **g);
/* Appends. -EMSGSIZE: more than the limit of `out` (it was filled up to there at most), -EBADMSG:
 * no such text. */
int unpack_text(struct buf *out, const char *text, size_t len, struct err *err);

#endif
