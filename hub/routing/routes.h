/*
 * What a name or address at the ingress stands for, and the ways to it: a leaf between the
 * cluster's objects and hub/routing/connector.c. Names: a node (its own name, with or without the
 * hub's suffix, or one of its addresses), a pod's address, SERVICE.NAMESPACE[.svc[.DOMAIN]], a
 * ClusterIP. Private addresses repeat among sites: who is meant must be clear, or the answer is 421
 * with the candidates.
 *
 *
 * A node without a tunnel of its own may have neighbours that carry it (hub/routing/neighbours.h):
 * routes_beside adds the ways through them, once its own way has found no tunnel. An address that
 * no object of the cluster has, and that nodes of one site declare, is reached through those.
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

/* Through the tunnel of `node`, or, where node is "", dialled by the hub itself. */
struct way {
	char node[MESH_NODE_MAX + 1];
	char authority[CALLER_HOST_MAX + 8]; /* host:port, as the far end dials it */
	char beside[64]; /* the same as the node's neighbours dial it; "": they do not */
	char meant[MESH_NODE_MAX +
		/* the node that `node` is to dial as a neighbour, or REACHABLE_NETS_ANY; "":
		 * itself */
		1];
	struct neighbours_way neighbour; /* then: which one that is */
	/* the address is an EndpointSlice's word alone: no pod says that it serves there */
	bool given;
};

struct routes {
	struct acl_target target; /* its texts point into this struct */
	char target_text[2][MESH_NODE_MAX + 1];
	char service[2 * MESH_NODE_MAX]; /* "namespace/name" where it is one */
	struct way list[ROUTES_MAX + ROUTES_BESIDE_MAX]; /* in the order in which they are tried */
	size_t n;
	bool udp;
	char reason[CALLER_REASON_MAX];
};

struct routes_config {
	const struct cluster *cluster;
	const struct fanout *fanout;
	struct neighbours *neighbours; /* NULL: none */
	const struct acl *access; /* these two for routes_judge */
	struct self_guard *guard;
	const char *cluster_domain;
	const char *suffix; /* zone of the node names; "" none */
	/* Is it a node at the edge, which can be reached through a tunnel only? Else the hub dials
	 * it. */
	bool (*at_edge)(void *arg, const char *node);
	/* Can at_edge be answered yet? NULL: always. Until then the hub dials neither nodes nor
	 * pods nor services, 503. */
	bool (*edge_known)(void *arg);
	/* Is there a tunnel now? Those nodes' endpoints come first. */
	bool (*tunnelled)(void *arg, const char *node);
	/* Why the node's tunnel leads nobody to host:port (static text); NULL: it may. */
	const char *(*refuses)(void *arg, const char *node, const char *authority);
	void *arg;
};

struct routes_finder;

struct routes_finder *routes_new(const struct routes_config *config);
void routes_free(struct routes_finder **f);
/* host: without brackets. */
unsigned routes_find(struct routes_finder *f, const char *host, uint16_t port, struct routes *out);
/* `dest` (IP:port, or a port) as the node `node` sees it: Yurt's X-Tunnel-Proxy-Dest. A pod's
 * address is that pod to the rules. */
/* The same of datagrams: of a service its ports of UDP. */
unsigned routes_find_udp(
	struct routes_finder *f, const char *host, uint16_t port, struct routes *out);
unsigned routes_find_at(
	struct routes_finder *f, const char *node, const char *dest, struct routes *out);
/* Once something is found, and before anything is dialled: 403 where the rules do not open the
 * target to the caller. Leaves out ways that would end at the hub itself, and those on which an
 * EndpointSlice leads to a port of a node itself, unless the caller may reach that port of that
 * node; 403 when none is left. */
unsigned routes_judge(struct routes_finder *f, const struct caller *caller, struct routes *w);
/* The way `at` has found no tunnel: puts those through the node's neighbours behind it. How many;
 * 0: *why (NULL: nobody has declared the node). */
size_t routes_beside(struct routes_finder *f, struct routes *w, size_t at, const char **why);
/* Whose call the next find is for: services that are not for everybody are left out for callers
 * that may not call them, 403. NULL, as in the beginning: nobody's, and nothing is left out.
 * Borrowed until the next routes_for. */
struct routes_caller {
	char node[ACCESS_NAME_MAX + 1]; /* "" none */
	bool enforces; /* then: that node judges by pod itself */
	char name[ACCESS_NAME_MAX + 8]; /* else: cert:NAME, token:NAME or local; "" none */
	struct in6_addr address;
	bool has_address;
};
void routes_caller_of(struct routes_caller *to, const struct caller *caller, bool enforces);
void routes_for(struct routes_finder *f, const struct routes_caller *caller);
struct routes_endpoint {
	/* the node that wants to reach it: it must be one that is told of the service */
	const char *asker;
	const char *service; /* "namespace/name" */
	const char *node; /* where the endpoint is */
	const char *at; /* host:port */
	bool udp; /* among the service's ports of UDP, else among the others */
};
unsigned routes_find_endpoint(
	struct routes_finder *f, const struct routes_endpoint *wanted, struct routes *out);

#endif
