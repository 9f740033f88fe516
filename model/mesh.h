/*
 * Constants that several folders share. doc/protocol.md describes those of the protocol.
 */
#ifndef EDGEWAY_MODEL_MESH_H
#define EDGEWAY_MODEL_MESH_H

#include "model/limits.h"

#define MESH_PROJECT                                                                               \
	"e632aba927ea4ac2b575ec1603d56f10" /* KubeEdge's project id, in the websocket's path */
#define MESH_APPROVAL "approval" /* instead of a token's secret: an operator must approve */
#define MESH_CRL_HEADER "edgeway-crl" /* sent by a node that accepts `node/crl` */
#define MESH_TUNNEL_HEADER "edgeway-tunnel" /* "off": the node opens no tunnel */
#define MESH_ROUTES_KIND "routes" /* in edgeway-enforces: the node follows routes */
#define MESH_UPKEEP_HEADER "edgeway-upkeep" /* how a node keeps its connections */
#define MESH_UPKEEP_PROBES "probes" /* of the kernel (base/core/liveness.h) */
#define MESH_MARK 0x45570001u /* SO_MARK of connections that agent and hub open: never DNATed */
/* mesh.interface: auto. The bridges and pods' interfaces of Docker's user networks, CNI's bridge
 * plugin, kubenet, podman, nerdctl and kube-router; Calico's and the ptp plugin's have no bridge. A
 * LAN's bridge (br-lan) must not match: its machines are not to be served. */
#define MESH_BRIDGE "docker0"
#define MESH_HEX_DIGITS_3 "[0-9a-f][0-9a-f][0-9a-f]"
/* The first MESH_POD_BRIDGES of them are default networks: what is there counts as pods for the
 * tunnel (tunnel.allow: pods). Docker's user networks do not: a database that publishes no port is
 * not the cloud's. */
enum { MESH_POD_BRIDGES = 6 };
#define MESH_POD_INTERFACES                                                                        \
	MESH_BRIDGE, "cni0", "cbr0", "kube-bridge", "podman0", "cni-podman0", "edgeway0",          \
		"podman*", "cni-podman*", "nerdctl*", "cali*", "veth*",                            \
		"br-" MESH_HEX_DIGITS_3 MESH_HEX_DIGITS_3 MESH_HEX_DIGITS_3 MESH_HEX_DIGITS_3
#define MESH_OWN_ADDRESS "169.254.96.16" /* of edgeway0, unless mesh.address says otherwise */

enum {
	MESH_PROTOCOL = 1, /* doc/protocol.md, "Metadata": sent by both sides, must be equal */
};

#endif
