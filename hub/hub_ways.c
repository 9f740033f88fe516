#include "hub/hub_private.h"

#include <string.h>

#include "model/check.h"

static bool
at_edge(void *arg, const char *node)
{
	const struct hub *hub = arg;

	const struct certs *certs = authority_certs(hub->authority);

	return tunnels_have(hub->tunnels, node) || (certs != NULL && certs_taken(certs, node)) ||
		peers_know(hub->peers, node);
}

/* Returns true if the node is reached through the hub, by its own tunnel or by neighbours. */
static bool
hub_ways_led(void *arg, const char *node)
{
	const struct hub *hub = arg;

	return at_edge(arg, node) ||
		(hub->neighbour_queries != NULL &&
			neighbours_stand_for(inquiries_neighbours(hub->neighbour_queries), node));
}

static bool
edge_known(void *arg)
{
	const struct hub *hub = arg;

	return hub->authority != NULL && authority_ready(hub->authority) &&
		peers_settled(hub->peers);
}

static bool
services_known(void *arg)
{
	return hub_source_ready(arg);
}

static bool
hub_ways_tunnelled(void *arg, const char *node)
{
	const struct hub *hub = arg;

	return tunnels_have(hub->tunnels, node) || peers_epoch(hub->peers, node) != 0;
}

bool
hub_lacks_way(const struct hub *hub, const char *node)
{
	void *arg = (void *)(uintptr_t)hub;

	return edge_known(arg) && at_edge(arg, node) && !hub_ways_tunnelled(arg, node);
}

static bool
nodes_known(void *arg)
{
	return edge_known(arg) && hub_source_ready(arg);
}

static void
mark_dials(void *arg, uint32_t mark)
{
	const struct hub *hub = arg;

	local_dial_mark(hub->cloud, mark);
}

/* --- the hub itself ------------------------------------------------------------------------- */

static bool
is_named(void *arg, const struct in6_addr *ip)
{
	const struct hub *hub = arg;
	const struct certs *certs = authority_certs(hub->authority);

	return certs != NULL && certs_named(certs, ip);
}

static bool
is_known_as(void *arg, struct http1_str host)
{
	const struct hub *hub = arg;
	const struct certs *certs = authority_certs(hub->authority);

	return certs != NULL && certs_known_as(certs, host);
}

static bool
is_replica(void *arg, const struct in6_addr *ip)
{
	const struct hub *hub = arg;

	return peers_at_address(hub->peers, ip);
}

/* Finds out whether a tunnel of the node comes from the hub's own host. */
struct tunnel_source {
	struct self_guard *guard;
	const char *node;
	bool is_hub;
};

static void
look_at_tunnel(void *arg, const struct tunnel_facts *facts)
{
	struct tunnel_source *source = arg;
	struct in6_addr ip;
	struct addr from;

	if (strcmp(facts->node, source->node) == 0 &&
		addr_parse(&from, facts->address, 0, NULL) == 0 && addr_ip(&from, &ip))
		source->is_hub |= self_guard_is_hub(source->guard, &ip);
}

/* Returns true if the node is the host of this hub, or of another replica. */
static bool
is_hubs_host(struct hub *hub, const char *node)
{
	struct tunnel_source source = {.guard = hub->guard, .node = node};
	const char *const *addresses;
	struct in6_addr ip;
	size_t n;

	addresses = cluster_node_addresses(hub->cluster, node, &n);
	for (size_t i = 0; i < n; i++)
		if (ip_parse(addresses[i], &ip) && self_guard_is_hub(hub->guard, &ip))
			return true;
	tunnels_look(hub->tunnels, look_at_tunnel, &source);
	return source.is_hub;
}

const char *
hub_node_refuses(void *arg, const char *node, const char *authority)
{
	struct hub *hub = arg;
	const char *colon = strrchr(authority, ':');
	unsigned long port = colon != NULL ? strtoul(colon + 1, NULL, 10) : 0;
	struct in6_addr ip;
	struct addr to;

	if (hub->guard == NULL || port > UINT16_MAX ||
		!self_guard_is_listener(hub->guard, (uint16_t)port))
		return NULL;
	if (addr_parse(&to, authority, 0, NULL) == 0 && addr_ip(&to, &ip) && !ip_is_loopback(&ip) &&
		!self_guard_is_hub(hub->guard, &ip))
		return NULL; /* a pod there may use the same port */
	return is_hubs_host(hub, node)
		? "this node is the hub's own host, and the hub listens at this port"
		: NULL;
}

static void
note_listener(struct hub *hub, const char *listen)
{
	struct addr addr;

	if (listen != NULL && addr_parse(&addr, listen, 0, NULL) == 0)
		self_guard_listens(hub->guard, &addr);
}

static void
note_listeners_of(struct hub *hub, const struct tree_node *list)
{
	tree_each(list, entry) {
		note_listener(hub, tree_text(tree_get(entry, "listen"), NULL));
	}
}

void
hub_note_listeners(struct hub *hub, const struct hub_ways_in *config)
{
	self_guard_listens(hub->guard, &hub->nodes_config.listen);
	note_listener(hub, config->http);
	note_listener(hub, config->dns_listen);
	if (config->egress != NULL)
		note_listener(hub, tree_text(tree_get(config->egress, "listen"), NULL));
	note_listeners_of(hub, config->tls);
	note_listeners_of(hub, config->tcp);
	note_listeners_of(hub, config->udp);
	if (config->redirect.on)
		self_guard_listens(hub->guard, &config->redirect.listen);
	for (size_t i = 0; config->others[i] != NULL; i++)
		note_listener(hub, config->others[i]);
}

static int
start_redirect(struct hub *hub, const struct hub_redirect *wanted, struct err *err)
{
	const struct redirect_config config = {
		.loop = hub->loop,
		.addresses = hub->addresses,
		.cluster = hub->cluster,
		.ingress = hub->ingress,
		.guard = hub->guard,
		.at_edge = hub_ways_led,
		.known = nodes_known,
		.mark = mark_dials,
		.arg = hub,
	};
	int rc;

	hub->redirect = redirect_new(&config);
	rc = redirect_prepare(hub->redirect, wanted, err);
	if (rc == 0)
		redirect_commit(hub->redirect);
	return rc;
}

static void
hub_want_pod(void *arg, const char *ns, const char *address, uint16_t port, const char *asker)
{
	struct hub *hub = arg;

	fanout_forget_pods(hub->fanout, hub->cluster);
	cluster_pod_want(hub->cluster, ns, address, port, cluster_pod_asker(asker, 0));
	if (cluster_dirty(hub->cluster))
		hub_source_settle(hub);
}

static int
start_ingress(struct hub *hub, const struct hub_ways_in *config, const char *cluster_domain,
	struct err *err)
{
	struct routes_config ways = {
		.cluster = hub->cluster,
		.fanout = hub->fanout,
		.cluster_domain = cluster_domain,
		.suffix = or_empty(config->zone),
		.at_edge = at_edge,
		.edge_known = edge_known,
		.services_known = services_known,
		.tunnelled = hub_ways_tunnelled,
		.want_pod = hub_want_pod,
		.refuses = hub_node_refuses,
		.arg = hub,
	};
	int rc = acl_new(config->access, &hub->grants.access, err);

	if (rc < 0)
		return rc;
	hub->neighbour_queries = inquiries_new(&(struct inquiries_config){
		.loop = hub->loop,
		.addresses = hub->addresses,
		.cluster = hub->cluster,
		.access = hub->grants.access,
		.tunnels = hub->tunnels,
		.sites_only = hub->kubernetes != NULL,
		.tunnelled = hub_ways_tunnelled,
		.changed = hub_declared,
		.arg = hub,
	});
	hub->guard = self_guard_new(&(struct self_guard_config){
		.addresses = hub->addresses,
		.access = hub->grants.access,
		.named = is_named,
		.replica = is_replica,
		.arg = hub,
	});
	hub_note_listeners(hub, config);
	ways.neighbours = inquiries_neighbours(hub->neighbour_queries);
	ways.access = hub->grants.access;
	ways.guard = hub->guard;
	hub->grants.quota = quota_new(&config->limits);
	hub->ways = routes_new(&ways);
	hub->cloud = local_dial_new(hub->loop, hub->guard);
	hub->reach = connector_new(&(struct connector_config){
		.loop = hub->loop,
		.ways = hub->ways,
		.tunnels = hub->tunnels,
		.cloud = hub->cloud,
		.peers = hub->peers,
		.neighbours = ways.neighbours,
	});
	egress_use(hub->outward, hub->reach);
	hub->ingress = ingress_new(&(struct ingress_config){
		.preauth = hub->preauth,
		.workers = hub->workers,
		.sessions = hub->sessions,
		.loop = hub->loop,
		.reach = hub->reach,
		.grants = &hub->grants,
		.guard = hub->guard,
		.spans = config->spans,
		.known_as = is_known_as,
		.arg = hub,
	});
	hub->udp_maps = udp_maps_new(&(struct udp_maps_config){
		.loop = hub->loop,
		.reach = hub->reach,
		.grants = &hub->grants,
		.guard = hub->guard,
		.idle_ms = config->udp_idle_ms,
		.flows = config->udp_flows,
	});
	ingress_hold(hub->ingress, hub->held);
	rc = listeners_open(hub->ingress, hub->udp_maps, config, err);
	return rc < 0 ? rc : start_redirect(hub, &config->redirect, err);
}

static size_t
hub_ways_joined(void *arg, char ***names)
{
	const struct hub *hub = arg;

	return certs_nodes(authority_certs(hub->authority), names);
}

static uint64_t
joined_changes(void *arg)
{
	const struct hub *hub = arg;

	if (!edge_known(arg))
		return 0;
	return certs_changes(authority_certs(hub->authority)) +
		neighbours_changes(inquiries_neighbours(hub->neighbour_queries));
}

static bool
is_heard_of(void *arg, const char *node)
{
	const struct hub *hub = arg;

	return tunnels_have(hub->tunnels, node) || peers_know(hub->peers, node);
}

static int
start_naming(struct hub *hub, const struct hub_ways_in *config, struct err *err)
{
	const struct naming_config naming = {
		.loop = hub->loop,
		.cluster = hub->cluster,
		.api = hub->kubernetes != NULL ? kubernetes_api(hub->kubernetes) : NULL,
		.ways_in = config,
		.known = nodes_known,
		.at_edge = hub_ways_led,
		.is_heard_of = is_heard_of,
		.joined = hub_ways_joined,
		.joined_changes = joined_changes,
		.arg = hub,
	};

	return naming_start(&hub->naming, &naming, err);
}

int
hub_ways_start(struct hub *hub, const struct hub_ways_in *config, struct err *err)
{
	int rc = start_ingress(hub, config, hub->nodes_config.cluster_domain, err);

	return rc < 0 ? rc : start_naming(hub, config, err);
}
