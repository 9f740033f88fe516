/*
 * One instance per data folder: a lock on DIR/lock, held until the process ends, whatever ends it.
 * SO_REUSEPORT would let a second agent share the ports without a word. One agent per network
 * namespace, too: two with folders of their own would fight over the nftables table and
 * resolv.conf. That lock is a port: ports are the network namespace's, whatever files its processes
 * see, and those below 1024 nobody takes without CAP_NET_BIND_SERVICE. Abstract Unix sockets and
 * locks on files under /proc any user could take first.
 */
#ifndef EDGEWAY_SRC_COMMON_LOCK_H
#define EDGEWAY_SRC_COMMON_LOCK_H

#include "base/core/err.h"

/* Makes the folder (0700) when it is missing. -EBUSY names the process that holds the lock. On a
 * file system that is full or can only be read the lock is taken where its file is there, and *fd
 * stays as it is where not: a node goes on with what it knows. */
int lock_take(const char *data_dir, int *fd, struct err *err);
/* UDP, in host byte order. A wildcard socket at the port, of anybody's, counts as well: so it is
 * one that nothing is assigned to. */
enum { LOCK_NETWORK_ADDRESS = 0x7f09fb01, LOCK_NETWORK_PORT = 251 };
/* The same for the network namespace. The descriptor can be given to another process, which has the
 * lock then too. */
int lock_network(int *fd, struct err *err);
/* Is it the lock of this folder? */
bool lock_is_of(const char *data_dir, int fd);
/* The folder's is ours now, and names us to whoever finds it taken. -1: none. */
void lock_inherit(int lock);

#endif
