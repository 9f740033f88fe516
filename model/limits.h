/*
 * Limits that hub and agent share: the size of a message, of a service and of its parts. The hub
 * sends nothing beyond these limits (model/cluster/cluster refuses the service, with the reason),
 * and the agent's parsers refuse nothing within them, so that no object of a cluster can break a
 * node's connection (tests/unit/hub/kube/objects_random_test.c). Older peers have the same numbers:
 * raising a limit needs negotiation in the handshake.
 */
#ifndef EDGEWAY_MODEL_LIMITS_H
#define EDGEWAY_MODEL_LIMITS_H

enum {
	/* A message: an envelope, or a bundle's content. */
	ENVELOPE_MAX_BYTES = 8 * 1024 * 1024,
	BUNDLE_LINES_MAX = 65536, /* messages in one bundle */
	JSON_DEPTH_MAX = 64,
	JSON_VALUES_MAX = 200000, /* as json_values counts them */

	/* A view, which is a message's content; its envelope needs less than the difference. */
	VIEW_MAX_BYTES = ENVELOPE_MAX_BYTES - 4096,
	VIEW_MAX_VALUES = JSON_VALUES_MAX - 64,
	VIEW_MAX_ENDPOINTS = 50000, /* over all its ports: an endpoint has at least four values */
	VIEW_MAX_MEMBERS = 50000, /* pods and addresses of a service, duplicates included */

	/* node/callers, which together stay within a message. A pod beyond these limits is left out
	 * and so is unknown to the node. */
	LOCAL_CALLERS_MAX = 1024, /* pods of one node */
	LOCAL_CALLERS_LABELS_MAX = 128, /* of a pod, of the node */
	LOCAL_CALLERS_POD_BYTES = 7 * 1024,

	VIEW_WHY_MAX = 255, /* bytes of a reason */
	MESH_NODE_PODS_MAX = 1024, /* pods by their address that one node asks for */
	MESH_NAME_MAX = 63, /* DNS label: service and namespace */
	MESH_SERVICE_MAX = 127, /* <service>, or <hostname>.<service> for single pods */
	MESH_NODE_MAX = 253, /* DNS subdomain: node */
	MESH_TOKEN_MAX = 127, /* name of a header field or cookie */
	MESH_PORTS_MAX = 256, /* ports of one service */
	MESH_ENDPOINTS_MAX = 5000, /* endpoints of one port: the rest is left out, and reported */
	MESH_HINTS_MAX = 8, /* zones or nodes of one endpoint's hints; Kubernetes allows 8 */
	MESH_AFFINITY_MAX_S = 86400, /* as Kubernetes has it */
	MESH_RETRIES_MAX = 10,
	MESH_CONNECTIONS_MAX = 1000000, /* of edgeway.io/max-connections */
	MESH_TIMEOUT_MAX_MS = 86400000,
	MESH_SLOW_START_MAX_MS = 900000,
	MESH_HASH_BALANCE_MAX = 1000, /* percent */
	MESH_OUTLIER_MAX = 1000, /* consecutive 5xx responses */

	/* One HTTPRoute or GRPCRoute, as their CRDs have it. */
	ROUTE_PARENTS_MAX = 32,
	ROUTE_RULES_MAX = 16,
	ROUTE_MATCHES_MAX = 128, /* of all its rules */
	ROUTE_CONDITIONS_MAX = 16, /* header fields of a match; query parameters of it */
	ROUTE_FILTERS_MAX = 16,
	ROUTE_EDITS_MAX = 16, /* fields that one filter sets; adds; removes */
	ROUTE_BACKENDS_MAX = 16, /* of a rule */
	ROUTE_WEIGHT_MAX = 1000000,
	ROUTE_CODES_MAX = 16, /* statuses that a rule retries */
	ROUTE_ATTEMPTS_MAX = 100,
	ROUTE_BACKOFF_MAX_MS = 60000,
	ROUTE_SESSION_NAME_MAX = 128,
	ROUTE_SESSION_MAX_MS = 24 * 86400 * 1000, /* what an int holds */
	ROUTE_NAME_MAX = 256, /* bytes: a header field's or parameter's name */
	ROUTE_VALUE_MAX = 4096, /* its value */
	ROUTE_PATH_MAX = 1024,
	ROUTE_NAMESPACED_MAX = 2 * MESH_NODE_MAX + 1, /* "namespace/name" of a route */

	/* All routes of one service in its view: 1 024 routes of 16 rules. What is beyond these
	 * limits, or does not fit beside the endpoints, is not accepted, the youngest routes first:
	 * so nobody's routes can hold a service's endpoints back. */
	ROUTES_CONSUMER_PART = 8, /* one namespace's, of what those before it leave */
	ROUTES_RULES_MAX = 16384,
	ROUTES_MATCHES_MAX = 65536,
	ROUTES_TABLES_MAX = 1024,
	ROUTES_REGEX_MAX = 256,
	ROUTES_MAX_BYTES = 6 * 1024 * 1024,
	ROUTES_MAX_VALUES = 190000,

	/* BackendTLSPolicies. What is beyond makes the policy invalid, and calls fail. */
	BACKEND_TLS_MAX = 32, /* of one service's view */
	BACKEND_TLS_CAS_MAX = 8, /* ConfigMaps of a policy, as its CRD has it */
	BACKEND_TLS_NAMES_MAX = 16, /* subjectAltNames of a policy; 5 in its CRD */
	BACKEND_TLS_CA_MAX = 256 * 1024 - 1, /* bytes of a policy's CAs */
	BACKEND_TLS_CAS_BYTES = 1024 * 1024, /* the same of one service's view */
	BACKEND_TLS_HOSTNAME_CAS_BYTES =
		BACKEND_TLS_CAS_BYTES / 64, /* of the view of a headless service's hostname */
	BACKEND_TLS_WRONG_MAX = 1023,
};

#endif
