/*
 * The listening sockets outlive an agent that is killed where the service manager keeps them
 * (systemd's file descriptor store, FileDescriptorStoreMax= of the unit): connections and questions
 * that come meanwhile wait for the next agent, and nobody else can have the ports. Other managers
 * ignore what they are told. Loop 0, but for socket_store_new.
 *
 *	socket_store_new(&s);	// the first thing: takes what the manager kept, and its variables out of the environment
 *	socket_store_use(s, workers, dns_port, dns, lb);	// before they listen
 *	socket_store_put(s, dns, lb);	// whenever they listen: the manager has these sockets and no others
 *	socket_store_drop(s);	// they are not to be listened on any more
 */
#ifndef EDGEWAY_SRC_COMMON_SOCKET_STORE_H
#define EDGEWAY_SRC_COMMON_SOCKET_STORE_H

#include "dns/dns.h"
#include "lb/lb.h"

struct socket_store;

void socket_store_new(struct socket_store **s);
/* Of the agent whose sockets were kept; 0: none were. */
size_t socket_store_workers(const struct socket_store *s);
/* Those of an agent with as many workers; else none are used. */
void socket_store_use(
	struct socket_store *s, size_t workers, uint16_t dns_port, struct dns *dns, struct lb *lb);
void socket_store_put(struct socket_store *s, const struct dns *dns, const struct lb *lb);
void socket_store_drop(struct socket_store *s);
void socket_store_free(struct socket_store **s);

#endif
