/*
 * Shared by the files of UDP maps: udp_maps.c (maps, state and metrics) and udp_flow.c (target of a
 * flow, access check). No other file includes it.
 */
#ifndef EDGEWAY_HUB_INGRESS_UDP_MAPS_PRIVATE_H
#define EDGEWAY_HUB_INGRESS_UDP_MAPS_PRIVATE_H

#include "hub/ingress/udp_maps.h"

struct udp_map {
	TAILQ_ENTRY(udp_map) entry;
	struct udp_maps *maps;
	char *host, *dest, *listen;
	enum routes_names names;
	uint16_t port;
	struct udp_door *door;
};

struct udp_maps {
	struct udp_maps_config config;
	TAILQ_HEAD(, udp_map) list;
	uint8_t *buffer; /* shared by the doors */
};

struct udp_trip { /* a flow's `own` while it is being connected or open */
	struct udp_flow *flow;
	struct udp_map *map;
	struct connect_op *reaching; /* until it is connected */
	struct grant grant;
	char *target; /* for the audit */
};

/* --- udp_flow.c ----------------------------------------------------------------------------- */
/* arg of the door: struct udp_map. */
extern const struct udp_door_events udp_map_events;
/* True, once, if the present rules would not open it. For an open flow. */
bool udp_flow_revoked(const struct udp_flow *f);
const char *udp_flow_caller(const struct udp_flow *f, char to[ACCESS_NAME_MAX + 8]);

#endif
