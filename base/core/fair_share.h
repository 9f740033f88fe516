/*
 * A supply that clients share: descriptors, bytes of memory. What is left of it is left for all: no
 * client may have more than the others still find, so one alone gets a half, two a third each, and
 * a newcomer always finds some. Clients are told apart by a hash of their address; a few that fall
 * on the same counter share what one may have. Counters are relaxed atomics, without locks: takers
 * at the same moment may go a little over. Any thread.
 *
 *	slot = fair_share_slot(&ip, sizeof ip, seed);
 *	if (!fair_share_take(s, slot, 1))
 *		refuse;
 *	...
 *	fair_share_give(s, slot, 1);
 */
#ifndef EDGEWAY_BASE_CORE_FAIR_SHARE_H
#define EDGEWAY_BASE_CORE_FAIR_SHARE_H

#include "base/core/sock.h"

struct fair_share;

enum { FAIR_SHARE_SLOTS = 4096 };

struct fair_share *fair_share_new(uint64_t limit);
void fair_share_free(struct fair_share **s);
/* The counter of a client; the same for all supplies with this seed, which clients must not
 * know. */
uint16_t fair_share_slot(const void *key, size_t len, uint64_t seed);
/* Of an address: IPv4 as it is, also mapped into IPv6; of IPv6 the /64, all of which one machine
 * may use. */
uint16_t fair_share_slot_of(const struct addr *a, uint64_t seed);
/* False, and nothing is taken: the client has its share. */
bool fair_share_take(struct fair_share *s, uint16_t slot, uint64_t n);
/* What is there already, and counts whether the client may have it or not. */
void fair_share_charge(struct fair_share *s, uint16_t slot, uint64_t n);
void fair_share_give(struct fair_share *s, uint16_t slot, uint64_t n);
/* How much more the client may take, and how much it has too much. */
uint64_t fair_share_room(const struct fair_share *s, uint16_t slot);
uint64_t fair_share_excess(const struct fair_share *s, uint16_t slot);
/* How much it has. */
uint64_t fair_share_held(const struct fair_share *s, uint16_t slot);
/* The client that has most. Looks at all of them. */
uint16_t fair_share_greediest(const struct fair_share *s);
uint64_t fair_share_used(const struct fair_share *s);
uint64_t fair_share_limit(const struct fair_share *s);

#endif
