/*
 * One instance per data folder: a lock on DIR/lock, held until the process hands over, or ends for
 * whatever reason. SO_REUSEPORT would otherwise let a second agent share the ports silently. One
 * agent per network namespace, too: two with different folders would fight over the nftables table
 * and resolv.conf. That lock is a port: ports belong to the network namespace, whatever files its
 * processes see, and binding one below 1024 takes CAP_NET_BIND_SERVICE. Any user could take
 * abstract Unix sockets, or locks on files under /proc, first.
 */
#ifndef EDGEWAY_SRC_COMMON_LOCK_H
#define EDGEWAY_SRC_COMMON_LOCK_H

#include "base/core/err.h"

/* Makes the folder (0700) if it is missing. -EBUSY names the process that holds the lock. On a full
 * or read-only file system the lock is taken if its file exists; if not, *fd stays as it is: the
 * node continues with what it has. */
int lock_take(const char *data_dir, int *fd, struct err *err);
/* UDP, in host byte order. A wildcard socket at the port, whoever owns it, conflicts as well: so
 * the port is one that is assigned to nothing. */
enum { LOCK_NETWORK_ADDRESS = 0x7f09fb01, LOCK_NETWORK_PORT = 251 };
/* The same for the network namespace. The descriptor can be passed to another process, which then
 * holds the lock too. */
int lock_network(int *fd, struct err *err);
/* The lock that the instance before us gave, -1: none, is ours now: the lock file names us to
 * others that find it taken. If that file was removed while it ran, the folder's is taken. -EINVAL:
 * it is another folder's. who: "agent" or "hub". */
int lock_inherit(const char *who, const char *data_dir, int *fd, struct err *err);

#endif
