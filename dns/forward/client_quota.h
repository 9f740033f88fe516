/*
 * Who may wait for upstreams: a bounded number in all, and no client more than its share, so that
 * one pod that asks for random names costs the others nothing. Pure. Two rows of counters by two
 * hashes: a client has at most the smaller of its two, so that sharing one with a greedy client
 * does no harm.
 *
 *	if (client_quota_take(&s, client))
 *		... later: client_quota_give(&s, client);
 */
#ifndef EDGEWAY_DNS_FORWARD_CLIENT_QUOTA_H
#define EDGEWAY_DNS_FORWARD_CLIENT_QUOTA_H

#include "base/core/util.h"

enum { CLIENT_QUOTA_TOTAL = 4096, CLIENT_QUOTA_CLIENT = 256, CLIENT_QUOTA_ROW = 512 };

struct client_quota {
	uint64_t seed;
	unsigned n;
	uint16_t rows[2][CLIENT_QUOTA_ROW];
};

void client_quota_init(struct client_quota *s, uint64_t seed);
/* client: its IPv4 address. False: it must not. */
bool client_quota_take(struct client_quota *s, uint32_t client);
void client_quota_give(struct client_quota *s, uint32_t client);

#endif
