/*
 * The TCP and UDP ports that sockets of this machine hold: those that listen, and UDP sockets that
 * take datagrams of anybody. What they hold is theirs: NodePorts are not served there. Asked of the
 * kernel by sock_diag(7); sockets of pods, in network namespaces of their own, are not among them.
 * Any loop; takes as long as there are sockets, about a microsecond each.
 *
 *	buf_init(&list, BUF_UNLIMITED);
 *	rc = held_ports_read(&list, &err);	// replaces its content
 *	if (held_ports_has(&list, &ip, 30080, IPPROTO_TCP))
 */
#ifndef EDGEWAY_IPTABLES_HOST_HELD_PORTS_H
#define EDGEWAY_IPTABLES_HOST_HELD_PORTS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/core/buf.h"
#include "base/core/err.h"

/* -errno leaves the list as it was. */
int held_ports_read(struct buf *list, struct err *err);
/* By a socket at this address, or at any address. ip: IPv4 as ::ffff:a.b.c.d; port in host byte
 * order. */
bool held_ports_has(
	const struct buf *list, const struct in6_addr *ip, uint16_t port, uint8_t proto);

#endif
