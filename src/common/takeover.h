/*
 * The protocol by which a new agent takes over from a running one (handover.h), over the admin
 * socket; hubs do the same:
 *
 *	new					old
 *	POST /takeover?ipv6 ───────────────────►  closes its database and hub connection,
 *						  leaves rules and resolv.conf
 *	◄── "edgeway-takeover 1 ..." and sockets  continues to serve; 2nd line: iptables_leave()'s
 *	reads the database, listens, serves
 *	"serving" ─────────────────────────────►  reads and accepts no more
 *	◄──────────────────────────────── "yours"  finishes its work, leaves the host as it is
 *
 * Until "yours" the new daemon changes only what serving needs on the host. If the old daemon does
 * not serve (no sockets came), the new one says "serving" as soon as it has tried. If that is
 * missing for HANDOVER_MS, or if the new one ends first, the old one says "mine" and continues as
 * before. A new daemon that reads "mine" ends, whether it serves or not. If the connection ends
 * without a word, the other side has died: the remaining one continues. Both have the same sockets,
 * so no pending connection is lost. Loop 0, except takeover_ask, which runs before there is a loop
 * and blocks.
 *
 *	takeover_ask(path, "agent", &t, err);	// 0 and NULL: nobody is there
 *	takeover_sockets(t);	// sock_listen and sock_udp use them
 *	takeover_follow(t, loop, on_done, a);
 *	takeover_serving(t);
 */
#ifndef EDGEWAY_SRC_COMMON_TAKEOVER_H
#define EDGEWAY_SRC_COMMON_TAKEOVER_H

#include "base/core/loop.h"

enum { HANDOVER_MS = 10 * 1000 };

/* The new agent takes sockets of IPv6 as well, which follow those of IPv4 in the same order; an
 * older one would refuse them. */
#define TAKEOVER_IPV6 "ipv6"
#define TAKEOVER_SERVING "serving\n"
#define TAKEOVER_YOURS "yours\n"
#define TAKEOVER_MINE "mine\n"
#define TAKEOVER_HEAD "edgeway-takeover 1 lock=%d workers=%zu\n"
#define TAKEOVER_HUB_HEAD                                                                          \
	"edgeway-takeover 1 hub sockets=%zu\n" /* preceded by the lock of its dataDir */

struct takeover;

/* done: whether the service is ours now */
typedef void takeover_fn(void *arg, bool ours);

/* who: "agent" or "hub", static; an agent and a hub do not take over from each other. */
int takeover_ask(const char *path, const char *who, struct takeover **out, struct err *err);
/* The number of workers whose sockets come; 0: the other daemon does not listen. */
size_t takeover_workers(const struct takeover *t);
/* The locks; the caller takes them. *lock may be -1 (lock.h); *network_lock is -1 from a hub. */
void takeover_locks(struct takeover *t, int *lock, int *network_lock);
/* What must be restored on the host at the end, for iptables_inherit(); "": the other daemon does
 * not say. */
const char *takeover_estate(const struct takeover *t);
/* The descriptors after the locks are inherited (base/core/inherited). From an agent they come as
 * each worker's proxy socket, then UDP and TCP of each for DNS, and may follow for IPv6; from a hub
 * in any order. */
void takeover_sockets(struct takeover *t);
/* `done` is called later, whether or not we serve by then, and not from within this call. */
void takeover_follow(struct takeover *t, struct loop *loop, takeover_fn *done, void *arg);
/* We serve. Further calls do nothing. */
void takeover_serving(struct takeover *t);
/* Returns whether takeover_serving was called. */
bool takeover_offered(const struct takeover *t);
/* Without takeover_serving the other daemon continues. */
void takeover_free(struct takeover **t);

#endif
