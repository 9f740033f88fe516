/*
 * Rate limit of queries per client address: LIMIT_PER_MS, with bursts of LIMIT_BURST. dns/front/udp
 * applies it only while its socket's queue is more than half full, so that a client may use all
 * capacity that nobody else needs, and a flood does not push other clients' queries out of the
 * queue. The table has a fixed size: the least recently seen client of a set is evicted.
 *
 * Pure: the caller supplies the clock.
 *
 *	if (!limit_pass(&l, client, now_ms)) ...	// over the limit
 */
#ifndef EDGEWAY_DNS_FORWARD_LIMIT_H
#define EDGEWAY_DNS_FORWARD_LIMIT_H

#include "base/core/util.h"

enum {
	LIMIT_PER_MS = 20,
	LIMIT_BURST = 500,
	LIMIT_SETS = 256,
	LIMIT_WAYS = 4,
};

struct limit { /* starts all zero */
	struct limit_client {
		uint32_t address; /* as in the socket address; 0: free */
		uint32_t left;
		uint64_t since_ms;
	} client[LIMIT_SETS][LIMIT_WAYS];
};

bool limit_pass(struct limit *l, uint32_t address, uint64_t now_ms);

#endif
