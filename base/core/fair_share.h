/*
 * Shares a limited resource (descriptors, bytes of memory) fairly among clients. No client may hold
 * more than what is still free for the others: one client alone gets a half, two get a third each,
 * and a newcomer always finds some. A hash of the address identifies a client; a few clients that
 * fall on the same counter share one client's part. Counters are relaxed atomics, without locks:
 * concurrent takers may exceed the limit a little. Any thread.
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
/* The counter of a client; the same for all resources with this seed, which clients must not
 * know. */
uint16_t fair_share_slot(const void *key, size_t len, uint64_t seed);
/* The counter of an address: IPv4 whole, also when mapped into IPv6; of IPv6 the /64, all of which
 * one machine may use. */
uint16_t fair_share_slot_of(const struct addr *a, uint64_t seed);
/* False, and nothing is taken: the client already holds its share. */
bool fair_share_take(struct fair_share *s, uint16_t slot, uint64_t n);
/* Charges what the client already uses, even beyond its share. */
void fair_share_charge(struct fair_share *s, uint16_t slot, uint64_t n);
void fair_share_give(struct fair_share *s, uint16_t slot, uint64_t n);
/* How much more the client may take, and how much it holds beyond its share. */
uint64_t fair_share_room(const struct fair_share *s, uint16_t slot);
uint64_t fair_share_excess(const struct fair_share *s, uint16_t slot);
/* How much it holds. */
uint64_t fair_share_held(const struct fair_share *s, uint16_t slot);
/* The counter that holds most. Scans all counters. */
uint16_t fair_share_greediest(const struct fair_share *s);
uint64_t fair_share_used(const struct fair_share *s);
uint64_t fair_share_limit(const struct fair_share *s);

#endif
