/*
 * Limits how many queries may wait for upstreams, in all and per client, so that one pod that asks
 * for random names does not harm the others. Pure. There are two rows of counters with a hash each;
 * a client counts as the smaller of its two counters, so that a collision with a greedy client in
 * one row does no harm.
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
/* client: dns_client_key. False: the query must not wait. */
bool client_quota_take(struct client_quota *s, uint64_t client);
void client_quota_give(struct client_quota *s, uint64_t client);

#endif
