/*
 * Groups the answers of a batch that can leave in one send: with UDP_SEGMENT the kernel carries
 * several datagrams for one client as one packet through bridge, veth and firewall and splits it at
 * the client's socket. All must have the same length; only the last may be shorter. A pod asks A
 * and AAAA from one socket at once, so pairs are common. The order within a batch does not matter
 * to DNS.
 *
 * Pure.
 *
 *	gso_sort(items, n);
 *	for (size_t at = 0, k; at < n; at += k)
 *		k = gso_next(items + at, n - at);
 */
#ifndef EDGEWAY_DNS_FRONT_GSO_H
#define EDGEWAY_DNS_FRONT_GSO_H

#include "base/core/util.h"

struct gso_item {
	uint64_t key; /* of gso_key */
	unsigned slot; /* for the caller */
};

/* The key sorts by client, then longer answers first. client: differs between clients of one batch
 * that have the same port. */
uint64_t gso_key(uint32_t client, uint16_t port, uint16_t len);
void gso_sort(struct gso_item *items, size_t n);
/* How many items from the start of the sorted array go into one send; at least 1. */
size_t gso_next(const struct gso_item *items, size_t n);

#endif
