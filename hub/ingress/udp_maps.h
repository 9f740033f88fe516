/*
 * UDP listeners of the ingress (`ingress.udp`): a bound socket (tunnel/udp/udp_door.h) for each
 * map. Each flow's stream leads to the map's target, which is resolved, checked and opened as for a
 * TCP map (hub/routing/connector.h). On the hub's loop.
 *
 *	maps = udp_maps_new(&(struct udp_maps_config){.loop = loop, .reach = reach, .grants = grants});
 *	rc = udp_maps_open(maps, &(struct udp_map_setup){.listen = addr, .host = "edge-1", .port = 53}, &err);
 */
#ifndef EDGEWAY_HUB_INGRESS_UDP_MAPS_H
#define EDGEWAY_HUB_INGRESS_UDP_MAPS_H

#include "hub/port/grant.h"
#include "hub/routing/connector.h"

struct udp_maps;

struct udp_maps_config {
	struct loop *loop;
	struct connector *reach; /* these three outlive it */
	const struct grants *grants;
	struct self_guard *guard;
	uint64_t idle_ms; /* 0: UDP_IDLE_MS */
	unsigned flows; /* per map; 0: UDP_FLOWS */
};

struct udp_map_setup { /* copied */
	struct addr listen;
	const char *host;
	enum routes_names names; /* what that may be */
	uint16_t port;
	const char *dest; /* IP:port as the node `host` sees it, replaces port; NULL: none */
};

struct udp_maps *udp_maps_new(const struct udp_maps_config *config);
/* Ends all flows. */
void udp_maps_free(struct udp_maps **m);
int udp_maps_open(struct udp_maps *m, const struct udp_map_setup *setup, struct err *err);
/* Ends flows that the present rules would not open; returns how many. */
unsigned udp_maps_recheck(struct udp_maps *m);
/* No new flows; existing ones end once they are idle. */
void udp_maps_drain(struct udp_maps *m);
void udp_maps_metrics(const struct udp_maps *m, struct metrics *out);
/* [{"listen","target","flows","opened",...}] */
void udp_maps_state(const struct udp_maps *m, struct buf *out);
/* [{"listen","caller","target","state","age_ms","idle_ms",...}] */
void udp_maps_flows(const struct udp_maps *m, struct buf *out);

#endif
