#include "tunnel/h2/session_private.h"

#include <string.h>

/* Streams whose clear text is compressed on the wire, once both ends have agreed
 * (edgeway-encoding). */

enum { PLAIN_BYTES = 64 * 1024, SCRATCH_BYTES = 32 * 1024 };

struct coding {
	struct deflate_stream *squeeze;
	struct expand *expand;
	char *plain; /* PLAIN_BYTES, decompressed and not consumed; NULL while there is none */
	size_t start, end;
	char *scratch; /* buffer between reserve and commit */
	size_t counted; /* in the budget */
	bool bad; /* received bytes cannot be decompressed */
};

static void
session_coding_count(struct stream *st)
{
	struct coding *c = st->coding;
	size_t now = deflate_stream_memory(c->squeeze) + EXPAND_BYTES +
		(c->plain != NULL ? PLAIN_BYTES : 0);

	if (st->session == NULL)
		return;
	st->session->budget->granted += now - c->counted;
	c->counted = now;
}

void
coding_start(struct stream *st)
{
	st->coding = xcalloc(1, sizeof *st->coding);
	st->coding->squeeze = deflate_stream_new();
	st->coding->expand = expand_new();
	session_coding_count(st);
}

void
coding_unbudget(struct stream *st)
{
	if (st->coding == NULL)
		return;
	st->session->budget->granted -= st->coding->counted;
	st->coding->counted = 0;
}

void
coding_free(struct stream *st)
{
	struct coding *c = take_ptr(&st->coding);

	if (c == NULL)
		return;
	deflate_stream_free(&c->squeeze);
	expand_free(&c->expand);
	free(c->plain);
	free(c->scratch);
	free(c);
}

static void
session_coding_put(void *arg, const void *data, size_t n)
{
	struct stream *st = arg;

	chain_add(&st->out, data, n);
	stream_keeps(st, &st->session->budget->queued, n);
}

void
coding_write(struct stream *st, const void *data, size_t n)
{
	size_t before = st->out.len, after;

	deflate_stream_write(st->coding->squeeze, data, n, session_coding_put, st);
	after = st->out.len - before;
	st->session->stats.saved += n > after ? n - after : 0;
	session_coding_count(st);
}

int
coding_reserve(struct stream *st, size_t room, struct iovec *v)
{
	if (st->coding->scratch == NULL)
		st->coding->scratch = xmalloc(SCRATCH_BYTES);
	*v = (struct iovec){
		.iov_base = st->coding->scratch, .iov_len = MIN(room, (size_t)SCRATCH_BYTES)};
	return 1;
}

void
coding_commit(struct stream *st, size_t n)
{
	coding_write(st, st->coding->scratch, n);
	free(take_ptr(&st->coding->scratch));
}

static void
give_up(struct stream *st)
{
	st->coding->bad = true;
	if (st->session == NULL)
		return;
	if (st->id == 0) { /* HTTP/2 has closed the stream: report the error from here */
		st->code = STREAM_BROKEN;
		stream_note(st, NOTE_RESET);
		return;
	}
	st->session->stats.resets_sent++;
	h2_reset(st->session->h2, st->id, H2_COMPRESSION_ERROR);
	session_kick(st->session);
}

/* Decompresses what fits into the buffer; the other end's window reopens by the compressed bytes
 * consumed. */
static void
expand_some(struct stream *st)
{
	struct coding *c = st->coding;
	const void *data, *from;
	size_t n, left;
	ssize_t did;

	if (c->plain == NULL)
		c->plain = xmalloc(PLAIN_BYTES);
	c->start = c->end = 0;
	while (c->end < PLAIN_BYTES && !c->bad) {
		left = n = chain_peek(&st->in, &data);
		if (n == 0 && !expand_more(c->expand))
			break;
		from = data;
		did = expand_read(c->expand, &from, &left, c->plain + c->end, PLAIN_BYTES - c->end);
		if (did < 0) {
			give_up(st);
			break;
		}
		c->end += (size_t)did;
		stream_took(st, n - left);
		if (st->session != NULL && (size_t)did > n - left)
			st->session->stats.saved += (size_t)did - (n - left);
	}
	if (c->end == 0)
		free(take_ptr(&c->plain));
	session_coding_count(st);
}

size_t
coding_peek(struct stream *st, const void **data)
{
	struct coding *c = st->coding;

	if (c->start == c->end && !c->bad)
		expand_some(st);
	*data = c->plain != NULL ? c->plain + c->start : NULL;
	return c->bad ? 0 : c->end - c->start;
}

void
coding_consume(struct stream *st, size_t n)
{
	struct coding *c = st->coding;

	c->start += n;
	if (c->start < c->end)
		return;
	c->start = c->end = 0;
	free(take_ptr(&c->plain));
	session_coding_count(st);
}

bool
coding_bad(const struct stream *st)
{
	return st->coding->bad;
}

bool
coding_empty(const struct stream *st)
{
	const struct coding *c = st->coding;

	return c->start == c->end && !expand_more(c->expand) && !c->bad;
}
