/*
 * Keeps the listening sockets in the service manager (systemd's file descriptor store,
 * FileDescriptorStoreMax= of the unit), so that they outlive a killed agent: connections and
 * queries that arrive meanwhile wait for the next agent, and nobody else can take the ports. Other
 * managers ignore these messages. Loop 0, except socket_store_new.
 *
 *	socket_store_new(&s);	// first: takes the kept sockets, clears the manager's variables
 *	socket_store_use(s, workers, dns_port, dns, lb);	// before they listen
 *	socket_store_put(s, dns, lb);	// whenever they listen: the manager keeps these only
 *	socket_store_drop(s);	// they are not to be listened on any more
 */
#ifndef EDGEWAY_SRC_COMMON_SOCKET_STORE_H
#define EDGEWAY_SRC_COMMON_SOCKET_STORE_H

#include "dns/dns.h"
#include "lb/lb.h"

struct socket_store;

void socket_store_new(struct socket_store **s);
/* Number of workers of the agent whose sockets were kept; 0: none were. */
size_t socket_store_workers(const struct socket_store *s);
/* Uses the sockets if the earlier agent had as many workers; else none. */
void socket_store_use(
	struct socket_store *s, size_t workers, uint16_t dns_port, struct dns *dns, struct lb *lb);
void socket_store_put(struct socket_store *s, const struct dns *dns, const struct lb *lb);
void socket_store_drop(struct socket_store *s);
void socket_store_free(struct socket_store **s);

#endif
