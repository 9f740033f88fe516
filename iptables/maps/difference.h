/*
 * Differences from the maps in the table, as set elements to delete and add. Pure: the messages go
 * into a batch, which the caller of service_maps.c commits. The slots are borrowed.
 */
#ifndef EDGEWAY_IPTABLES_MAPS_DIFFERENCE_H
#define EDGEWAY_IPTABLES_MAPS_DIFFERENCE_H

#include "iptables/maps/slots.h"
#include "iptables/table/batch.h"

struct key {
	struct in6_addr ip; /* IPv4 as ::ffff:a.b.c.d */
	uint16_t port; /* 0 with proto 0: the ClusterIP itself */
	uint16_t proto;
};

struct difference {
	struct key key;
	bool was, is;
	struct slots before, after; /* after: borrowed from the frontend */
};

/* Deletes old elements before it adds new ones, map by map: those of b->family. */
void difference_put(const struct difference *list, size_t n, struct batch *b);

#endif
