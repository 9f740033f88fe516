/*
 * Keeps the listening sockets in the service manager (systemd's file descriptor store,
 * FileDescriptorStoreMax= of the unit), so that they outlive a killed agent: connections and
 * queries that arrive meanwhile wait for the next agent, and nobody else can take the ports. Other
 * managers ignore these messages. Loop 0, except socket_store_new.
 *
 *	socket_store_new(&s);	// first: kept sockets are inherited (base/core/inherited), and the
 *				// manager's variables cleared
 *	socket_store_put(s, dns, lb);	// whenever they listen: the manager keeps these only
 *	socket_store_drop(s);	// they are not to be listened on any more
 */
#ifndef EDGEWAY_SRC_COMMON_SOCKET_STORE_H
#define EDGEWAY_SRC_COMMON_SOCKET_STORE_H

#include "dns/dns.h"
#include "lb/lb.h"

struct socket_store;

void socket_store_new(struct socket_store **s);
void socket_store_put(struct socket_store *s, const struct dns *dns, const struct lb *lb);
/* The sockets that both listen on, at most FDPASS_MOST - 2; returns how many. IPv4 first; those of
 * IPv6, if wanted, only where all have room: with up to 41 workers. */
size_t socket_store_list(const struct dns *dns, const struct lb *lb, bool six, int *fds);
void socket_store_drop(struct socket_store *s);
void socket_store_free(struct socket_store **s);

#endif
