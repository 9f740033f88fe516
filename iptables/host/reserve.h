/*
 * Keeps the listener's port out of the source ports of client connections: by
 * net.ipv4.ip_local_reserved_ports, a list like "8080,9000-9010"; all its other entries stay. A
 * port that was already reserved is not released by us, unless a killed run of ours had reserved it
 * (iptables_inherit).
 */
#ifndef EDGEWAY_IPTABLES_HOST_RESERVE_H
#define EDGEWAY_IPTABLES_HOST_RESERVE_H

#include "base/core/buf.h"
#include "base/core/err.h"

/* Pure: writes `list` with the port added or removed. Returns 1 if it changed, 0 if not, -EINVAL:
 * not a list of ports. */
int reserve_edit(struct buf *out, const char *list, uint16_t port, bool add);

/* 1: now reserved, release it with reserve_drop; 0: it already was. */
int reserve_take(uint16_t port, struct err *err);
int reserve_drop(uint16_t port, struct err *err);

#endif
