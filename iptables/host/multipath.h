/*
 * The ways by which this machine reaches others, for MPTCP (RFC 8684): where there are two and
 * more, each interface with a default route is an endpoint of the kernel's path manager, so that
 * connections made with MPTCP use them all and survive the loss of one. What others have set
 * (NetworkManager, `ip mptcp`) stays as it is: endpoints of ours have ids from
 * MULTIPATH_FIRST_ID on. Needs CAP_NET_ADMIN.
 *
 *	n = multipath_announce(&err);	// at the start, and whenever the network has changed
 *	multipath_withdraw();
 */
#ifndef EDGEWAY_IPTABLES_HOST_MULTIPATH_H
#define EDGEWAY_IPTABLES_HOST_MULTIPATH_H

#include "base/core/err.h"

enum { MULTIPATH_FIRST_ID = 200, MULTIPATH_MOST = 8 };

/* Returns how many interfaces have a default route, or -errno: -EOPNOTSUPP without MPTCP in the
 * kernel. */
int multipath_announce(struct err *err);
/* Removes our endpoints, those of an earlier run as well; the kernel closes their subflows. */
void multipath_withdraw(void);

#endif
