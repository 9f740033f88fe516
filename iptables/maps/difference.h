/*
 * What is other than the maps of the table hold it, and the elements that make it so. Pure: the
 * messages go into a batch, which frontends.c's caller commits. A plan is borrowed.
 */
#ifndef EDGEWAY_IPTABLES_MAPS_DIFFERENCE_H
#define EDGEWAY_IPTABLES_MAPS_DIFFERENCE_H

#include "iptables/maps/slots.h"
#include "iptables/table/batch.h"

struct key {
	uint32_t ip; /* host byte order */
	uint16_t port; /* 0 with proto 0: the ClusterIP itself */
	uint16_t proto;
};

struct difference {
	struct key key;
	bool was, is;
	struct slots before, after; /* after: borrowed from the frontend */
};

/* Elements that are no more go first, map by map. */
void difference_put(const struct difference *list, size_t n, struct batch *b);

#endif
