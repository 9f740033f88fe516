/*
 * Kubernetes objects, reduced to what the mesh needs: Service, Pod, EndpointSlice, Endpoints, Node,
 * NetworkPolicy, Namespace, Istio's DestinationRule, and HTTPRoute, GRPCRoute, ReferenceGrant and
 * BackendTLSPolicy of the Gateway API with the ConfigMaps that the latter names. Decoded from a
 * parsed document (base/conf/tree.h), so that every error says "file:line: what". Other kinds are
 * skipped without an error; List, ServiceList and so on are expanded.
 *
 *	struct kube_batch b;
 *	kube_read(&b, tree);	// a file; good objects load although others are wrong
 *	for (i = 0; i < b.n_complaints; i++)
 *		log_warn("manifests", "%s", b.complaints[i]);
 *	cluster_replace(cluster, path, &b);	// takes the objects
 *	kube_batch_fini(&b);
 *
 * Leaves. Null and absent are the same everywhere, as the API server writes both. Every text is
 * never NULL, "" when absent.
 */
#ifndef EDGEWAY_MODEL_KUBE_H
#define EDGEWAY_MODEL_KUBE_H

#include "base/conf/tree.h"
#include "model/http_route.h"
#include "model/view.h"

enum kube_kind {
	KUBE_SERVICE,
	KUBE_POD,
	KUBE_SLICE,
	KUBE_ENDPOINTS,
	KUBE_NODE,
	KUBE_RULE,
	KUBE_NETPOLICY,
	KUBE_NAMESPACE,
	KUBE_HTTPROUTE,
	KUBE_GRPCROUTE,
	KUBE_GRANT,
	KUBE_TLS_POLICY,
	KUBE_CONFIG_MAP,
};
enum { KUBE_KINDS = KUBE_CONFIG_MAP + 1, KUBE_NODE_ADDRESSES_MAX = 16 };

enum kube_protocol { KUBE_TCP, KUBE_UDP, KUBE_SCTP };

struct kube_label {
	char *key, *value;
};

struct kube_labels {
	size_t n;
	struct kube_label *list; /* by key, each once: an object may have tens of thousands */
};

struct kube_service_port {
	char *name, *app_protocol;
	uint8_t protocol; /* enum kube_protocol */
	uint16_t port;
	uint16_t target; /* targetPort by number; 0: by name */
	char *target_name;
	uint16_t node_port; /* 0: none */
};

#define KUBE_GATEWAY_CLASS "edgeway.io/node"

struct kube_service {
	bool excluded; /* its labels exclude it from the mesh */
	bool headless, publish_not_ready;
	char *cluster_ip, *external_name; /* cluster_ip: the IPv4 one, else the first */
	char *cluster_ip6; /* beside an IPv4 one; "" none */
	/* ipFamilies, or the families of clusterIPs; false where neither is given */
	bool dual, v6_first;
	struct service_lb lb;
	char *hash_key, *health_path; /* as in struct service */
	bool hash_given; /* an annotation sets the hash key */
	bool local_only; /* internalTrafficPolicy Local */
	bool external_local; /* externalTrafficPolicy Local */
	uint16_t health_port; /* healthCheckNodePort; 0: none */
	/* type LoadBalancer with loadBalancerClass KUBE_GATEWAY_CLASS: its nodes serve its ports at
	 * their own addresses */
	bool gateway;
	struct view_names external_ips; /* valid addresses */
	char *ingress; /* addresses in its status, as "192.0.2.1,192.0.2.2"; "": none */
	uint8_t distribution; /* enum distribution */
	struct kube_labels selector; /* empty: endpoints are created manually */
	char *nodes; /* selector (model/selector.h) of the nodes that get the service; "": all */
	char *nodes_wrong; /* error in the given selector; "": none */
	char *allow_from; /* who may call (model/allow_from.h); "": everybody */
	char *allow_from_wrong; /* error as in nodes_wrong; then nobody may call */
	size_t n_ports;
	struct kube_service_port *ports;
};

struct kube_container_port {
	char *name, *host_ip;
	uint8_t protocol;
	uint16_t port, host_port;
};

struct kube_pod {
	struct kube_labels labels;
	char *node, *hostname, *subdomain;
	char *pod_ip, *host_ip; /* first IPv4 of the lists, else the first */
	char *pod_ip6, *host_ip6; /* beside an IPv4 one; "" none */
	bool host_network, deleting, ended, ready;
	size_t n_ports;
	struct kube_container_port
		*ports; /* of containers and of sidecars (init containers that keep running) */
};

struct kube_endpoint_port {
	char *name, *app_protocol;
	uint8_t protocol;
	uint16_t port; /* 0: all ports */
};

struct kube_endpoint {
	char *ip, *node, *zone, *hostname;
	char *pod; /* targetRef of kind Pod, in the service's namespace */
	struct view_names hint_zones, hint_nodes;
	uint8_t flags; /* ENDPOINT_READY and so on */
};

/* Each endpoint serves each port. An EndpointSlice has one subset, Endpoints may have several. */
struct kube_subset {
	size_t n_ports, n_endpoints;
	struct kube_endpoint_port *ports;
	struct kube_endpoint *endpoints;
};

struct kube_endpoints {
	char *service; /* owning service; "": none */
	size_t n_subsets;
	struct kube_subset *subsets;
};

#define KUBE_SOURCE_ADDRESS                                                                        \
	"edgeway.io/source-address" /* annotation: address a hub saw, see hub/sync/node_sites.h */

struct kube_node {
	char *site, *zone;
	bool site_given; /* by a label; else it is source_address */
	char *source_address;
	bool not_ready; /* its condition Ready is not True */
	bool is_public; /* label edgeway.io/public */
	char *pod_cidr; /* spec.podCIDR, or the first IPv4 one of spec.podCIDRs; "" none */
	char *public_ip, *public_ip6; /* ExternalIP; public_ip6: beside an IPv4 one */
	struct kube_labels labels;
	/* all of status.addresses, InternalIPs first; includes Hostname and DNS names */
	char **addresses;
	size_t n_addresses; /* at most KUBE_NODE_ADDRESSES_MAX */
	size_t n_internal; /* how many of them are InternalIPs */
};

/* The parts of a DestinationRule that apply, where the Service's annotations do not set them. 0:
 * not set. */
struct kube_rule {
	char *service; /* the service, in the rule's namespace; "": none here */
	char *created; /* RFC 3339 in UTC, "" when unknown */
	char *partly; /* what of it does not apply, as readable text; "": everything applies */
	uint8_t policy, hash_on; /* as in struct service_lb */
	char *hash_key;
	uint32_t max_connections, connect_ms, outlier_ms;
	uint16_t outlier_5xx;
};

/* Selectors are texts of model/selector.h, "*" for all. */
struct kube_netpolicy_peer {
	char *addresses; /* in allow-from's syntax; NULL: the peer is pods */
	char *namespaces; /* NULL: the policy's own */
	char *pods;
};

struct kube_netpolicy_port {
	uint8_t protocol; /* enum kube_protocol */
	uint16_t from, to;
	char *name; /* instead of numbers; "" none */
};

struct kube_netpolicy_rule {
	bool anybody, any_port;
	size_t n_peers, n_ports;
	struct kube_netpolicy_peer *peers;
	struct kube_netpolicy_port *ports;
};

/* The ingress part of a NetworkPolicy. */
struct kube_netpolicy {
	bool ingress; /* false: it restricts nothing here */
	char *pods; /* the pods it restricts */
	size_t n_rules;
	struct kube_netpolicy_rule *rules;
};

#define KUBE_NAMESPACE_NAME "kubernetes.io/metadata.name" /* label of every namespace */

struct kube_namespace {
	struct kube_labels labels; /* its name among them */
};

/* A parentRef that names a Service; others are not ours. */
struct kube_route_parent {
	char *ns, *name; /* ns: the route's own unless it says another */
	char *section; /* name of the Service's port; "": any */
	uint16_t port; /* number of the Service's port; 0: any */
	bool ns_given;
};

/* Why a rule cannot be followed, as the condition's reason. */
enum kube_route_fault {
	KUBE_ROUTE_WELL,
	KUBE_ROUTE_UNSUPPORTED, /* UnsupportedValue */
	KUBE_ROUTE_INCOMPATIBLE, /* IncompatibleFilters */
};

struct kube_route_rule {
	/* its backends and mirrors are not resolved; answers 500 where it cannot be followed */
	struct http_route_rule rule;
	uint32_t n_matches;
	struct http_route_match *matches; /* `rule` is not set */
	/* for each backend and each mirror: "" a Service, else what it is instead */
	const char **backend_kinds, **mirror_kinds;
	uint8_t fault; /* enum kube_route_fault */
	bool dropped; /* with a fault: it is not known what it matches, so it matches nothing */
	const char *wrong; /* the fault as a sentence, "" none */
};

/* An HTTPRoute, or a GRPCRoute, whose matches become matches of paths. */
struct kube_route {
	char *created; /* as in struct kube_rule */
	uint64_t generation;
	char *resource_version; /* "" from a manifest */
	size_t n_parents, n_rules;
	struct kube_route_parent *parents;
	struct kube_route_rule *rules; /* in `parts`, as all that they point to */
	struct http_routes *parts;
	/* status.parents as JSON: the members of other controllers ("{..},{..}"), and our own */
	char *status_others, *status_own;
};

/* Objects of other namespaces that may refer to Services of the grant's own. */
struct kube_grant_from {
	char *kind, *ns; /* kind: HTTPRoute or GRPCRoute */
};
struct kube_grant {
	size_t n_from, n_to;
	struct kube_grant_from *from;
	char **to; /* names of Services; "": all */
};

/* A BackendTLSPolicy. Its targets are the parents of `route`, which must be first: whoever reads
 * statuses and ages takes it for a route. */
struct kube_tls_ca {
	char *name; /* of a ConfigMap */
	char *kind; /* "", else what it names instead of a ConfigMap */
};

struct kube_tls_policy {
	struct kube_route route; /* no rules */
	size_t n_cas;
	struct kube_tls_ca *cas;
	bool system; /* the CAs are the system's */
	struct backend_tls *names; /* host, hosts and uris are set */
	char *wrong; /* why it cannot be followed, "" */
};

struct kube_config_map {
	char *ca; /* ca.crt, "" */
	char *wrong; /* why ca.crt cannot be used, "" */
};

#define KUBE_GATEWAY_GROUP "gateway.networking.k8s.io"
#define KUBE_GATEWAY_CONTROLLER "edgeway.io/gateway-controller" /* controllerName in a status */

struct kube_object {
	enum kube_kind kind : 8;
	bool packed : 1; /* it and all that it points to are one block of memory */
	unsigned line; /* in its file */
	char *ns, *name; /* ns "" for a Node and a Namespace */
	union {
		struct kube_service service;
		struct kube_pod pod;
		struct kube_endpoints endpoints; /* KUBE_SLICE and KUBE_ENDPOINTS */
		struct kube_node node;
		struct kube_rule rule;
		struct kube_netpolicy netpolicy;
		struct kube_namespace namespace;
		struct kube_route route; /* KUBE_HTTPROUTE and KUBE_GRPCROUTE */
		struct kube_grant grant;
		struct kube_tls_policy tls_policy;
		struct kube_config_map config_map;
	};
};

const char *kube_kind_name(enum kube_kind kind);
/* Is it the kind's name, but for a slip of the pen? */
bool kube_kind_near(enum kube_kind kind, const char *said);
/* The label's value, NULL when there is none. labels may be NULL. */
const char *kube_labels_find(const struct kube_labels *labels, const char *key);
void kube_object_free(struct kube_object **o);

/*
 * Decodes one object: 0; 1 and *o NULL for a kind that does not matter here; -errno with err
 * "file:line: what". With 0, err may report something that was ignored (code 0, text not empty).
 * `kind`: for the items of a typed list, which do not name it themselves; else NULL.
 */
int kube_decode(struct kube_object **o, const char *file, const struct tree_node *n,
	const char *kind, struct err *err);
/* Is it a list of objects? Then gives its first item (NULL: empty) and the kind of the items ("":
 * the items name it). */
bool kube_items(const struct tree_node *n, const struct tree_node **first, char kind[64]);

struct kube_batch {
	struct kube_object **objects; /* an entry is NULL once it was taken */
	size_t n, room;
	char **complaints; /* "file:line: what" */
	size_t n_complaints,
		n_wrong; /* n_wrong: objects refused; other complaints kept the object */
	size_t n_skipped; /* objects of other kinds */
	bool unknown; /* a List whose `items` is not a list: its other objects are unknown */
};

/* Decodes everything in the tree. Never fails. */
void kube_read(struct kube_batch *b, const struct tree *t);
void kube_batch_fini(struct kube_batch *b);

#endif
