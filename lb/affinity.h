/*
 * Session affinity (Kubernetes' sessionAffinity: ClientIP): which endpoint a client's address was
 * given for a service port. One table for all workers, since a client's connections come to any of
 * them: fixed size, no locks; an entry is changed only by exchanging a value that was seen (CAS),
 * so workers that meet over a new client agree on the first one's choice. Each use starts the
 * time-out anew. When a set is full, the entry that was unused longest goes. Any thread.
 *
 *	key = affinity_key(a, client_ip, fake_ip, port);
 *	known = affinity_find(a, key, now_ms, timeout_s, &seen);
 *	if (!known || !affinity_names(seen, key, node->hash))	// for none of the nodes
 *		seen = affinity_put(a, key, seen, node->hash, now_ms);	// may name another's choice
 */
#ifndef EDGEWAY_LB_AFFINITY_H
#define EDGEWAY_LB_AFFINITY_H

#include "base/core/util.h"

struct affinity;

struct affinity *affinity_new(void);
void affinity_free(struct affinity **a);

uint64_t affinity_key(const struct affinity *a, uint32_t client, uint32_t service, uint16_t port);
/* Is something known of key that is not too old? *seen for affinity_put in any case. */
bool affinity_find(
	struct affinity *a, uint64_t key, uint64_t now_ms, uint32_t timeout_s, uint64_t *seen);
bool affinity_names(uint64_t seen, uint64_t key, uint64_t node_hash);
/* Sets it; `seen` is what affinity_find gave. What is in force afterwards, which may be the choice
 * of another worker. */
uint64_t affinity_put(
	struct affinity *a, uint64_t key, uint64_t seen, uint64_t node_hash, uint64_t now_ms);

#endif
