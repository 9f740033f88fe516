/*
 * A worker's listening sockets, one for each family: accepts in batches and finds the service port
 * for each connection. Connections to the listener itself, or to addresses that belong to no
 * service, are reset: relaying them would loop back here for ever.
 */
#ifndef EDGEWAY_LB_PROXY_LISTENER_H
#define EDGEWAY_LB_PROXY_LISTENER_H

#include "lb/proxy/worker.h"

/* Takes fd and closes an earlier one of the family. -1: none. */
void listener_use(struct worker *w, bool six, int fd);
/* Accepts what is still in the kernel's queues (the kernel would reset it), then closes. */
void listener_finish(struct worker *w);
/* On each tick: tries again if it had run out of descriptors. */
void listener_tick(struct worker *w);

/* A client as a number, for shares and hashes: its IPv4 address, or a hash of its IPv6 address. */
uint32_t listener_client(const struct in6_addr *ip);
/* How many client connections this process's descriptor limit allows. */
uint64_t listener_connections(void);
/* The places that clients share while they wait for the hub's word on a pod. */
struct fair_share *listener_pod_places(void);

#endif
