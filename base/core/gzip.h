/*
 * Compression for the wire: zlib (RFC 1950) in base64 (RFC 4648 section 4, padded), so that the
 * result can stand in a JSON text; and streamed gzip. Leaves. The output buffer's limit bounds what
 * a peer's text may expand to.
 *
 *	gzip_text(&out, data, len);
 *	buf_init(&plain, limit);
 *	rc = unpack_text(&plain, text, text_len, &err);
 */
#ifndef EDGEWAY_BASE_CORE_GZIP_H
#define EDGEWAY_BASE_CORE_GZIP_H

#include "base/core/buf.h"
#include "base/core/err.h"

/* Compresses and appends; `out` must be unlimited. */
void gzip_text(struct buf *out, const void *data, size_t len);
/* Plain gzip (RFC 1952) without base64, for Content-Encoding, of input that arrives in pieces: each
 * call appends what is ready, gzip_end the rest. `about`: the expected total size in bytes, as far
 * as it is known. */
struct gzip;
struct gzip *gzip_new(size_t about);
void gzip_add(struct gzip *g, struct buf *out, const void *data, size_t len);
void gzip_end(struct gzip **g, struct buf *out);
void gzip_free(struct gzip **g);
/* Expands and appends. -EMSGSIZE: more than the limit of `out` (which may then be filled up to it),
 * -EBADMSG: not a text that gzip_text makes. */
int unpack_text(struct buf *out, const char *text, size_t len, struct err *err);

#endif
