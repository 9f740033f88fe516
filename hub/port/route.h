/*
 * What a node asks for in its request line, and which names nodes may have. Pure; a leaf of the
 * listener, fed with bytes of strangers.
 *
 *	struct route route;
 *	if (route_parse(&route, "/e632aba927ea4ac2b575ec1603d56f10/edge-1/events") < 0)
 *		return 404;
 */
#ifndef EDGEWAY_HUB_PORT_ROUTE_H
#define EDGEWAY_HUB_PORT_ROUTE_H

#include "base/core/util.h"
#include "model/mesh.h"

enum route_kind { ROUTE_EVENTS, ROUTE_JOIN, ROUTE_CARRIER };

struct route {
	enum route_kind kind;
	char node[MESH_NODE_MAX + 1];
};

/* A DNS subdomain in lower case (RFC 1123), as Kubernetes wants of node names: safe as a file name
 * too. */
bool node_name_ok(const char *name);
/* 0; -ENOENT unknown path or project; -EINVAL a node name that cannot be. A query behind '?' is
 * ignored. */
int route_parse(struct route *route, const char *path);
/* The credential of "Bearer <credential>" (RFC 6750; the scheme without case), "" when there is
 * none. */
const char *route_bearer(const char *authorization);

#endif
