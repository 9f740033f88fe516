/*
 * Objects of one size in blocks of their own, each of which goes back to the system when its last
 * object is given back, unless no other block has room. For objects of which there are many for a
 * while: in malloc's heap the gaps that they leave between other objects would stay ours. One
 * thread.
 *
 *	struct slab all = {.size = sizeof(struct thing)};
 *	struct thing *t = slab_take(&all); // zeroed
 *	slab_give(&all, t);
 */
#ifndef EDGEWAY_BASE_CORE_SLAB_H
#define EDGEWAY_BASE_CORE_SLAB_H

#include <stddef.h>

struct slab_block;

struct slab {
	size_t size;
	struct slab_block *first; /* those with room */
};

void *slab_take(struct slab *s);
void slab_give(struct slab *s, void *object);
/* Gives back the last empty block. */
void slab_fini(struct slab *s);

#endif
