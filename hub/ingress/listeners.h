/*
 * Opens the listeners that the configuration's `ingress` names. A part of hub.c; the ingress owns
 * the listeners, the UDP maps own those for UDP.
 */
#ifndef EDGEWAY_HUB_INGRESS_LISTENERS_H
#define EDGEWAY_HUB_INGRESS_LISTENERS_H

#include "hub/hub.h"
#include "hub/ingress/ingress.h"
#include "hub/ingress/udp_maps.h"

/* 0, or -errno with the invalid key. */
int listeners_open(
	struct ingress *i, struct udp_maps *udp, const struct hub_ways_in *config, struct err *err);

/* Reloads the listeners' certificates: all of them or, on error, none. */
int listeners_renew(struct ingress *i, const struct hub_ways_in *config, struct err *err);

#endif
