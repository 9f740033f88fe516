/*
 * Maglev's look-up table (Eisenbud and others, NSDI 2016, section 3.4): each node fills an equal
 * share of the slots, in an order of its own, so that a key finds its node with one look, and a
 * node that goes moves hardly more keys than its own. Pure. Made of the nodes' hashes alone:
 * whoever knows the same nodes, in whatever order, has the same table: all workers, and all edge
 * nodes that dial the endpoints at the same addresses.
 *
 *	uint16_t table[MAGLEV_SLOTS];
 *	maglev_fill(table, hashes, n);
 *	node = table[key % MAGLEV_SLOTS];
 */
#ifndef EDGEWAY_LB_MAGLEV_H
#define EDGEWAY_LB_MAGLEV_H

#include "base/core/util.h"

/* A prime. With 10 endpoints a slot is 0.1 % of the keys. */
enum { MAGLEV_SLOTS = 1021 };

/* Indexes of `hashes`; n from 1 to UINT16_MAX. Of more than MAGLEV_SLOTS nodes some get no slot. */
void maglev_fill(uint16_t table[MAGLEV_SLOTS], const uint64_t *hashes, size_t n);

/* Spreads the bits of what it is given (splitmix64's finalizer). */
static inline uint64_t
maglev_mix(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9u;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

#endif
