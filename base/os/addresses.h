/*
 * The addresses of this machine, of IPv4 and IPv6 and of every interface, with the networks that
 * they lie in.
 *
 * `struct addresses` belongs to one loop and follows the kernel by rtnetlink(7); the list is also
 * read again when it is ADDRESSES_MS old. The functions with that prefix look whether the kernel
 * has told of a change before they answer, so that an address counts from the moment at which it
 * was added, even before the loop's next turn. Other loops get the new list
 * (base/core/address_list) from `changed`; there it is as old as the way of the message.
 *
 *	a = addresses_new(loop, on_changed, me);	// on_changed(me): addresses_list(a) is another now
 *	if (addresses_has(a, &ip))		// one of our own
 */
#ifndef EDGEWAY_BASE_OS_ADDRESSES_H
#define EDGEWAY_BASE_OS_ADDRESSES_H

#include "base/core/address_list.h"
#include "base/core/loop.h"

enum { ADDRESSES_MS = 5000 };

struct addresses;

/* Has read the list; `changed` (may be NULL) comes on the loop after each change, never from within
 * a call. */
struct addresses *addresses_new(struct loop *loop, loop_fn *changed, void *arg);
void addresses_free(struct addresses **a);
/* Never NULL; borrowed until the next call of a function that takes `a`, or the loop's next
 * turn. */
const struct address_list *addresses_list(struct addresses *a);
bool addresses_has(struct addresses *a, const struct in6_addr *ip);
bool addresses_on_net(struct addresses *a, const struct in6_addr *ip);

#endif
