/*
 * A pod that calls itself through a service, on a bridge that asks iptables
 * (bridge-nf-call-iptables, which Docker switches on): there the kernel translates while it
 * bridges, sees that the packet goes back to the port it came from, and drops it unless the port is
 * in hairpin mode, which kubelet and Docker (without its userland proxy) set as well. Switched on
 * for ports of the mesh's bridges while the kernel carries ports, and off again at the end for
 * those that were off before. Loop 0 only.
 *
 *	hairpin_tend(&h, interfaces);	// now and then: ports come and go
 *	hairpin_undo(&h);
 */
#ifndef EDGEWAY_IPTABLES_MAPS_HAIRPIN_H
#define EDGEWAY_IPTABLES_MAPS_HAIRPIN_H

#include "base/core/buf.h"

struct hairpin {
	struct buf ports; /* int: indexes that we have switched on */
	uint64_t failures;
};

/* Interfaces as rules.h has them. A dump of all links, some microseconds each. */
void hairpin_tend(struct hairpin *h, const char *const *interfaces);
void hairpin_undo(struct hairpin *h);
size_t hairpin_count(const struct hairpin *h);

#endif
