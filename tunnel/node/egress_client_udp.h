/*
 * UDP ports of services whose endpoints this node cannot send to itself: each has a door of its own
 * (udp_door.h) at the mesh's address, to which the kernel leads what clients send to the service
 * (iptables/maps/service_maps.h), and each client's flow is a stream of the outlet to an endpoint
 * that stays its own for as long as the flow lives (outlet_udp_choice.h). Only what came by an
 * interface of the mesh is taken. On the loop's thread.
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
	EGRESS_CLIENT_UDP_FLOWS = 1024, /* of all ports together */
	EGRESS_CLIENT_UDP_SHARE = EGRESS_CLIENT_UDP_FLOWS / 4, /* of those, one client's */
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
/* Of the mesh, host byte order; 0: none. Another one than before: all doors are closed, and to be
 * asked for anew. */
void egress_client_udp_listen(struct egress_client_udp *u, uint32_t address);
/* old NULL: nothing before. */
void egress_client_udp_use(
	struct egress_client_udp *u, const struct snapshot *old, const struct snapshot *now);
/* The port of the mesh's address where this one is served; 0: it is not. */
uint16_t egress_client_udp_door(
	struct egress_client_udp *u, const struct service *s, const struct service_port *p);
/* Ends doors of ports that are gone, and flows whose endpoint is. */
void egress_client_udp_settle(struct egress_client_udp *u);
/* No new flows; those that are there end once they are quiet. */
void egress_client_udp_drain(struct egress_client_udp *u);
void egress_client_udp_metrics(const struct egress_client_udp *u, struct metrics *m);
/* JSON object. */
void egress_client_udp_state(const struct egress_client_udp *u, struct buf *out);

#endif
