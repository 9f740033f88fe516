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
#define MESH_MARK 0x45570001u /* SO_MARK of connections that agent and hub open: never DNATed */

enum {
	MESH_PROTOCOL = 1, /* doc/protocol.md, "Metadata": sent by both sides, must be equal */
};

#endif
