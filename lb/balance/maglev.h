/*
 * Maglev's lookup table (Eisenbud and others, NSDI 2016, section 3.4): each node fills an equal
 * share of the slots, in an order of its own, so that one lookup finds the node of a key, and
 * removing a node moves hardly more keys than its own. Pure. The table depends on the nodes' hashes
 * only: the same nodes in any order give the same table, on all workers and on all edge nodes that
 * dial the endpoints at the same addresses.
 *
 *	uint16_t table[MAGLEV_SLOTS];
 *	maglev_fill(table, hashes, n);
 *	node = table[key % MAGLEV_SLOTS];
 */
#ifndef EDGEWAY_LB_BALANCE_MAGLEV_H
#define EDGEWAY_LB_BALANCE_MAGLEV_H

#include "base/core/util.h"

/* A prime. With 10 endpoints a slot is 0.1 % of the keys. */
enum { MAGLEV_SLOTS = 1021 };

/* Fills the table with indexes of `hashes`; n from 1 to UINT16_MAX. With more than MAGLEV_SLOTS
 * nodes some get no slot. */
void maglev_fill(uint16_t table[MAGLEV_SLOTS], const uint64_t *hashes, size_t n);

/* Spreads the bits of its argument (splitmix64's finalizer). */
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
