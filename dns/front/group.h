/*
 * Which answers of a batch leave in one send: the kernel carries several datagrams to one client as
 * one packet through bridge, veth and firewall and cuts it up at the client's socket (UDP_SEGMENT),
 * provided that all have one length but for the last, which may be shorter. A pod asks A and AAAA
 * from one socket at once, so pairs are the rule. Order within a batch means nothing to DNS.
 *
 * Pure.
 *
 *	group_sort(items, n);
 *	for (size_t at = 0, k; at < n; at += k)
 *		k = group_next(items + at, n - at);
 */
#ifndef EDGEWAY_DNS_FRONT_GROUP_H
#define EDGEWAY_DNS_FRONT_GROUP_H

#include <netinet/in.h>

#include "base/core/util.h"

struct group_item {
	uint64_t key; /* of group_key */
	unsigned slot; /* the caller's */
};

/* Sorts by client, then longer ones first. */
uint64_t group_key(const struct sockaddr_in *client, uint16_t len);
void group_sort(struct group_item *items, size_t n);
/* How many of the first items, sorted, go together; at least 1. */
size_t group_next(const struct group_item *items, size_t n);

#endif
