/*
 * The ways by which this machine reaches others, for MPTCP (RFC 8684): where there are two and
 * more, each interface with a default route is an endpoint of the kernel's path manager, so that
 * connections made with MPTCP survive the loss of one. Those whose routes have the lowest metric
 * carry data; the others are backups, and carry it while no preferred one does. What others have
 * set (NetworkManager, `ip mptcp`) stays as it is: endpoints of ours have ids from
 * MULTIPATH_FIRST_ID on. Needs CAP_NET_ADMIN.
 *
 *	n = multipath_announce(kept, &err);	// at the start, and whenever the network has changed
 *	multipath_renew(is_lost, arg, &err);	// a path is dead, or was not opened
 *	multipath_withdraw();
 */
#ifndef EDGEWAY_IPTABLES_HOST_MULTIPATH_H
#define EDGEWAY_IPTABLES_HOST_MULTIPATH_H

#include <netinet/in.h>
#include <stdbool.h>

#include "base/core/err.h"

enum { MULTIPATH_FIRST_ID = 200, MULTIPATH_MOST = 8 };

/* Returns how many interfaces have a default route, or -errno: -EOPNOTSUPP without MPTCP in the
 * kernel. Where there are fewer than two, our endpoints are removed; kept: not those whose address
 * this machine still has, since the kernel would close what uses it. */
int multipath_announce(bool kept, struct err *err);
/* Removes each endpoint of ours that is lost, and announces it again: the kernel closes its
 * subflows, which the peer hears by another path, and begins new ones until one is answered.
 * Returns how many, or -errno. */
int multipath_renew(
	bool (*is_lost)(void *arg, const struct in6_addr *ip), void *arg, struct err *err);
/* Removes our endpoints, those of an earlier run as well; the kernel closes their subflows. */
void multipath_withdraw(void);

#endif
