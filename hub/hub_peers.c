#include "hub/hub_private.h"

#include <errno.h>

static void
on_changed(void *arg, const char *node)
{
	struct hub *hub = arg;

	if (hub->reach != NULL)
		connector_changed(hub->reach, node);
}

void
hub_tunnel_changed(void *arg, const char *node)
{
	struct hub *hub = arg;

	if (hub->nodes != NULL && tunnels_silent(hub->tunnels, node))
		nodes_doubt(hub->nodes, node);
	if (hub->peers != NULL)
		peers_tell(hub->peers, node);
	on_changed(hub, node);
}

uint64_t
hub_tunnel_claimed(void *arg, const char *node)
{
	const struct hub *hub = arg;

	return hub->peers != NULL ? peers_claimed(hub->peers, node) : 0;
}

static bool
is_node(void *arg, const char *node)
{
	const struct hub *hub = arg;
	const char *site, *zone;

	return cluster_node(hub->cluster, node, &site, &zone) == 0;
}

static void
each_joined(void *arg, void (*fn)(void *to, const char *node), void *to)
{
	const struct hub *hub = arg;
	const struct certs *certs = authority_certs(hub->authority);
	char **names = NULL;
	size_t n = certs != NULL ? certs_nodes(certs, &names) : 0;

	for (size_t i = 0; i < n; i++) {
		fn(to, names[i]);
		free(names[i]);
	}
	free(names);
}

/* The nodes that are reached through neighbours have changed. */
static void
hub_peers_poke(const struct hub *hub)
{
	if (hub->redirect != NULL)
		redirect_poke(hub->redirect);
}

struct declarations {
	const struct hub *hub;
	void (*fn)(void *to, const char *node, const char *entry);
	void *to;
};

/* A node that has moved to another replica declares there; its declaration here is out of date,
 * even if an old stream keeps its tunnel open. */
static void
on_declared(void *arg, const char *node, const char *entry)
{
	const struct declarations *d = arg;

	if (tunnels_have(d->hub->tunnels, node))
		d->fn(d->to, node, entry);
}

static void
hub_peers_declared(void *arg, const char *node,
	void (*fn)(void *to, const char *node, const char *entry), void *to)
{
	struct declarations d = {arg, fn, to};

	if (d.hub->neighbour_queries != NULL)
		neighbours_each(
			inquiries_neighbours(d.hub->neighbour_queries), node, on_declared, &d);
}

static void
on_heard(void *arg, const void *from, const struct peer_said *said)
{
	const struct hub *hub = arg;
	struct neighbours *n;

	if (hub->neighbour_queries == NULL)
		return;
	n = inquiries_neighbours(hub->neighbour_queries);
	if (said->word == PEER_SAYS_FORGETS)
		neighbours_unheard(n, from, said->node[0] != '\0' ? said->node : NULL);
	else
		neighbours_heard(
			n, from, said->node, said->word == PEER_SAYS_REACH ? said->entry : NULL);
}

static void
on_handed_over(void *arg, const void *from, const void *to)
{
	const struct hub *hub = arg;

	if (hub->neighbour_queries != NULL)
		neighbours_hand_over(inquiries_neighbours(hub->neighbour_queries), from, to);
}

int
hub_ask_node(void *arg, const char *node, const char *service, struct question *q)
{
	const struct hub *hub = arg;

	return hub->nodes != NULL ? nodes_ask(hub->nodes, node, service, q) : -ENOTCONN;
}

void
hub_declared(void *arg, const char *node)
{
	const struct hub *hub = arg;

	if (hub->peers != NULL)
		peers_tell_declared(hub->peers, node);
	on_changed(arg, node); /* requests that wait for a node may now use this one */
	hub_peers_poke(hub);
}

static bool
hub_certificate_revoked(void *arg, const char *serial)
{
	const struct hub *hub = arg;

	return certs_refuses_hub(authority_certs(hub->authority), serial);
}

static unsigned
hub_peers_came(
	void *arg, struct stream *st, const struct stream_request *request, const char **reason)
{
	const struct hub *hub = arg;

	return rendezvous_came(hub->rendezvous, st, request, reason);
}

static const char *
hub_peers_ration(void *arg, const char *node, const char *other)
{
	const struct hub *hub = arg;

	return rendezvous_ration(hub->rendezvous, node, other);
}

static void
hub_peers_passes(
	void *arg, const char *caller, const char *node, const char *service, const char *authority)
{
	const struct hub *hub = arg;
	static const char of_node[] = "node:";
	bool by_node = strncmp(caller, of_node, strlen(of_node)) == 0;

	if (hub->ways != NULL)
		routes_pass(hub->ways,
			&(struct routes_endpoint){
				.asker = by_node ? caller + strlen(of_node) : caller,
				.service = service,
				.node = node,
				.at = authority});
}

void
hub_peers_start(struct hub *hub, uint16_t port)
{
	hub->peers = peers_new(&(struct peers_config){
		.preauth = hub->preauth,
		.workers = hub->workers,
		.loop = hub->loop,
		.port = port,
		.tunnels = hub->tunnels,
		.grants = &hub->grants,
		.changed = on_changed,
		.wanted = is_node,
		.joined = each_joined,
		.declared = hub_peers_declared,
		.heard = on_heard,
		.handed_over = on_handed_over,
		.presence = hub->presence,
		.refuses = hub_node_refuses,
		.passes = hub_peers_passes,
		.came = hub_peers_came,
		.ration = hub_peers_ration,
		.ask = hub_ask_node,
		.revoked = hub_certificate_revoked,
		.arg = hub,
	});
}

int
hub_peers_configure(struct hub *hub, const char *const *names, struct err *err)
{
	static const char *const none[] = {NULL};
	const struct certs *certs = authority_certs(hub->authority);
	int rc = 0;

	if (names == NULL)
		names = none;
	if (names[0] != NULL && certs != NULL)
		rc = certs_check_peers(certs, err);
	return rc < 0 ? rc : peers_configure(hub->peers, names, err);
}
