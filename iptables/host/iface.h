/*
 * Follows one interface by rtnetlink: whether it exists, whether it is up, and its IPv4 address. A
 * bridge without carrier (docker0 before the first container) counts as up and has an address; an
 * interface that was set down has no usable address. Reports come on the loop: the first one soon
 * after iface_start, then after each kernel message about the interface, even if nothing differs
 * (the kernel drops routes silently when a link goes down and up).
 *
 *	iface_start(&iface, loop, "docker0", on_iface, self, err);
 */
#ifndef EDGEWAY_IPTABLES_HOST_IFACE_H
#define EDGEWAY_IPTABLES_HOST_IFACE_H

#include <netinet/in.h>

#include "base/core/buf.h"
#include "base/core/loop.h"

struct iface;

struct iface_state {
	int index; /* 0: no such interface */
	bool up; /* administratively up, with or without carrier */
	/* host byte order; the first that is neither secondary nor of host scope, 0: none */
	uint32_t address;
};

typedef void iface_fn(void *arg, const struct iface_state *state);

int iface_start(struct iface **f, struct loop *loop, const char *name, iface_fn *fn, void *arg,
	struct err *err);
/* Also reports when an interface comes or goes whose name matches one of these globs, borrowed and
 * NULL-terminated; see iface_match. */
void iface_follow(struct iface *f, const char *const *globs);
void iface_stop(struct iface **f);
/* Appends the names of the interfaces that match the glob (fnmatch(3)), each with its '\0'. */
int iface_match(const char *glob, struct buf *names);
/* Every address of this machine, struct in6_addr, IPv4 as ::ffff:a.b.c.d, ascending; into an empty
 * buffer. */
int iface_addresses(struct buf *out);
bool iface_addresses_have(const struct buf *addresses, const struct in6_addr *ip);
/* Appends each address with its network. */
struct iface_network {
	struct in6_addr address;
	unsigned bits; /* of 128, also of IPv4 */
	int index; /* of the interface */
};
int iface_networks(struct buf *out);

#endif
