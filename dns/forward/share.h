/*
 * Who may wait for upstreams: a bounded number in all, and no client more than its share, so that
 * one pod that asks for random names costs the others nothing. Pure. Two rows of counters by two
 * hashes: a client has at most the smaller of its two, so that sharing one with a greedy client
 * does no harm.
 *
 *	if (share_take(&s, client))
 *		... later: share_give(&s, client);
 */
#ifndef EDGEWAY_DNS_FORWARD_SHARE_H
#define EDGEWAY_DNS_FORWARD_SHARE_H

#include "base/core/util.h"

enum { SHARE_TOTAL = 4096, SHARE_CLIENT = 256, SHARE_ROW = 512 };

struct share {
	uint64_t seed;
	unsigned n;
	uint16_t rows[2][SHARE_ROW];
};

void share_init(struct share *s, uint64_t seed);
/* client: its IPv4 address. False: it must not. */
bool share_take(struct share *s, uint32_t client);
void share_give(struct share *s, uint32_t client);

#endif
