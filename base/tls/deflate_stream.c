/*
 * The decision between text and plain bytes is made once, at the first write, since the peer reads
 * it from the leading byte. After that only the level changes (0: stored blocks), which is part of
 * the deflate format, so the peer needs no further marker.
 */
#include "base/tls/deflate_stream.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include <zlib.h>

enum {
	AS_IT_IS = 0, /* values of the leading byte */
	DEFLATED = 1,
	WINDOW_BITS = 15,
	MEMORY_LEVEL = 8,
	LOOK = 256, /* bytes examined to classify the content */
	PIECE = 16 * 1024,
	JUDGE = 256 * 1024, /* bytes after which the gain of compression is checked */
	RETRY = 4 * 1024 * 1024,
};

enum mode { UNDECIDED, PLAIN, SQUEEZED, STORED };

struct deflate_stream {
	enum mode mode;
	z_stream z;
	size_t in, out; /* since the last check */
};

struct expand {
	enum mode mode;
	bool more;
	z_stream z;
};

static bool
is_text(const unsigned char *at, size_t n)
{
	size_t odd = 0, look = MIN(n, (size_t)LOOK);

	for (size_t i = 0; i < look; i++)
		odd += (at[i] < ' ' && at[i] != '\n' && at[i] != '\r' && at[i] != '\t') ||
			at[i] == 0x7f;
	return odd * 16 <= look && !(n >= 4 && memcmp(at, "SSH-", 4) == 0);
}

struct deflate_stream *
deflate_stream_new(void)
{
	return xcalloc(1, sizeof(struct deflate_stream));
}

void
deflate_stream_free(struct deflate_stream **squeeze)
{
	struct deflate_stream *q = take_ptr(squeeze);

	if (q != NULL && q->mode >= SQUEEZED)
		deflateEnd(&q->z);
	free(q);
}

size_t
deflate_stream_memory(const struct deflate_stream *q)
{
	return q->mode >= SQUEEZED ? DEFLATE_STREAM_BYTES : sizeof *q;
}

static void
deflate_stream_decide(struct deflate_stream *q, const unsigned char *data, size_t n,
	deflate_stream_put_fn *put, void *arg)
{
	unsigned char mode = AS_IT_IS;

	q->mode = PLAIN;
	if (is_text(data, n) &&
		deflateInit2(&q->z, 1, Z_DEFLATED, -WINDOW_BITS, MEMORY_LEVEL,
			Z_DEFAULT_STRATEGY) == Z_OK) {
		q->mode = SQUEEZED;
		mode = DEFLATED;
	}
	put(arg, &mode, 1);
}

/* Runs deflate and passes on its output, as far as `flush` demands. */
static void
deflate_stream_run(
	struct deflate_stream *q, int flush, int level, deflate_stream_put_fn *put, void *arg)
{
	unsigned char piece[PIECE];
	int rc;

	do {
		q->z.next_out = piece;
		q->z.avail_out = sizeof piece;
		rc = level >= 0 ? deflateParams(&q->z, level, Z_DEFAULT_STRATEGY)
				: deflate(&q->z, flush);
		assert(rc == Z_OK || rc == Z_BUF_ERROR);
		if (sizeof piece > q->z.avail_out)
			put(arg, piece, sizeof piece - q->z.avail_out);
		q->out += sizeof piece - q->z.avail_out;
	} while (q->z.avail_out == 0 || (level >= 0 && rc == Z_BUF_ERROR));
}

static void
deflate_stream_judge(struct deflate_stream *q, deflate_stream_put_fn *put, void *arg)
{
	if (q->mode == SQUEEZED && q->in >= JUDGE) {
		if (q->out > q->in - q->in / 16) {
			deflate_stream_run(q, 0, 0, put, arg);
			q->mode = STORED;
		}
		q->in = q->out = 0;
	} else if (q->mode == STORED && q->in >= RETRY) {
		deflate_stream_run(q, 0, 1, put, arg);
		q->mode = SQUEEZED;
		q->in = q->out = 0;
	}
}

void
deflate_stream_write(
	struct deflate_stream *q, const void *data, size_t n, deflate_stream_put_fn *put, void *arg)
{
	if (n == 0)
		return;
	if (q->mode == UNDECIDED)
		deflate_stream_decide(q, data, n, put, arg);
	if (q->mode == PLAIN) {
		put(arg, data, n);
		return;
	}
	q->z.next_in = (z_const Bytef *)(uintptr_t)data;
	q->z.avail_in = (uInt)n;
	deflate_stream_run(q, Z_SYNC_FLUSH, -1, put, arg);
	assert(q->z.avail_in == 0);
	q->in += n;
	deflate_stream_judge(q, put, arg);
}

struct expand *
expand_new(void)
{
	return xcalloc(1, sizeof(struct expand));
}

void
expand_free(struct expand **expand)
{
	struct expand *x = take_ptr(expand);

	if (x != NULL && x->mode == SQUEEZED)
		inflateEnd(&x->z);
	free(x);
}

bool
expand_more(const struct expand *x)
{
	return x->more;
}

static int
deflate_stream_begin(struct expand *x, const unsigned char **from, size_t *n)
{
	unsigned char mode = *(*from)++;

	(*n)--;
	if (mode == AS_IT_IS)
		x->mode = PLAIN;
	else if (mode == DEFLATED && inflateInit2(&x->z, -WINDOW_BITS) == Z_OK)
		x->mode = SQUEEZED;
	return x->mode == UNDECIDED ? -EBADMSG : 0;
}

ssize_t
expand_read(struct expand *x, const void **data, size_t *n, void *to, size_t size)
{
	const unsigned char *from = *data;
	size_t did;
	int rc = 0;

	if (x->mode == UNDECIDED && *n > 0)
		rc = deflate_stream_begin(x, &from, n);
	*data = from;
	if (rc < 0 || (*n == 0 && !x->more))
		return rc;
	if (x->mode == PLAIN) {
		did = MIN(*n, size);
		memcpy(to, from, did);
		*data = from + did;
		*n -= did;
		return (ssize_t)did;
	}
	x->z.next_in = (z_const Bytef *)(uintptr_t)from;
	x->z.avail_in = (uInt)*n;
	x->z.next_out = to;
	x->z.avail_out = (uInt)size;
	rc = inflate(&x->z, Z_SYNC_FLUSH);
	/* Z_STREAM_END is an error too: our sender never ends a stream */
	if (rc != Z_OK && rc != Z_BUF_ERROR)
		return -EBADMSG;
	x->more = x->z.avail_out == 0;
	*data = x->z.next_in;
	*n = x->z.avail_in;
	return (ssize_t)(size - x->z.avail_out);
}
