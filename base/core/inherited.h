/*
 * Hands listening and bound sockets from one process to its successor (base/core/fdpass). In the
 * successor, sock_listen and sock_udp use an inherited socket that is bound to exactly the wanted
 * address, with all that waits in its queue. The list is global to the process, as its descriptors
 * are: used at start-up, on one thread, before anything listens.
 *
 *	n = inherited_list(fds, FDPASS_MOST);	// the old process
 *	inherited_use(&fds);			// the new process; takes them
 *	...					// everything listens
 *	inherited_drop();			// closes those that nobody took
 */
#ifndef EDGEWAY_BASE_CORE_INHERITED_H
#define EDGEWAY_BASE_CORE_INHERITED_H

#include "base/core/fdpass.h"
#include "base/core/sock.h"

/* Lists the sockets of this process that listen at, or are bound to, an IP address and have no
 * peer. -E2BIG: more than `most`. */
int inherited_list(int *fds, size_t most);
void inherited_use(struct fdpass *fds);
/* Returns a socket of this type that is bound to the address, which the caller then owns; -1: there
 * is none. */
int inherited_take(const struct addr *a, int type);
/* How many are left of this type that are bound to the address: several with SO_REUSEPORT. */
size_t inherited_count(const struct addr *a, int type);
/* How many workers the old process had: it had a UDP socket for each, all at one address. */
size_t inherited_workers(void);
/* The port of a TCP socket that is bound to this IP address and has no UDP socket beside it, as DNS
 * has; 0: there is none. */
uint16_t inherited_tcp_port(const struct addr *a);
void inherited_drop(void);

#endif
