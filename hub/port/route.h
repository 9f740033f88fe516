/*
 * Parses the request line of a node, and checks node names. Pure; used by the listener, with
 * untrusted bytes.
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

/* A DNS subdomain in lower case (RFC 1123), as Kubernetes requires for node names: also safe as a
 * file name. */
bool node_name_ok(const char *name);
/* 0; -ENOENT unknown path or project; -EINVAL an invalid node name. A query after '?' is
 * ignored. */
int route_parse(struct route *route, const char *path);
/* The credential of "Bearer <credential>" (RFC 6750; the scheme is case-insensitive); "": there is
 * none. */
const char *route_bearer(const char *authorization);

#endif
