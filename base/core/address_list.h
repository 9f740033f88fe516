/*
 * Addresses of this machine as they were at one moment: immutable and reference-counted, for any
 * thread. base/os/addresses reads them, and keeps the newest.
 *
 *	kept = address_list_ref(addresses_list(a));
 *	if (address_list_has(kept, &ip))
 *	address_list_unref(&kept);
 */
#ifndef EDGEWAY_BASE_CORE_ADDRESS_LIST_H
#define EDGEWAY_BASE_CORE_ADDRESS_LIST_H

#include <net/if.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct own_address {
	struct in6_addr ip; /* IPv4 as ::ffff:a.b.c.d */
	unsigned bits; /* of its network, of 128 */
	/* in which the kernel says them: by interface, and there the first one first */
	unsigned order;
	unsigned flags; /* of the interface: IFF_UP, IFF_LOOPBACK */
	char interface[IF_NAMESIZE];
};

struct address_list {
	_Atomic unsigned refs;
	size_t n;
	/* in order of their addresses; one address may be on several interfaces */
	struct own_address list[];
};

/* Copies. */
struct address_list *address_list_new(const struct own_address *list, size_t n);
struct address_list *address_list_ref(const struct address_list *l);
void address_list_unref(struct address_list **l);
/* One of our own? An IPv6 address that wraps an IPv4 address (special_addr_inner) is that one.
 * NULL: there is none. */
bool address_list_has(const struct address_list *l, const struct in6_addr *ip);
/* In a network of one of them? */
bool address_list_on_net(const struct address_list *l, const struct in6_addr *ip);

#endif
