/*
 * Session affinity (Kubernetes' sessionAffinity: ClientIP): which endpoint a client's address was
 * given for a service port. All workers share one table, since a client's connections may reach any
 * of them. It has a fixed size and no locks: an entry changes only by compare-and-swap (CAS)
 * against the value that was read, so workers that see a new client at the same time agree on the
 * first one's choice. Each use restarts the timeout. When a set is full, the least recently used
 * entry is replaced. Any thread.
 *
 *	key = affinity_key(a, client_ip, fake_ip, port);
 *	known = affinity_find(a, key, now_ms, timeout_s, &seen);
 *	if (!known || !affinity_names(seen, key, node->hash))	// for none of the nodes
 *		seen = affinity_put(a, key, seen, node->hash, now_ms);	// may name another's choice
 */
#ifndef EDGEWAY_LB_BALANCE_AFFINITY_H
#define EDGEWAY_LB_BALANCE_AFFINITY_H

#include "base/core/util.h"

struct affinity;

struct affinity *affinity_new(void);
void affinity_free(struct affinity **a);

uint64_t affinity_key(const struct affinity *a, uint32_t client, uint32_t service, uint16_t port);
/* Returns whether key has an entry that has not expired. Sets *seen, for affinity_put, in any
 * case. */
bool affinity_find(
	struct affinity *a, uint64_t key, uint64_t now_ms, uint32_t timeout_s, uint64_t *seen);
bool affinity_names(uint64_t seen, uint64_t key, uint64_t node_hash);
/* Stores the entry; `seen` is what affinity_find gave. Returns the value now in force, which may be
 * the choice of another worker. */
uint64_t affinity_put(
	struct affinity *a, uint64_t key, uint64_t seen, uint64_t node_hash, uint64_t now_ms);

#endif
