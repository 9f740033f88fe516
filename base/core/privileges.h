/*
 * Linux capabilities(7): a daemon gives up what it does not need. Called once, early, while the
 * process has one thread: capabilities belong to threads, and those that are started later inherit
 * what is left.
 *
 *	privileges_keep(PRIVILEGE_NET_ADMIN | PRIVILEGE_NET_BIND, &err);
 *
 * Kept is what is named here and was there before; nothing is ever gained. The bounding set shrinks
 * as well where that is allowed (CAP_SETPCAP), and no_new_privs is set, so that no program that is
 * run from here gets more.
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

/* 0, or -errno with the reason: then the process has what it had before, except for no_new_privs.
 * -EBUSY: there are threads already. */
int privileges_keep(uint64_t keep, struct err *err);
/* This thread gives up all others, the process keeps what it has. 0 or -errno. Threads share their
 * memory: a hurdle for who runs code of his own in it, not a wall. */
int privileges_keep_thread(uint64_t keep);
/* The effective capabilities of this thread, one bit each. */
uint64_t privileges_held(void);
/* Is PRIVILEGE_FOREIGN_FILES needed to use this path: another user's, or a folder that its owner
 * may not write into? One that does not exist is nobody's. */
bool privileges_foreign(const char *path);

#endif
