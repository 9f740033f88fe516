/*
 * Constants that several folders must agree on. See doc/protocol.md for those on the wire.
 */
#ifndef EDGEWAY_MODEL_MESH_H
#define EDGEWAY_MODEL_MESH_H

#define MESH_PROJECT                                                                               \
	"e632aba927ea4ac2b575ec1603d56f10" /* KubeEdge's project id, in the websocket's path */
#define MESH_APPROVAL "approval" /* in place of a token's secret: an operator is asked */
#define MESH_CRL_HEADER "edgeway-crl" /* of a node that takes `node/crl` */
#define MESH_MARK 0x45570001u /* SO_MARK of agent's and hub's own dials: never DNATed */

enum {
	MESH_PROTOCOL = 1, /* doc/protocol.md, "Metadata": said by both sides, must be the same */
	MESH_NAME_MAX = 63, /* DNS label: service and namespace */
	MESH_SERVICE_MAX = 127, /* <service>, or <hostname>.<service> for single pods */
	MESH_NODE_MAX = 253, /* DNS subdomain: node */
	MESH_TOKEN_MAX = 127, /* name of a header field or cookie */
	MESH_PORTS_MAX = 256, /* ports of one service that we accept */
	MESH_ENDPOINTS_MAX = 5000, /* endpoints of one service that we accept */
	MESH_HINTS_MAX = 8, /* zones or nodes of one endpoint's hints; Kubernetes allows 8 */
	MESH_AFFINITY_MAX_S = 86400, /* as Kubernetes has it */
	MESH_RETRIES_MAX = 10,
	MESH_CONNECTIONS_MAX = 1000000, /* of edgeway.io/max-connections */
	MESH_TIMEOUT_MAX_MS = 86400000,
	MESH_SLOW_START_MAX_MS = 900000,
	MESH_HASH_BALANCE_MAX = 1000, /* percent */
};

#endif
