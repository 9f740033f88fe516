/*
 * Resolves a name or address at the ingress to its routes; it sits between the cluster's objects
 * and hub/routing/connector.c. Names: SERVICE.NAMESPACE[.svc[.DOMAIN]], a ClusterIP, a node (its
 * own name, with or without the hub's suffix, or one of its addresses), a pod's address. A node
 * whose name is that of a Service as well is found only where no Service can be meant
 * (ROUTES_NODES, routes_find_at): its holder must not get the Service's calls. Private addresses
 * may repeat among sites: an ambiguous address is answered with 421 and the candidates.
 *
 * A node without a tunnel of its own may have neighbours that carry it (hub/routing/neighbours.h):
 * routes_beside adds the routes through them, once the node's own route has found no tunnel. An
 * address that no object of the cluster has, but that nodes of one site announce, is reached
 * through those nodes.
 *
 *	status = routes_find(w, "web.default", 80, &ways);	// 0, or 400, 404, 421, 503: ways.reason
 */
#ifndef EDGEWAY_HUB_ROUTING_ROUTES_H
#define EDGEWAY_HUB_ROUTING_ROUTES_H

#include "hub/port/acl.h"
#include "hub/port/self_guard.h"
#include "hub/routing/neighbours.h"
#include "hub/sync/fanout.h"
#include "model/mesh.h"

enum { ROUTES_MAX = 3, ROUTES_BESIDE_MAX = 3 };

/* A route: through the tunnel of `node`, or, if node is "", dialled by the hub itself. */
struct way {
	char node[MESH_NODE_MAX + 1];
	char authority[CALLER_HOST_MAX + 8]; /* host:port, as the far end dials it */
	char neighbour_authority
		[64]; /* the same as the node's neighbours dial it; "": they cannot */
	char final_node[MESH_NODE_MAX +
		/* the node that `node` dials as a neighbour, or REACHABLE_NETS_ANY; "": `node`
		 * itself */
		1];
	struct neighbours_way neighbour; /* with `final_node`: the neighbour's entry */
	/* only an EndpointSlice gives the address: no pod declares that it serves there; or it
	 * names no pod at all */
	bool given, without_pod;
};

struct routes {
	struct acl_target target; /* its texts point into this struct */
	char target_text[2][MESH_NODE_MAX + 1];
	char service[2 * MESH_NODE_MAX]; /* "namespace/name" if it is a service */
	struct way list[ROUTES_MAX + ROUTES_BESIDE_MAX]; /* in the order in which they are tried */
	size_t n;
	bool udp;
	bool encrypted; /* nobody may dial the node in clear text, as neighbours would */
	char reason[CALLER_REASON_MAX];
};

struct routes_config {
	const struct cluster *cluster;
	struct fanout *fanout;
	struct neighbours *neighbours; /* NULL: none */
	const struct acl *access; /* these two for routes_admit and routes_judge */
	struct self_guard *guard;
	const char *cluster_domain;
	const char *suffix; /* zone of the node names; "": none */
	/* True if the node is at the edge, reachable only through a tunnel. Else the hub dials
	 * it. */
	bool (*at_edge)(void *arg, const char *node);
	/* True once at_edge can be answered. NULL: always. Until then the hub dials neither nodes
	 * nor pods nor services: 503. */
	bool (*edge_known)(void *arg);
	/* True once Services, Nodes and Pods have been read. NULL: always. Until then a node whose
	 * name could be a Service's is not found by it, nor is anything by an address that no
	 * Service has, but loopback, and what a rule names as cloud/ADDRESS:PORT: 503. */
	bool (*services_known)(void *arg);
	/* True if the node has a tunnel now: endpoints on those nodes come first. */
	bool (*tunnelled)(void *arg, const char *node);
	/* A pod by its address ("ns/172-17-0-5._pod") that another replica was asked for may be
	 * wanted here as well, with this port (0: none), by this node. */
	void (*want_pod)(
		void *arg, const char *ns, const char *address, uint16_t port, const char *asker);
	/* Why the node's tunnel must not be used for host:port (static text); NULL: it may. */
	const char *(*refuses)(void *arg, const char *node, const char *authority);
	void *arg;
};

struct routes_finder;

struct routes_finder *routes_new(const struct routes_config *config);
void routes_free(struct routes_finder **f);
/* What a name may stand for. */
enum routes_names { ROUTES_ANY, ROUTES_NODES, ROUTES_SERVICES };
struct routes_wish {
	const char *host; /* without brackets */
	uint16_t port;
	enum routes_names names;
	bool udp; /* for datagrams: only the UDP ports of a service count */
};
unsigned routes_find_as(
	struct routes_finder *f, const struct routes_wish *wish, struct routes *out);
/* Any name, not for datagrams. */
unsigned routes_find(struct routes_finder *f, const char *host, uint16_t port, struct routes *out);
/* The Service ("namespace/name") that this name stands for, before any node; NULL: none. */
const char *routes_service(const struct routes_finder *f, const char *host);
/* `dest` (IP:port) is the target as the node `node` sees it: Yurt's X-Tunnel-Proxy-Dest.
 * The rules treat a pod's address as that pod. */
unsigned routes_find_at(
	struct routes_finder *f, const char *node, const char *dest, struct routes *out);
/* Call it before a find: 403 if no rule opens anything to the caller, which must not learn from
 * other answers which names there are. out: zeroed. */
unsigned routes_admit(
	const struct routes_finder *f, const struct caller *caller, struct routes *out);
/* Call it after a find and before anything is dialled: 403 if the rules do not open the target to
 * the caller. Drops routes that would end at the hub itself, and routes on which an EndpointSlice
 * leads to a port of a node itself, unless the caller may reach that port of that node; 403 if no
 * route is left. */
unsigned routes_judge(struct routes_finder *f, const struct caller *caller, struct routes *w);
/* The route `at` has found no tunnel: inserts the routes through the node's neighbours after it.
 * Returns how many; 0: *why (NULL: nobody has announced the node). */
size_t routes_beside(struct routes_finder *f, struct routes *w, size_t at, const char **why);
/* The caller of the next find: services that are not for everybody are refused, 403, to callers
 * that may not call them. NULL, the default: no caller, and nothing is refused. Borrowed until the
 * next routes_for. */
struct routes_caller {
	char node[ACCESS_NAME_MAX + 1]; /* "": none */
	bool enforces; /* with `node`: that node itself decides for each of its pods */
	/* without `node`: cert:NAME, token:NAME or local; "": none */
	char name[ACCESS_NAME_MAX + 8];
	struct in6_addr address;
	bool has_address;
};
void routes_caller_of(struct routes_caller *to, const struct caller *caller, bool enforces);
void routes_for(struct routes_finder *f, const struct routes_caller *caller);
struct routes_endpoint {
	/* the calling node: only services that it is told of */
	const char *asker;
	const char *service; /* "namespace/name" */
	const char *node; /* where the endpoint is */
	const char *at; /* host:port */
	bool udp; /* one of the service's UDP ports, else one of the others */
};
/* Another replica has found the endpoint, for a caller that it admits: a pod by its address is
 * wanted here too, so that its own node hears of it. */
void routes_pass(struct routes_finder *f, const struct routes_endpoint *wanted);
unsigned routes_find_endpoint(
	struct routes_finder *f, const struct routes_endpoint *wanted, struct routes *out);

#endif
