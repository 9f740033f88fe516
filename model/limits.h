/*
 * What hub and agent agree on: how large a message, a service and its parts may be. The hub tells
 * nothing beyond these bounds (model/cluster/cluster refuses the service, with the reason), and the
 * agent's parsers refuse nothing within them, so that no object of a cluster can end a node's
 * connection (tests/unit/hub/kube/objects_random_test.c). An older peer has the same numbers: a
 * bound may be raised only behind a word in the handshake.
 */
#ifndef EDGEWAY_MODEL_LIMITS_H
#define EDGEWAY_MODEL_LIMITS_H

enum {
	/* A message: an envelope, or what a bundle holds. */
	ENVELOPE_MAX_BYTES = 8 * 1024 * 1024,
	BUNDLE_LINES_MAX = 65536, /* messages in one bundle */
	JSON_DEPTH_MAX = 64,
	JSON_VALUES_MAX = 200000, /* as json_values counts them */

	/* A view, which is the content of a message; the envelope around it takes less than the
	 * difference. */
	VIEW_MAX_BYTES = ENVELOPE_MAX_BYTES - 4096,
	VIEW_MAX_VALUES = JSON_VALUES_MAX - 64,
	VIEW_MAX_ENDPOINTS = 50000, /* of all its ports: an endpoint has four values at least */
	VIEW_MAX_MEMBERS = 50000, /* pods and addresses of a service, doubles included */

	/* node/callers, which together stay within a message. A pod beyond these is left out, so
	 * that it is nobody the node knows. */
	LOCAL_CALLERS_MAX = 1024, /* pods of one node */
	LOCAL_CALLERS_LABELS_MAX = 128, /* of a pod, of the node */
	LOCAL_CALLERS_POD_BYTES = 7 * 1024,

	VIEW_WHY_MAX = 255, /* bytes of a sentence */
	MESH_NAME_MAX = 63, /* DNS label: service and namespace */
	MESH_SERVICE_MAX = 127, /* <service>, or <hostname>.<service> for single pods */
	MESH_NODE_MAX = 253, /* DNS subdomain: node */
	MESH_TOKEN_MAX = 127, /* name of a header field or cookie */
	MESH_PORTS_MAX = 256, /* ports of one service */
	MESH_ENDPOINTS_MAX = 5000, /* endpoints of one port: the rest is left out, and told */
	MESH_HINTS_MAX = 8, /* zones or nodes of one endpoint's hints; Kubernetes allows 8 */
	MESH_AFFINITY_MAX_S = 86400, /* as Kubernetes has it */
	MESH_RETRIES_MAX = 10,
	MESH_CONNECTIONS_MAX = 1000000, /* of edgeway.io/max-connections */
	MESH_TIMEOUT_MAX_MS = 86400000,
	MESH_SLOW_START_MAX_MS = 900000,
	MESH_HASH_BALANCE_MAX = 1000, /* percent */
	MESH_OUTLIER_MAX = 1000, /* answers of 5xx in a row */
};

#endif
