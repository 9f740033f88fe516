/*
 * Did a datagram come by an interface of the mesh? The kernel takes what is for an address of the
 * host by whichever interface it comes, and the node's LAN is not to be served. Allowed are lo,
 * where the host's own queries arrive, and the names and PREFIX* given. What was found out about an
 * index is good for a second: bridges come, go and are renamed.
 *
 * One per thread that asks.
 *
 *	ingress_interface_init(&a, names);	// borrowed; NULL or none: any interface will do
 *	if (ingress_interface_ok(&a, index, now_ms)) ...
 *	ingress_interface_fini(&a);
 */
#ifndef EDGEWAY_BASE_OS_INGRESS_INTERFACE_H
#define EDGEWAY_BASE_OS_INGRESS_INTERFACE_H

#include "base/core/util.h"

enum { INGRESS_INTERFACE_KNOWN = 8 };

struct ingress_interface {
	const char *const *names; /* NULL-terminated */
	int fd; /* a socket to ask the kernel by */
	uint64_t until_ms;
	unsigned n;
	struct {
		unsigned index;
		bool ok;
	} known[INGRESS_INTERFACE_KNOWN];
};

void ingress_interface_init(struct ingress_interface *a, const char *const *names);
void ingress_interface_fini(struct ingress_interface *a);
/* index 0, which the kernel did not tell: no. */
bool ingress_interface_ok(struct ingress_interface *a, unsigned index, uint64_t now_ms);

#endif
