/*
 * The hub's view of a service: what it sends to the nodes, the same for all of them. It has every
 * route to an endpoint; the node picks its own with service_build.
 *
 * The JSON form (doc/protocol.md, "Service view") is canonical: equal views give equal bytes, and
 * the digest is XXH64 of these bytes with seed 0. Peer input: view_parse checks every bound.
 */
#ifndef EDGEWAY_MODEL_VIEW_H
#define EDGEWAY_MODEL_VIEW_H

#include "base/core/buf.h"
#include "model/backend_tls.h"
#include "model/dial_guard.h"
#include "model/service.h"

/* Which endpoints a caller should prefer (trafficDistribution). */
enum distribution { DISTRIBUTE_ALL, DISTRIBUTE_ZONE, DISTRIBUTE_NODE };

struct view_names {
	size_t n; /* at most MESH_HINTS_MAX */
	char **list;
};

/* Whose network a pod uses. An older hub leaves it out. */
enum pod_network { NETWORK_UNSAID, NETWORK_POD, NETWORK_HOST };

/* Where one pod (or bare address) serves one port. Port 0 or an empty address: no such route. Of a
 * dual-stack Service's endpoint, `other` addresses are those of the family that is not the
 * Service's first one, NULL or "" where there is none; older hubs leave them out. */
struct view_endpoint {
	char *node, *site, *zone, *hostname,
		*pod; /* "" when unknown; pod: name of the Pod object */
	bool node_public; /* the node is labelled as reachable from everywhere */
	uint8_t flags; /* ENDPOINT_READY | _SERVING | _TERMINATING */
	char *pod_ip; /* dialled on the pod's own node with pod_port */
	uint16_t pod_port;
	/* dialled from elsewhere in the site with host_port; without one it is the node's address,
	 * at which other nodes find its agent */
	char *host_ip;
	uint16_t host_port;
	/* enum pod_network; NETWORK_POD is sent where the addresses alone would look like
	 * hostNetwork */
	uint8_t network;
	/* used instead of host_ip from other sites, if the node has a public address of its own */
	char *public_ip;
	char *given_ip; /* address without a pod: every node dials it with given_port */
	uint16_t given_port;
	char *other_pod_ip, *other_host_ip, *other_public_ip, *other_given_ip;
	/* the zones and nodes that the endpoint is meant for */
	struct view_names hint_zones, hint_nodes;
	uint8_t gate; /* 0: all callers of the service; i: only those that gates[i - 1] permits */
};

/* An agent that knows no TLS towards the endpoints must not call them in clear: their list has
 * another name then, and it finds this reason why there are none. */
#define VIEW_WHY_TLS                                                                               \
	"a BackendTLSPolicy wants TLS towards the endpoints, which this agent is too old for: "    \
	"upgrade it"

struct view_port {
	char *name;
	uint16_t port;
	uint8_t mode; /* enum port_mode */
	uint8_t tls; /* 0: plain; i: TLS towards the endpoints, by tls[i - 1] of the view */
	bool extra; /* a pods' port that the Service does not declare */
	uint16_t node_port; /* served at the nodes' addresses; 0: none */
	/* readable reason why it has no endpoints, where the node cannot know; "" or NULL: none */
	char *why;
	size_t n_endpoints;
	struct view_endpoint *endpoints;
};

struct view {
	char *ns, *name;
	char *cluster_ip; /* "" none */
	char *cluster_ip6; /* beside an IPv4 one; NULL or "" none */
	char *external_name;
	bool headless;
	struct service_lb lb;
	char *hash_key, *health_path; /* as in struct service */
	bool local_only; /* internalTrafficPolicy Local: a node uses its own endpoints only */
	/* the hub dials those of its endpoints that no Pod stands for, for some node; older hubs
	 * leave it out */
	bool cloud;
	/* its calls from outside: externalTrafficPolicy Local, its addresses, and whether the nodes
	 * serve its ports at their own addresses; older hubs leave them out */
	bool external_local, gateway;
	uint16_t health_port; /* healthCheckNodePort; 0: none */
	struct view_names external_ips;
	uint8_t distribution; /* enum distribution */
	char *allow_from; /* who may call (model/allow_from.h); "": everybody */
	size_t n_gates; /* at most ALLOW_FROM_GATES_MAX */
	char **gates; /* the same for some endpoints */
	struct http_routes *routes; /* HTTPRoutes and GRPCRoutes (model/http_route.h); NULL: none */
	size_t n_tls; /* at most BACKEND_TLS_MAX */
	struct backend_tls **tls; /* model/backend_tls.h */
	size_t n_ports;
	struct view_port *ports;
};

/* Who this node is; from its own configuration and the hub's handshake message. */
struct self {
	const char *node;
	const char *site; /* "" when the mesh has one site */
	const char *zone;
	bool forward; /* the hub forwards to what this node cannot dial itself */
	uint8_t encrypt; /* enum encrypt, where a service does not say */
	bool apiserver; /* the same for default/kubernetes, before this node dials it itself */
	bool direct; /* agents of other nodes are dialled where their nodes' addresses may be */
	const struct dial_guard *guard; /* which addresses it may dial */
};

void view_free(struct view **v);
/* Are its callers restricted? */
bool view_restricted(const struct view *v);
void view_endpoint_fini(struct view_endpoint *e);
/* Adds a name, sorted and unique; false when the list is full. */
bool view_names_add(struct view_names *names, const char *name);
void view_names_copy(struct view_names *to, const struct view_names *from);
bool view_names_hold(const struct view_names *names, const char *name);
void view_names_fini(struct view_names *names);
const char *view_distribution_name(enum distribution distribution); /* "", "zone", "node" */
/* Appends the canonical JSON and returns its digest. */
uint64_t view_build(struct buf *out, const struct view *v);
/* Do pod and host have the same address and port, as with hostNetwork? */
bool view_endpoint_looks_host(const struct view_endpoint *e);
int view_parse(struct view **v, const char *json, size_t len, struct err *err);
uint64_t view_digest(const char *json, size_t len);

/* Marks and counts every endpoint that must not be dialled as refused: model/dial_guard.h. */
struct service *service_build(
	const struct view *v, const struct self *self, uint32_t fake_ip, uint64_t digest);
/* The service without the endpoints that the guard now refuses; NULL: there are none. */
struct service *service_recheck(const struct service *s, const struct dial_guard *guard);
/* Was an endpoint refused as this node's own address that is not own any more? Then the service
 * must be rebuilt. */
bool service_refused_in_vain(const struct service *s, const struct dial_guard *guard);

#endif
