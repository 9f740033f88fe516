/*
 * Listening and bound sockets that one process hands to the next (base/core/fdpass): the next one
 * uses, in sock_listen and sock_udp, the one that is bound to the very address that it is to have,
 * with all that waits in its queue. The list is the process's, as its descriptors are: it is used
 * at the start, on one thread, before anything listens.
 *
 *	n = inherited_list(fds, FDPASS_MOST);	// the one who gives
 *	inherited_use(&fds);			// the one who gets; taken
 *	...					// everything listens
 *	inherited_drop();			// those that nobody wanted
 */
#ifndef EDGEWAY_BASE_CORE_INHERITED_H
#define EDGEWAY_BASE_CORE_INHERITED_H

#include "base/core/fdpass.h"
#include "base/core/sock.h"

/* The sockets of this process that listen at, or are bound to, an IP address and have no peer.
 * -E2BIG: more than `most`. */
int inherited_list(int *fds, size_t most);
void inherited_use(struct fdpass *fds);
/* One of this type that is bound to the address, the caller's from now on; -1: none is. */
int inherited_take(const struct addr *a, int type);
void inherited_drop(void);

#endif
