#include "hub/port/route.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "model/check.h"

bool
node_name_ok(const char *name)
{
	return check_subdomain(name, strlen(name));
}

/* The text up to the next `/` or `?`, or to the end. */
static size_t
part_len(const char *at)
{
	return strcspn(at, "/?");
}

int
route_parse(struct route *route, const char *path)
{
	size_t len;

	if (*path++ != '/' || part_len(path) != strlen(MESH_PROJECT) ||
		strncmp(path, MESH_PROJECT, strlen(MESH_PROJECT)) != 0)
		return -ENOENT;
	path += strlen(MESH_PROJECT);
	if (*path++ != '/')
		return -ENOENT;
	len = part_len(path);
	if (path[len] != '/')
		return -ENOENT;
	if (len > MESH_NODE_MAX)
		return -EINVAL;
	memcpy(route->node, path, len);
	route->node[len] = '\0';
	path += len + 1;
	len = part_len(path);
	if (path[len] == '/')
		return -ENOENT;
	if (len == 6 && strncmp(path, "events", len) == 0)
		route->kind = ROUTE_EVENTS;
	else if (len == 4 && strncmp(path, "join", len) == 0)
		route->kind = ROUTE_JOIN;
	else if (len == 7 && strncmp(path, "carrier", len) == 0)
		route->kind = ROUTE_CARRIER;
	else
		return -ENOENT;
	return node_name_ok(route->node) ? 0 : -EINVAL;
}

const char *
route_bearer(const char *authorization)
{
	if (strncasecmp(authorization, "bearer ", 7) != 0)
		return "";
	authorization += 7;
	return authorization + strspn(authorization, " ");
}
