#include "hub/hub_private.h"

static bool
at_edge(void *arg, const char *node)
{
	const struct hub *hub = arg;

	const struct certs *certs = authority_certs(hub->authority);

	return tunnels_have(hub->tunnels, node) || (certs != NULL && certs_taken(certs, node)) ||
		peers_know(hub->peers, node);
}

/* Is it reached through the hub, by a tunnel of its own or by neighbours? */
static bool
led(void *arg, const char *node)
{
	const struct hub *hub = arg;

	return at_edge(arg, node) ||
		(hub->inquiries != NULL &&
			neighbours_stand_for(inquiries_neighbours(hub->inquiries), node));
}

static bool
edge_known(void *arg)
{
	const struct hub *hub = arg;

	return hub->authority != NULL && authority_ready(hub->authority) &&
		peers_settled(hub->peers);
}

static bool
tunnelled(void *arg, const char *node)
{
	const struct hub *hub = arg;

	return tunnels_have(hub->tunnels, node) || peers_epoch(hub->peers, node) != 0;
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

	cloud_mark(hub->cloud, mark);
}

static int
start_redirect(struct hub *hub, const struct hub_redirect *wanted, struct err *err)
{
	const struct redirect_config config = {
		.loop = hub->loop,
		.addresses = hub->addresses,
		.cluster = hub->cluster,
		.ingress = hub->ingress,
		.at_edge = led,
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

static int
start_ingress(struct hub *hub, const struct hub_ways_in *config, const char *cluster_domain,
	struct err *err)
{
	struct ways_config ways = {
		.cluster = hub->cluster,
		.fanout = hub->fanout,
		.cluster_domain = cluster_domain,
		.suffix = or_empty(config->zone),
		.at_edge = at_edge,
		.edge_known = edge_known,
		.tunnelled = tunnelled,
		.arg = hub,
	};
	int rc = access_new(config->access, &hub->access, err);

	if (rc < 0)
		return rc;
	hub->inquiries = inquiries_new(&(struct inquiries_config){
		.loop = hub->loop,
		.addresses = hub->addresses,
		.cluster = hub->cluster,
		.access = hub->access,
		.tunnels = hub->tunnels,
		.sites_only = hub->kubernetes != NULL,
		.tunnelled = tunnelled,
		.changed = hub_declared,
		.arg = hub,
	});
	ways.neighbours = inquiries_neighbours(hub->inquiries);
	hub->quota = quota_new(&config->limits);
	hub->ways = ways_new(&ways);
	hub->cloud = cloud_new(hub->loop);
	hub->reach = reach_new(&(struct reach_config){
		.loop = hub->loop,
		.ways = hub->ways,
		.access = hub->access,
		.tunnels = hub->tunnels,
		.cloud = hub->cloud,
		.peers = hub->peers,
		.neighbours = ways.neighbours,
	});
	peers_use_quota(hub->peers, hub->quota);
	outward_use(hub->outward, hub->reach, hub->access, hub->quota);
	hub->ingress = ingress_new(&(struct ingress_config){
		.loop = hub->loop,
		.reach = hub->reach,
		.access = hub->access,
		.quota = hub->quota,
		.spans = config->spans,
	});
	hub->udp_maps = udp_maps_new(&(struct udp_maps_config){
		.loop = hub->loop,
		.reach = hub->reach,
		.access = hub->access,
		.quota = hub->quota,
		.idle_ms = config->udp_idle_ms,
		.flows = config->udp_flows,
	});
	rc = doors_open(hub->ingress, hub->udp_maps, config, err);
	return rc < 0 ? rc : start_redirect(hub, &config->redirect, err);
}

static size_t
joined(void *arg, char ***names)
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
		neighbours_changes(inquiries_neighbours(hub->inquiries));
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
		.at_edge = led,
		.is_heard_of = is_heard_of,
		.joined = joined,
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
