/*
 * Serves UDP ports of Services whose endpoints this node cannot send to itself. Each port has a
 * bound UDP socket (udp_door.h) at the mesh's address, to which the kernel redirects what clients
 * send to the Service (iptables/maps/service_maps.h). Each client's flow is a stream of the egress
 * client to one endpoint, which stays the same for the life of the flow
 * (egress_client_udp_choice.h). Only packets that arrive on an interface of the mesh are accepted.
 * On the loop's thread.
 *
 *	egress_client_udp_use(u, old, now);	// which ports there are
 *	port = egress_client_udp_door(u, service, service_port);	// for the kernel: 0: none
 *	egress_client_udp_settle(u);	// when the kernel knows: what is not wanted any more ends
 */
#ifndef EDGEWAY_TUNNEL_NODE_EGRESS_CLIENT_UDP_H
#define EDGEWAY_TUNNEL_NODE_EGRESS_CLIENT_UDP_H

#include "model/snapshot.h"
#include "tunnel/node/egress_client.h"

enum {
	EGRESS_CLIENT_UDP_FLOWS = 1024, /* for all ports together */
	/* of those, at most this many for one client */
	EGRESS_CLIENT_UDP_SHARE = EGRESS_CLIENT_UDP_FLOWS / 4,
};

struct egress_client_udp;

struct egress_client_udp_config {
	struct loop *loop;
	struct egress_client *outlet; /* outlives it */
	const char *const *interfaces; /* of the mesh; NULL-terminated, outlive it */
	uint64_t idle_ms; /* 0: UDP_IDLE_MS */
};

struct egress_client_udp *egress_client_udp_new(const struct egress_client_udp_config *config);
/* Ends all flows. */
void egress_client_udp_free(struct egress_client_udp **u);
/* Address of the mesh, host byte order; 0: none. If it differs from the previous one, all sockets
 * are closed, and must be requested again by egress_client_udp_door. */
void egress_client_udp_listen(struct egress_client_udp *u, uint32_t address);
/* old NULL: there was no snapshot before. */
void egress_client_udp_use(
	struct egress_client_udp *u, const struct snapshot *old, const struct snapshot *now);
/* The port at the mesh's address that serves this Service port; 0: not served. */
uint16_t egress_client_udp_door(
	struct egress_client_udp *u, const struct service *s, const struct service_port *p);
/* Closes the sockets of ports that are gone, and ends flows whose endpoint is gone. */
void egress_client_udp_settle(struct egress_client_udp *u);
/* No new flows; existing ones end once they are idle. */
void egress_client_udp_drain(struct egress_client_udp *u);
void egress_client_udp_metrics(const struct egress_client_udp *u, struct metrics *m);
/* JSON object. */
void egress_client_udp_state(const struct egress_client_udp *u, struct buf *out);

#endif
