#include "base/core/slab.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/core/util.h"

/* A power of two, so that an object's address leads to its block. */
enum { SLAB_BLOCK = 16 * 1024 };

struct slab_free {
	struct slab_free *next;
};

struct slab_block {
	struct slab_block *next, **link; /* link NULL: it is full and in no list */
	struct slab_free *free;
	unsigned used, fresh; /* fresh: objects that were never taken begin with this one */
};

static unsigned
slab_room(const struct slab *s)
{
	return (unsigned)((SLAB_BLOCK - sizeof(struct slab_block)) / s->size);
}

static void
slab_link(struct slab *s, struct slab_block *b)
{
	b->next = s->first;
	b->link = &s->first;
	if (b->next != NULL)
		b->next->link = &b->next;
	s->first = b;
}

static void
slab_unlink(struct slab_block *b)
{
	*b->link = b->next;
	if (b->next != NULL)
		b->next->link = b->link;
	b->link = NULL;
}

/* The kernel aligns to pages: the ends that are too much go back. */
static struct slab_block *
slab_map(void)
{
	char *at = mmap(
		NULL, 2 * SLAB_BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t before;

	if (at == MAP_FAILED)
		abort();
	before = (size_t)(-(uintptr_t)at & (SLAB_BLOCK - 1));
	if (before > 0)
		munmap(at, before);
	if (before < SLAB_BLOCK)
		munmap(at + before + SLAB_BLOCK, SLAB_BLOCK - before);
	return (struct slab_block *)(void *)(at + before);
}

void *
slab_take(struct slab *s)
{
	struct slab_block *b = s->first;
	void *object;

	if (b == NULL)
		slab_link(s, b = slab_map());
	if (b->free != NULL) {
		object = b->free;
		b->free = b->free->next;
	} else {
		object = (char *)(b + 1) + b->fresh++ * s->size;
	}
	if (++b->used == slab_room(s))
		slab_unlink(b);
	return memset(object, 0, s->size);
}

void
slab_give(struct slab *s, void *object)
{
	struct slab_block *b =
		(struct slab_block *)((uintptr_t)object & ~(uintptr_t)(SLAB_BLOCK - 1));
	struct slab_free *f = object;

	assert(b->used > 0);
	if (b->link == NULL)
		slab_link(s, b);
	f->next = b->free;
	b->free = f;
	if (--b->used > 0 || (s->first == b && b->next == NULL))
		return;
	slab_unlink(b);
	munmap(b, SLAB_BLOCK);
}

void
slab_fini(struct slab *s)
{
	struct slab_block *b = s->first;

	if (b == NULL || b->used > 0)
		return;
	slab_unlink(b);
	munmap(b, SLAB_BLOCK);
}
