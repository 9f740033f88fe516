/*
 * A bridge port whose other end is this process: a TAP device in the bridge. For the host, a frame
 * written to it is one that a pod has sent: it arrives on the bridge and passes all hooks and rules
 * that pods' packets pass. The device disappears with the descriptor, however the process ends.
 * Needs /dev/net/tun and CAP_NET_ADMIN. Any thread.
 *
 *	rc = bridge_port_open(&port, "docker0", 0xac11fffe, 0, mac, &err);
 *	n = read(port.fd, frame, sizeof frame);	// non-blocking; one frame per call, from its
 *						// Ethernet header on
 */
#ifndef EDGEWAY_IPTABLES_HOST_BRIDGE_PORT_H
#define EDGEWAY_IPTABLES_HOST_BRIDGE_PORT_H

#include <stdint.h>

#include "base/core/err.h"

enum { BRIDGE_PORT_MAC = 6 };

struct bridge_port {
	int fd; /* the owner closes it */
	char name[16]; /* IFNAMSIZ */
};

/* Only frames to `mac`, and ARP from or for `ip` and `also` (host byte order; `also` 0: none),
 * reach the descriptor. -ENOENT: there is no /dev/net/tun here; -EOPNOTSUPP: `bridge` is not a
 * bridge. */
int bridge_port_open(struct bridge_port *port, const char *bridge, uint32_t ip, uint32_t also,
	const uint8_t mac[BRIDGE_PORT_MAC], struct err *err);

#endif
