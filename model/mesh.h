/*
 * Constants that several folders must agree on. See doc/protocol.md for those on the wire.
 */
#ifndef EDGEWAY_MODEL_MESH_H
#define EDGEWAY_MODEL_MESH_H

#include "model/limits.h"

#define MESH_PROJECT                                                                               \
	"e632aba927ea4ac2b575ec1603d56f10" /* KubeEdge's project id, in the websocket's path */
#define MESH_APPROVAL "approval" /* in place of a token's secret: an operator is asked */
#define MESH_CRL_HEADER "edgeway-crl" /* of a node that takes `node/crl` */
#define MESH_TUNNEL_HEADER "edgeway-tunnel" /* "off": the node opens none */
#define MESH_MARK 0x45570001u /* SO_MARK of agent's and hub's own dials: never DNATed */

enum {
	MESH_PROTOCOL = 1, /* doc/protocol.md, "Metadata": said by both sides, must be the same */
};

#endif
