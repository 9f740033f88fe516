/*
 * Linux capabilities(7): a daemon gives up what it does not need. Called once, early, while the
 * process has one thread: capabilities belong to threads, and later threads inherit what is left.
 *
 *	privileges_keep(PRIVILEGE_NET_ADMIN | PRIVILEGE_NET_BIND, &err);
 *
 * Keeps only named capabilities that the process already had; it never gains any. The bounding set
 * shrinks as well where that is allowed (CAP_SETPCAP), and no_new_privs is set, so that no program
 * executed from here gets more.
 */
#ifndef EDGEWAY_BASE_CORE_PRIVILEGES_H
#define EDGEWAY_BASE_CORE_PRIVILEGES_H

#include <linux/capability.h>

#include "base/core/err.h"

#define PRIVILEGE_NET_ADMIN (UINT64_C(1) << CAP_NET_ADMIN)
#define PRIVILEGE_NET_BIND (UINT64_C(1) << CAP_NET_BIND_SERVICE)
/* Files of other users: read, write and replace them, and give them back to their owner. */
#define PRIVILEGE_FOREIGN_FILES                                                                    \
	(UINT64_C(1) << CAP_DAC_OVERRIDE | UINT64_C(1) << CAP_CHOWN | UINT64_C(1) << CAP_FOWNER)

/* 0, or -errno with the reason: then the capabilities are unchanged, but no_new_privs may be set.
 * -EBUSY: other threads exist already. */
int privileges_keep(uint64_t keep, struct err *err);
/* Only this thread drops all capabilities but `keep`. 0 or -errno. Threads share memory, so against
 * an attacker who runs code in this thread it is a hurdle, not a boundary. */
int privileges_keep_thread(uint64_t keep);
/* What this process holds is also held by the programs that it executes, whatever its user. 0 or
 * -errno. */
int privileges_pass_on(void);
/* The effective capabilities of this thread, one bit each. */
uint64_t privileges_held(void);
/* Is PRIVILEGE_FOREIGN_FILES needed for this path: does it belong to another user, or is it a
 * folder that its owner may not write to? False for a path that does not exist. */
bool privileges_foreign(const char *path);

#endif
