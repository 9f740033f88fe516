#include "hub/hub_private.h"

#include <string.h>

/*
 * The addresses in the status of Services with loadBalancerClass edgeway.io/node. Nodes that are
 * away for a moment, or have not come back yet after the hub's start, keep their place: clients
 * remember what DNS said of the address.
 */
enum { GATEWAY_AWAY_MS = 15 * 1000, GATEWAY_START_MS = 60 * 1000 };

static bool
gateway_is_alive(void *arg, const char *node)
{
	const struct hub *hub = arg;
	struct presence_row row;

	return presence_find(hub->presence, node, &row) &&
		(row.connected || (int64_t)wall_ms() - row.since_ms < GATEWAY_AWAY_MS);
}

/* Is each address of the list `some` in `all`? */
static bool
gateway_holds(const char *all, const char *some)
{
	while (*some != '\0') {
		size_t len = strcspn(some, ",");
		const char *at = all;

		while (*at != '\0' && (strcspn(at, ",") != len || memcmp(at, some, len) != 0)) {
			at += strcspn(at, ",");
			at += *at == ',';
		}
		if (*at == '\0')
			return false;
		some += len;
		some += *some == ',';
	}
	return true;
}

static void
gateway_look(void *arg, const struct cluster_gateway *g)
{
	struct hub *hub = arg;
	bool starting = loop_now_ms(hub->loop) - hub->began_ms < GATEWAY_START_MS;

	if (strcmp(g->has, g->wants) == 0 || (starting && !gateway_holds(g->wants, g->has)))
		route_status_drop_gateway(hub->route_status, g->ns, g->name);
	else
		route_status_tell_gateway(hub->route_status, g->ns, g->name, g->wants);
}

void
hub_gateway_settle(struct hub *hub)
{
	if (hub->route_status != NULL && hub->ready)
		cluster_each_gateway(hub->cluster, gateway_is_alive, gateway_look, hub);
}
