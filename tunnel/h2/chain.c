#include "tunnel/h2/chain.h"

#include <assert.h>
#include <string.h>

enum {
	PIECE_MIN = 128, /* including its header */
	FEW_BYTES = 2048, /* at most as many are copied out of a whole piece */
	SPARE_MAX = 64, /* a megabyte */
	AHEAD_MAX = 3, /* 1 << 3 is CHAIN_MOST */
};

struct piece {
	struct piece *next;
	uint32_t start, end,
		size; /* start >= CHAIN_HEADROOM, except for a piece that was filled elsewhere */
	char bytes[];
};

struct piece *
piece_new(struct spare *s)
{
	struct piece *p;

	if (s != NULL && s->first != NULL) {
		p = s->first;
		s->first = p->next;
		s->n--;
	} else {
		p = xmalloc(sizeof *p + CHAIN_PIECE);
	}
	*p = (struct piece){.start = CHAIN_HEADROOM, .end = CHAIN_HEADROOM, .size = CHAIN_PIECE};
	return p;
}

void *
piece_bytes(struct piece *p)
{
	return p->bytes;
}

void
piece_drop(struct spare *s, struct piece **piece)
{
	struct piece *p = take_ptr(piece);

	if (p == NULL || p->size != CHAIN_PIECE || s == NULL || s->n == SPARE_MAX) {
		free(p);
		return;
	}
	p->next = s->first;
	s->first = p;
	s->n++;
}

void
spare_release(struct spare *s)
{
	while (s->first != NULL) {
		struct piece *p = s->first;

		s->first = p->next;
		free(p);
	}
	s->n = 0;
}

static void
chain_append(struct chain *c, struct piece *p)
{
	if (c->last != NULL)
		c->last->next = p;
	else
		c->first = p;
	c->last = p;
}

/* Small writes get small pieces, each larger than the one before. */
static struct piece *
new_piece(struct chain *c, size_t n)
{
	size_t size = MAX(n + CHAIN_HEADROOM, PIECE_MIN - sizeof(struct piece));
	struct piece *p;

	if (c->last != NULL)
		size = MAX(size, 2 * (size_t)c->last->size);
	if (size > CHAIN_PIECE / 2)
		return piece_new(c->spare);
	p = xmalloc(sizeof *p + size);
	*p = (struct piece){.start = CHAIN_HEADROOM, .end = CHAIN_HEADROOM, .size = (uint32_t)size};
	return p;
}

void
chain_add(struct chain *c, const void *data, size_t n)
{
	const char *from = data;

	c->len += n;
	while (n > 0) {
		struct piece *p = c->last;
		uint32_t fits;

		if (p == NULL || p->end == p->size) {
			chain_append(c, new_piece(c, n));
			p = c->last;
		}
		fits = (uint32_t)MIN(n, (size_t)(p->size - p->end));
		memcpy(p->bytes + p->end, from, fits);
		p->end += fits;
		from += fits;
		n -= fits;
	}
}

/* New pieces are linked behind the last one until chain_commit says what was written into them. */
int
chain_reserve(struct chain *c, size_t want, struct iovec *v)
{
	struct piece *p = c->last, **next = p != NULL ? &p->next : &c->first;
	int n = 0, most = 1 << c->ahead;

	assert(want > 0 && *next == NULL);
	if (p == NULL || p->end == p->size)
		p = *next = piece_new(c->spare);
	for (;;) {
		size_t room = MIN(want, (size_t)(p->size - p->end));

		v[n++] = (struct iovec){.iov_base = p->bytes + p->end, .iov_len = room};
		want -= room;
		if (want == 0 || n == most)
			return n;
		p = p->next = piece_new(c->spare);
	}
}

/* Few bytes are copied: what waits in a thousand chains would be as many whole pieces. */
static struct piece *
chain_commit_few(struct chain *c, size_t n)
{
	struct piece *p = c->last != NULL ? take_ptr(&c->last->next) : take_ptr(&c->first);
	struct piece *rest = p->next;

	chain_add(c, p->bytes + p->start, n);
	piece_drop(c->spare, &p);
	return rest;
}

/* Returns the pieces that are not needed. */
static struct piece *
chain_commit_whole(struct chain *c, size_t n)
{
	struct piece *p = c->last != NULL ? c->last : c->first;

	c->len += n;
	for (; p != NULL && n > 0; p = p->next) {
		uint32_t did = (uint32_t)MIN(n, (size_t)(p->size - p->end));

		p->end += did;
		n -= did;
		if (did > 0)
			c->last = p;
	}
	assert(n == 0);
	return c->last != NULL ? take_ptr(&c->last->next) : take_ptr(&c->first);
}

void
chain_commit(struct chain *c, size_t n)
{
	bool fresh = c->last == NULL || c->last->end == c->last->size;
	bool few = n > 0 && n <= FEW_BYTES && fresh;
	struct piece *p, *spare = few ? chain_commit_few(c, n) : chain_commit_whole(c, n);
	bool filled = !few && spare == NULL && c->last != NULL && c->last->end == c->last->size;

	if (filled && c->ahead < AHEAD_MAX)
		c->ahead++;
	else if (spare != NULL && spare->next != NULL && c->ahead > 0)
		c->ahead--;
	while ((p = spare) != NULL) {
		spare = p->next;
		piece_drop(c->spare, &p);
	}
}

size_t
chain_peek(const struct chain *c, const void **data)
{
	const struct piece *p = c->first;

	*data = p != NULL ? p->bytes + p->start : NULL;
	return p != NULL ? p->end - p->start : 0;
}

int
chain_peek_all(const struct chain *c, struct iovec *v)
{
	int n = 0;

	for (struct piece *p = c->first; p != NULL && n < CHAIN_MOST; p = p->next)
		v[n++] = (struct iovec){
			.iov_base = p->bytes + p->start, .iov_len = p->end - p->start};
	return n;
}

void
chain_consume(struct chain *c, size_t n)
{
	assert(n <= c->len);
	c->len -= n;
	while (c->first != NULL) {
		struct piece *p = c->first;
		uint32_t did = (uint32_t)MIN(n, (size_t)(p->end - p->start));

		p->start += did;
		n -= did;
		if (p->start < p->end)
			return;
		c->first = p->next;
		if (p->next == NULL)
			c->last = NULL;
		piece_drop(c->spare, &p);
	}
}

void
chain_take(struct chain *c, struct piece **piece, const void *from, size_t n)
{
	struct piece *p = take_ptr(piece);

	p->start = (uint32_t)((const char *)from - p->bytes);
	p->end = p->start + (uint32_t)n;
	assert(n > 0 && p->end <= p->size);
	p->next = NULL;
	chain_append(c, p);
	c->len += n;
}

void
chain_fini(struct chain *c)
{
	chain_consume(c, c->len);
}
