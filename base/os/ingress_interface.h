/*
 * Checks that a datagram arrived by an interface of the mesh. The kernel accepts packets to any
 * address of the host at any interface, but the node's LAN must not be served. Allowed are lo,
 * where the host's own queries arrive, and the given names and globs (fnmatch(3)). A result for an
 * interface index is cached for a second: bridges come, go and are renamed.
 *
 * One instance per thread.
 *
 *	ingress_interface_init(&a, names);	// borrowed; NULL or empty: all are allowed
 *	if (ingress_interface_ok(&a, index, now_ms)) ...
 *	ingress_interface_fini(&a);
 */
#ifndef EDGEWAY_BASE_OS_INGRESS_INTERFACE_H
#define EDGEWAY_BASE_OS_INGRESS_INTERFACE_H

#include "base/core/util.h"

enum { INGRESS_INTERFACE_KNOWN = 8 };

struct ingress_interface {
	const char *const *names; /* NULL-terminated */
	int fd; /* a socket for queries to the kernel */
	uint64_t until_ms;
	unsigned n;
	struct {
		unsigned index;
		bool ok;
	} known[INGRESS_INTERFACE_KNOWN];
};

void ingress_interface_init(struct ingress_interface *a, const char *const *names);
void ingress_interface_fini(struct ingress_interface *a);
/* index 0 (the kernel reported none): false. */
bool ingress_interface_ok(struct ingress_interface *a, unsigned index, uint64_t now_ms);

#endif
