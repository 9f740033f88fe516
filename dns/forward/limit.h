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
		uint64_t key; /* 0: free */
		uint64_t since_ms;
		uint32_t left;
	} client[LIMIT_SETS][LIMIT_WAYS];
};

/* client: dns_client_key */
bool limit_pass(struct limit *l, uint64_t client, uint64_t now_ms);

#endif
