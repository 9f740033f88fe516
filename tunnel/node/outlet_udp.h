/*
 * UDP ports of services whose endpoints this node cannot send to itself: each has a door of its own
 * (udp_door.h) at the mesh's address, to which the kernel leads what clients send to the service
 * (iptables/maps/frontends.h), and each client's flow is a stream of the outlet to an endpoint that
 * stays its own for as long as the flow lives (outlet_udp_choice.h). Only what came by an interface
 * of the mesh is taken. On the loop's thread.
 *
 *	outlet_udp_use(u, old, now);	// which ports there are
 *	port = outlet_udp_door(u, service, service_port);	// for the kernel: 0: none
 *	outlet_udp_settle(u);	// when the kernel knows: what is not wanted any more ends
 */
#ifndef EDGEWAY_TUNNEL_NODE_OUTLET_UDP_H
#define EDGEWAY_TUNNEL_NODE_OUTLET_UDP_H

#include "model/snapshot.h"
#include "tunnel/node/outlet.h"

enum {
	OUTLET_UDP_FLOWS = 1024, /* of all ports together */
	OUTLET_UDP_SHARE = OUTLET_UDP_FLOWS / 4, /* of those, one client's */
};

struct outlet_udp;

struct outlet_udp_config {
	struct loop *loop;
	struct outlet *outlet; /* outlives it */
	const char *const *interfaces; /* of the mesh; NULL-terminated, outlive it */
	uint64_t idle_ms; /* 0: UDP_IDLE_MS */
};

struct outlet_udp *outlet_udp_new(const struct outlet_udp_config *config);
/* Ends all flows. */
void outlet_udp_free(struct outlet_udp **u);
/* Of the mesh, host byte order; 0: none. Another one than before: all doors are closed, and to be
 * asked for anew. */
void outlet_udp_listen(struct outlet_udp *u, uint32_t address);
/* old NULL: nothing before. */
void outlet_udp_use(struct outlet_udp *u, const struct snapshot *old, const struct snapshot *now);
/* The port of the mesh's address where this one is served; 0: it is not. */
uint16_t outlet_udp_door(
	struct outlet_udp *u, const struct service *s, const struct service_port *p);
/* Ends doors of ports that are gone, and flows whose endpoint is. */
void outlet_udp_settle(struct outlet_udp *u);
/* No new flows; those that are there end once they are quiet. */
void outlet_udp_drain(struct outlet_udp *u);
void outlet_udp_metrics(const struct outlet_udp *u, struct metrics *m);
/* JSON object. */
void outlet_udp_state(const struct outlet_udp *u, struct buf *out);

#endif
