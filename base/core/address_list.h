/*
 * The addresses of this machine at one moment: immutable and reference-counted, for any thread.
 * base/os/addresses reads the addresses and keeps the newest list.
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
	unsigned bits; /* prefix length of its network, of 128 */
	/* the kernel's order: by interface, then the first address of each interface first */
	unsigned order;
	unsigned flags; /* the interface's: IFF_UP, IFF_LOOPBACK */
	bool broadcast; /* of the network of another entry: nobody's address, but it leads here */
	char interface[IF_NAMESIZE];
};

struct address_list {
	_Atomic unsigned refs;
	size_t n;
	/* sorted by address; one address may be on several interfaces */
	struct own_address list[];
};

/* Copies `list`. */
struct address_list *address_list_new(const struct own_address *list, size_t n);
struct address_list *address_list_ref(const struct address_list *l);
void address_list_unref(struct address_list **l);
/* Is this an address of this machine? An IPv6 address that wraps an IPv4 address
 * (special_addr_inner) counts as that one. l NULL: false. */
bool address_list_has(const struct address_list *l, const struct in6_addr *ip);
/* Does the address lie in the network of an own address? */
bool address_list_on_net(const struct address_list *l, const struct in6_addr *ip);

#endif
