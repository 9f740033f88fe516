/*
 * Keeps the listener's port out of the range that client connections take their source ports from:
 * net.ipv4.ip_local_reserved_ports, a list such as "8080,9000-9010", of which all other entries
 * stay. A port that was reserved already is not ours to give back, unless by a run of ours that was
 * killed (iptables_inherit).
 */
#ifndef EDGEWAY_IPTABLES_HOST_RESERVE_H
#define EDGEWAY_IPTABLES_HOST_RESERVE_H

#include "base/core/buf.h"
#include "base/core/err.h"

/* Pure: writes `list` with the port added or removed; 1 when it changed, 0 when not, -EINVAL: no
 * such list. */
int reserve_edit(struct buf *out, const char *list, uint16_t port, bool add);

/* 1: reserved now, give it back with reserve_drop; 0: it already was. */
int reserve_take(uint16_t port, struct err *err);
int reserve_drop(uint16_t port, struct err *err);

#endif
