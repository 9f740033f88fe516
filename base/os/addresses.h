/*
 * The IPv4 and IPv6 addresses of this machine, of every interface, with their networks.
 *
 * `struct addresses` belongs to one loop and follows the kernel by rtnetlink(7); it also re-reads
 * the list when that is ADDRESSES_MS old. The functions with the prefix addresses_ check for a
 * kernel notification before they answer, so that a new address counts at once, even before the
 * loop's next turn. Other loops get the new list (base/core/address_list) from `changed`; their
 * list lags by the time that this message takes.
 *
 *	a = addresses_new(loop, on_changed, me);	// on_changed(me): a new list
 *	if (addresses_has(a, &ip))		// an own address
 */
#ifndef EDGEWAY_BASE_OS_ADDRESSES_H
#define EDGEWAY_BASE_OS_ADDRESSES_H

#include "base/core/address_list.h"
#include "base/core/loop.h"

enum { ADDRESSES_MS = 5000 };

struct addresses;

/* Reads the list; `changed` (may be NULL) runs on the loop after each change, never from within a
 * call. */
struct addresses *addresses_new(struct loop *loop, loop_fn *changed, void *arg);
void addresses_free(struct addresses **a);
/* Never NULL; borrowed until the next call of a function that takes `a`, or the loop's next
 * turn. */
const struct address_list *addresses_list(struct addresses *a);
bool addresses_has(struct addresses *a, const struct in6_addr *ip);
bool addresses_on_net(struct addresses *a, const struct in6_addr *ip);

#endif
