/*
 * Lets a pod call itself through a service on a bridge that passes packets to iptables
 * (bridge-nf-call-iptables, which Docker switches on). There the kernel translates while bridging,
 * sees that the packet goes back to the port it came from, and drops it unless the port is in
 * hairpin mode, which kubelet and Docker (without its userland proxy) set as well. The mode is
 * switched on for ports of the mesh's bridges while the kernel carries service ports, and off again
 * at the end for those that had it off before. Loop 0 only.
 *
 *	hairpin_tend(&h, interfaces);	// periodically: ports come and go
 *	hairpin_undo(&h);
 */
#ifndef EDGEWAY_IPTABLES_MAPS_HAIRPIN_H
#define EDGEWAY_IPTABLES_MAPS_HAIRPIN_H

#include "base/core/buf.h"

struct hairpin {
	struct buf ports; /* int: indexes of the ports that we have switched on */
	uint64_t failures;
};

/* Interfaces as in rules.h. Dumps all links, some microseconds each. */
void hairpin_tend(struct hairpin *h, const char *const *interfaces);
void hairpin_undo(struct hairpin *h);
size_t hairpin_count(const struct hairpin *h);

#endif
