/*
 * A new agent takes over from the one that runs (handover.h), over its admin socket, and a new hub
 * from a hub in the same way:
 *
 *	new					old
 *	POST /takeover ────────────────────────►  closes its database and its connection to the hub, leaves rules and resolv.conf
 *	◄── "edgeway-takeover 1 ..." and sockets  goes on serving; the second line is iptables_leave()'s
 *	reads the database, listens, serves
 *	"serving" ─────────────────────────────►  reads and accepts no more
 *	◄──────────────────────────────── "yours"  finishes what it has, and leaves the host as it is
 *
 * Until "yours" the new one leaves what is on the host as it finds it, but for what serving needs;
 * where the old one does not serve (no sockets came), it says "serving" as soon as it has tried.
 * Without that within HANDOVER_MS, or when the new one ends before, the old one says "mine" and
 * goes on as if nothing had been. Who hears "mine", serving or not, ends. An end without a word is
 * the other's death: who is left goes on. The sockets are the same in both, so no connection that
 * waits in one is lost. Loop 0, but for takeover_ask, which comes before there is one and waits.
 *
 *	takeover_ask(path, "agent", &t, err);	// 0 and NULL: nobody is there
 *	fds = takeover_sockets(t, &n);
 *	takeover_follow(t, loop, on_done, a);
 *	takeover_serving(t);
 */
#ifndef EDGEWAY_SRC_COMMON_TAKEOVER_H
#define EDGEWAY_SRC_COMMON_TAKEOVER_H

#include "base/core/loop.h"

enum { HANDOVER_MS = 10 * 1000 };

#define TAKEOVER_SERVING "serving\n"
#define TAKEOVER_YOURS "yours\n"
#define TAKEOVER_MINE "mine\n"
#define TAKEOVER_HEAD "edgeway-takeover 1 lock=%d workers=%zu\n"
#define TAKEOVER_HUB_HEAD                                                                          \
	"edgeway-takeover 1 hub sockets=%zu\n" /* and the lock of its dataDir before them */

struct takeover;

/* done: is it ours? */
typedef void takeover_fn(void *arg, bool ours);

/* who: "agent" or "hub", static; the two do not take over from one another. */
int takeover_ask(const char *path, const char *who, struct takeover **out, struct err *err);
/* The number of workers whose sockets come; 0: the other one does not listen. */
size_t takeover_workers(const struct takeover *t);
/* The locks, taken; *lock may be -1 (lock.h), and *network_lock is, of a hub. */
void takeover_locks(struct takeover *t, int *lock, int *network_lock);
/* What is to be put back at the end, for iptables_inherit(); "": the other one does not say. */
const char *takeover_estate(const struct takeover *t);
/* Those behind the locks, how many, and taken: an agent's, of each worker the proxy's, and then two
 * of DNS each; a hub's, in any order. */
int *takeover_sockets(struct takeover *t, size_t *n);
/* `done` follows, whether or not we serve by then, and not from within this call. */
void takeover_follow(struct takeover *t, struct loop *loop, takeover_fn *done, void *arg);
/* We serve. Again: nothing. */
void takeover_serving(struct takeover *t);
/* Was that said? */
bool takeover_offered(const struct takeover *t);
/* Without takeover_serving the other one goes on. */
void takeover_free(struct takeover **t);

#endif
