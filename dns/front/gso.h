/*
 * Which answers of a batch leave in one send: the kernel carries several datagrams to one client as
 * one packet through bridge, veth and firewall and cuts it up at the client's socket (UDP_SEGMENT),
 * provided that all have one length but for the last, which may be shorter. A pod asks A and AAAA
 * from one socket at once, so pairs are the rule. Order within a batch means nothing to DNS.
 *
 * Pure.
 *
 *	gso_sort(items, n);
 *	for (size_t at = 0, k; at < n; at += k)
 *		k = gso_next(items + at, n - at);
 */
#ifndef EDGEWAY_DNS_FRONT_GSO_H
#define EDGEWAY_DNS_FRONT_GSO_H

#include <netinet/in.h>

#include "base/core/util.h"

struct gso_item {
	uint64_t key; /* of gso_key */
	unsigned slot; /* the caller's */
};

/* Sorts by client, then longer ones first. */
uint64_t gso_key(const struct sockaddr_in *client, uint16_t len);
void gso_sort(struct gso_item *items, size_t n);
/* How many of the first items, sorted, go together; at least 1. */
size_t gso_next(const struct gso_item *items, size_t n);

#endif
