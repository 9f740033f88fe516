/*
 * Follows one interface by rtnetlink: does it exist, is it up, which IPv4 address has it. A bridge
 * without carrier (docker0 before the first container) is up and has an address; one that
 * was set down has none that works. Reports come on the loop: the first one soon after iface_start,
 * then after each message of the kernel that concerns the interface, also when nothing differs
 * (the kernel drops routes silently when a link goes down and up).
 *
 *	iface_start(&iface, loop, "docker0", on_iface, self, err);
 */
#ifndef EDGEWAY_IPTABLES_HOST_IFACE_H
#define EDGEWAY_IPTABLES_HOST_IFACE_H

#include "base/core/buf.h"
#include "base/core/loop.h"

struct iface;

struct iface_state {
	int index; /* 0: no such interface */
	bool up; /* set up by the administrator; carrier or not */
	uint32_t address; /* host byte order; first one that is neither secondary nor of host scope,
			     0: none */
};

typedef void iface_fn(void *arg, const struct iface_state *state);

int iface_start(struct iface **f, struct loop *loop, const char *name, iface_fn *fn, void *arg,
	struct err *err);
void iface_stop(struct iface **f);
/* Appends every IPv4 address of this machine, uint32_t in host byte order. */
int iface_addresses(struct buf *out);
/* Appends each with its network. */
struct iface_network {
	uint32_t address, mask; /* host byte order */
};
int iface_networks(struct buf *out);

#endif
