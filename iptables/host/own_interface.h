/*
 * The mesh's own interface, where no bridge of the pods is to carry its address: a dummy that
 * exists before the first pod and outlives the last one, as NodeLocal DNSCache and EdgeMesh have.
 * Link-local by default, so that no network of the node can contain its address. Where the kernel
 * has no dummies it is a bridge without ports.
 *
 * With mesh.subnet6 it is there in any case, and has the mesh's IPv6 address with the range's
 * prefix, by which the kernel makes the route of the host's processes to the range.
 *
 *	rc = own_interface_make(0xa9fe6010, &none, &err);	// 169.254.96.16/32, and up
 */
#ifndef EDGEWAY_IPTABLES_HOST_OWN_INTERFACE_H
#define EDGEWAY_IPTABLES_HOST_OWN_INTERFACE_H

#include "model/fake6.h"

#define OWN_INTERFACE "edgeway0"

/* Address in host byte order, 0: none; of the range the mesh's own, if it is not empty. An
 * interface left by an earlier run is used again, with the addresses that it has. -EEXIST: there
 * is one of this name that no agent has made (ours have an alias). */
int own_interface_make(uint32_t address, const struct fake6 *range, struct err *err);
/* Also 0 if there is none, or none of ours. */
int own_interface_remove(struct err *err);
/* ip: IPv4 as ::ffff:a.b.c.d */
bool own_interface_has(const struct in6_addr *ip);
/* Remove what an earlier run has left: IPv6 addresses of other ranges, and IPv4 addresses but this
 * one. */
void own_interface_tidy(const struct fake6 *range);
void own_interface_tidy4(uint32_t address);

#endif
