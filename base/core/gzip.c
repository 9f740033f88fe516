#include "base/core/gzip.h"

#include <assert.h>
#include <errno.h>

#include <zlib.h>

#include "base/core/base64.h"

enum {
	LEVEL = 3, /* bench/RESULTS.md, "Compression" */
	WINDOW_LEAST = 9, /* bits; zlib's minimum */
	PIECE = 16 * 1024,
	KIND_ZLIB = 0,
	KIND_GZIP = 16,
};

/* zlib's tables for the default window are 256 KiB, and cost more to clear than a few lines to
 * compress. `kind`: the format flag that zlib adds to the window bits. */
static int
start_deflate(z_stream *z, size_t len, int kind)
{
	int bits = WINDOW_LEAST;

	while (bits < MAX_WBITS && (size_t)1 << bits < len)
		bits++;
	return deflateInit2(
		z, LEVEL, Z_DEFLATED, bits + kind, bits - WINDOW_LEAST + 2, Z_DEFAULT_STRATEGY);
}

void
gzip_text(struct buf *out, const void *data, size_t len)
{
	auto_free unsigned char *packed = NULL;
	z_stream z = {0};
	int rc = start_deflate(&z, len, KIND_ZLIB);

	assert(rc == Z_OK && len <= UINT32_MAX);
	z.avail_out = (uInt)deflateBound(&z, (uLong)len);
	packed = xmalloc(z.avail_out);
	z.next_out = packed;
	z.next_in = (unsigned char *)(uintptr_t)data;
	z.avail_in = (uInt)len;
	rc = deflate(&z, Z_FINISH);
	assert(rc == Z_STREAM_END);
	base64_add(out, packed, z.total_out);
	deflateEnd(&z);
}

/* --- streamed gzip -------------------------------------------------------------------------- */

struct gzip {
	z_stream z;
};

struct gzip *
gzip_new(size_t about)
{
	struct gzip *g = xcalloc(1, sizeof *g);
	int rc = start_deflate(&g->z, about, KIND_GZIP);

	assert(rc == Z_OK);
	return g;
}

static void
deflate_into(struct gzip *g, struct buf *out, int flush)
{
	unsigned char piece[PIECE];
	int rc;

	do {
		g->z.next_out = piece;
		g->z.avail_out = sizeof piece;
		rc = deflate(&g->z, flush);
		assert(rc == Z_OK || rc == Z_STREAM_END || rc == Z_BUF_ERROR);
		buf_add(out, piece, sizeof piece - g->z.avail_out);
	} while (g->z.avail_out == 0);
	assert(g->z.avail_in == 0 && (flush != Z_FINISH || rc == Z_STREAM_END));
}

void
gzip_add(struct gzip *g, struct buf *out, const void *data, size_t len)
{
	assert(len <= UINT32_MAX);
	g->z.next_in = (unsigned char *)(uintptr_t)data;
	g->z.avail_in = (uInt)len;
	if (len > 0)
		deflate_into(g, out, Z_NO_FLUSH);
}

void
gzip_end(struct gzip **out, struct buf *to)
{
	deflate_into(*out, to, Z_FINISH);
	gzip_free(out);
}

void
gzip_free(struct gzip **out)
{
	struct gzip *g = take_ptr(out);

	if (g == NULL)
		return;
	deflateEnd(&g->z);
	free(g);
}

/* --- expanding ------------------------------------------------------------------------------ */

/* Expands the input that zlib has. 0: it needs more, 1: end of stream. */
static int
inflate_piece(z_stream *z, struct buf *out, struct err *err)
{
	unsigned char piece[PIECE];
	int rc;

	do {
		size_t room = out->limit == BUF_UNLIMITED ? PIECE : out->limit - buf_len(out);

		/* one byte more, to detect that the limit is exceeded */
		room = MIN(room + 1, (size_t)PIECE);
		z->next_out = piece;
		z->avail_out = (uInt)room;
		rc = inflate(z, Z_NO_FLUSH);
		if (rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR)
			return err_set(err, EBADMSG, "not what zlib makes: %s",
				z->msg != NULL ? z->msg : "a dictionary is wanted");
		if (buf_add(out, piece, room - z->avail_out) < 0)
			return err_set(
				err, EMSGSIZE, "more than %zu bytes once unpacked", out->limit);
	} while (rc == Z_OK && z->avail_out == 0);
	return rc == Z_STREAM_END;
}

static int
inflate_all(z_stream *z, struct buf *out, const char *text, size_t len, struct err *err)
{
	unsigned char in[PIECE];
	size_t at = 0;
	int rc = 0;

	while (at < len) {
		int n = base64_take(text, len, &at, in, sizeof(in));

		if (n < 0)
			return err_set(err, EBADMSG, "not base64");
		if (rc == 1)
			return err_set(err, EBADMSG, "something stands behind what zlib made");
		z->next_in = in;
		z->avail_in = (uInt)n;
		rc = inflate_piece(z, out, err);
		if (rc < 0)
			return rc;
		if (z->avail_in > 0)
			return err_set(err, EBADMSG, "something stands behind what zlib made");
	}
	return rc == 1 ? 0 : err_set(err, EBADMSG, "cut short");
}

int
unpack_text(struct buf *out, const char *text, size_t len, struct err *err)
{
	z_stream z = {0};
	int rc;

	if (len % 4 != 0)
		return err_set(err, EBADMSG, "not base64");
	rc = inflateInit(&z);
	assert(rc == Z_OK);
	rc = inflate_all(&z, out, text, len, err);
	inflateEnd(&z);
	return rc;
}
