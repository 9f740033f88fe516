/*
 * The addresses and ports by which services are called from outside the cluster: NodePorts, and for
 * loadBalancerClass edgeway.io/node the service's own ports, at each address of this node, and
 * externalIPs. Says for each whether this node serves it, and if not, why. Pure, but for the
 * reading of held ports; part of service_maps.h. Loop 0.
 *
 *	external_each(&x, service, fn, arg);	// fn(arg, service, port, key)
 *	if (external_judge(&x, snapshot, service, port, key) == EXTERNAL_SERVED)
 */
#ifndef EDGEWAY_IPTABLES_MAPS_EXTERNAL_H
#define EDGEWAY_IPTABLES_MAPS_EXTERNAL_H

#include "base/core/address_list.h"
#include "iptables/maps/difference.h"
#include "model/fake6.h"
#include "model/snapshot.h"

enum external_verdict {
	EXTERNAL_SERVED,
	EXTERNAL_OFF, /* mesh.nodePorts, or another program serves them */
	EXTERNAL_NO_ADDRESS, /* the service has no fake IP */
	EXTERNAL_TAKEN, /* another service has the same address and port */
	EXTERNAL_HELD, /* a process of the node listens there, or nobody knows */
	EXTERNAL_RESTRICTED, /* UDP of a service that not everybody may call */
	EXTERNAL_LOOPBACK, /* UDP at 127.0.0.1 */
	EXTERNAL_NOT_HERE, /* externalTrafficPolicy Local, and no endpoint on this node */
	EXTERNAL_NO_ENDPOINT, /* UDP, and the kernel can send to none */
	EXTERNAL_VERDICTS
};

struct external {
	bool on;
	bool unknown; /* which ports are held could not be read */
	uint32_t subnet, mask; /* of the fake IPs */
	struct fake6 subnet6;
	struct buf addresses; /* struct in6_addr, of this node, ascending */
	struct buf held; /* iptables/host/held_ports.h */
};

typedef void external_fn(
	void *arg, const struct service *s, const struct service_port *p, const struct key *k);

/* Takes the addresses over that can be served: those of interfaces that are up, and 127.0.0.1.
 * Returns whether they have changed. */
bool external_addresses(struct external *x, const struct address_list *own);
/* Each address and port, served or not; for some services more than once. */
void external_each(const struct external *x, const struct service *s, external_fn *fn, void *arg);
enum external_verdict external_judge(const struct external *x, const struct snapshot *now,
	const struct service *s, const struct service_port *p, const struct key *k);
/* Reads which ports are held. */
void external_read_held(struct external *x);
/* "held", for metrics and state; a sentence for people. */
const char *external_verdict_name(enum external_verdict v);
const char *external_verdict_text(enum external_verdict v);

#endif
