/*
 * A limit of queries per client address: LIMIT_PER_S, and LIMIT_BURST at once. dns/front/udp asks
 * it only while its socket's queue is more than half full, so that a client may have all that
 * nobody else needs, and a flood does not push other clients' queries out of the queue. The table
 * does not grow: the client not heard of for longest gives its place.
 *
 * Pure: the clock is the caller's.
 *
 *	if (!limit_pass(&l, client, now_ms)) ...	// one too many
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

struct limit { /* all zero to begin with */
	struct limit_client {
		uint32_t address; /* as the socket gives it; 0: free */
		uint32_t left;
		uint64_t since_ms;
	} client[LIMIT_SETS][LIMIT_WAYS];
};

bool limit_pass(struct limit *l, uint32_t address, uint64_t now_ms);

#endif
