#include "tunnel/chain.h"

#include <assert.h>
#include <string.h>

enum {
	PIECE_MIN = 512, /* with its head */
	PIECE_MAX = 128 * 1024 -
		64, /* below what malloc takes from the kernel and gives back each time */
	SLIVER = 8 * 1024,
	GROW_MAX = 9, /* PIECE_MIN << 8 is more than PIECE_MAX */
	SPARE_MAX = 6,
};

struct piece {
	struct piece *next;
	size_t start, end, size;
	char bytes[];
};

static const size_t largest = PIECE_MAX - sizeof(struct piece);

static struct piece *
take_piece(struct chain *c, size_t size)
{
	struct spare *s = c->spare;
	struct piece *p;

	if (size == largest && s != NULL && s->first != NULL) {
		p = s->first;
		s->first = p->next;
		s->n--;
	} else {
		p = xmalloc(sizeof *p + size);
	}
	*p = (struct piece){.size = size};
	return p;
}

static void
drop_piece(struct chain *c, struct piece *p)
{
	struct spare *s = c->spare;

	if (p->size != largest || s == NULL || s->n == SPARE_MAX) {
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

/* Bulk comes in pieces as large as those before it; what trickles gets small ones. */
static void
append_piece(struct chain *c, size_t n)
{
	size_t size = MIN(((size_t)PIECE_MIN << c->grow) - sizeof(struct piece), largest);
	struct piece *p;

	if (size < n)
		size = MIN(n, largest);
	p = take_piece(c, size);
	if (c->last != NULL) {
		c->last->next = p;
		if (c->grow < GROW_MAX)
			c->grow++;
	} else {
		c->first = p;
	}
	c->last = p;
}

void
chain_add(struct chain *c, const void *data, size_t n)
{
	const char *from = data;

	c->len += n;
	while (n > 0) {
		struct piece *p = c->last;
		size_t fits;

		if (p == NULL || p->end == p->size) {
			append_piece(c, n);
			p = c->last;
		}
		fits = MIN(n, p->size - p->end);
		memcpy(p->bytes + p->end, from, fits);
		p->end += fits;
		from += fits;
		n -= fits;
	}
}

void *
chain_reserve(struct chain *c, size_t want, size_t *room)
{
	struct piece *p = c->last;

	/* Not a sliver of an old piece, where a new one takes all at once. */
	if (p == NULL || p->size - p->end < MIN(want, (size_t)SLIVER)) {
		append_piece(c, want);
		p = c->last;
	}
	*room = MIN(want, p->size - p->end);
	return p->bytes + p->end;
}

void
chain_commit(struct chain *c, size_t n)
{
	struct piece *p = c->last;

	assert(n <= p->size - p->end);
	p->end += n;
	c->len += n;
	if (c->len == 0)
		chain_consume(c, 0); /* the piece goes again */
}

size_t
chain_peek(const struct chain *c, const void **data)
{
	const struct piece *p = c->first;

	*data = p != NULL ? p->bytes + p->start : NULL;
	return p != NULL ? p->end - p->start : 0;
}

void
chain_consume(struct chain *c, size_t n)
{
	assert(n <= c->len);
	c->len -= n;
	while (c->first != NULL) {
		struct piece *p = c->first;
		size_t did = MIN(n, p->end - p->start);

		p->start += did;
		n -= did;
		if (p->start < p->end)
			return;
		c->first = p->next;
		if (p->next == NULL) {
			if (p->end < p->size / 2 && c->grow > 0)
				c->grow--;
			c->last = NULL;
		}
		drop_piece(c, p);
	}
}

void
chain_fini(struct chain *c)
{
	chain_consume(c, c->len);
}
