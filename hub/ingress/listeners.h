/*
 * Opens the listeners that the configuration's `ingress` names. A part of hub.c; the listeners
 * belong to the ingress, those of UDP to the UDP maps.
 */
#ifndef EDGEWAY_HUB_INGRESS_LISTENERS_H
#define EDGEWAY_HUB_INGRESS_LISTENERS_H

#include "hub/hub.h"
#include "hub/ingress/ingress.h"
#include "hub/ingress/udp_maps.h"

/* 0, or -errno with the key that is wrong. */
int listeners_open(
	struct ingress *i, struct udp_maps *udp, const struct hub_ways_in *config, struct err *err);

/* Reads the certificates of the listeners again: all of them or, with an error, none. */
int listeners_renew(struct ingress *i, const struct hub_ways_in *config, struct err *err);

#endif
