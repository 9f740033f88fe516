#include "hub/hub_private.h"

#include "base/core/descriptors.h"
#include "base/core/log.h"
#include "base/os/cgroup.h"
#include "iptables/iptables.h"
#include "model/selector.h"

enum {
	PORT = 10000,
	HEARTBEAT_MS = 4000,
	LOOK_MS = 2000,
	/* one of so many descriptors is for clients that have not authenticated */
	PREAUTH_PART = 4,
	PREAUTH_PLACES_MAX = 16384,
	/* A handshake whose client goes no further than its ClientHello: 34 kB were measured. */
	PREAUTH_BYTES = 40 * 1024,
	PREAUTH_MEMORY_PART = 2, /* of the control group's memory */
	SETTLE_TICK_MS = 10,
	SETTLE_MS = 1000, /* a client that is silent for so long after the accept gets 503 */
};

static bool
hub_refuses(void *arg, const char *node, const char *serial)
{
	const struct hub *hub = arg;

	return certs_refuses(authority_certs(hub->authority), node, serial);
}

static void
on_tunnel_news(void *arg, const char *node, enum tunnel_news news)
{
	const struct hub *hub = arg;

	if (hub->neighbour_queries != NULL)
		neighbour_query_news(hub->neighbour_queries, node, news);
}

static void
start_tunnels(struct hub *hub, uint64_t heartbeat_ms, bool compress)
{
	struct tunnels_setup setup = {
		.loop = hub->loop,
		.heartbeat_ms = heartbeat_ms,
		.liveness = hub->liveness,
		.squeeze = compress,
		.workers = hub->workers,
		.sessions = hub->sessions,
		.preauth = hub->preauth,
		.floods = hub->floods,
		.refuses = hub_refuses,
		.news = on_tunnel_news,
		.arg = hub,
		.changed = hub_tunnel_changed,
		.claimed = hub_tunnel_claimed,
		.others = hub,
	};

	setup.most = (size_t)MIN(descriptors_limit() * NODES_EIGHTHS / 8, (uint64_t)TUNNELS_MOST);
	hub->tunnels = tunnels_new(&setup);
	hub->rendezvous = rendezvous_new(&(struct rendezvous_config){.loop = hub->loop,
		.tunnels = hub->tunnels,
		.preauth = hub->preauth,
		.workers = hub->workers,
		.grants = &hub->grants,
		.refuses = hub_refuses,
		.arg = hub});
	hub->outward = egress_new(&hub->grants);
	setup.changed = NULL; /* the hub opens no streams in these */
	setup.claimed = NULL;
	setup.news = NULL;
	setup.opened = egress_opened;
	setup.opened_arg = hub->outward;
	setup.sessions = hub->outward_sessions;
	hub->outward_tunnels = tunnels_new(&setup);
}

/* Seen twice, as the whole program may have been stopped. */
static void
hub_look_at_threads(struct hub *hub)
{
	auto_free char *trouble = hub_thread_trouble(hub);

	if (trouble != NULL && hub->thread_silent)
		log_limited(LOG_LEVEL_ERROR, 60, "hub",
			"%s; restart the hub if it stays so (gdb -p tells where it is)", trouble);
	hub->thread_silent = trouble != NULL;
}

static void
on_look(void *arg)
{
	struct hub *hub = arg;

	hub_look_at_threads(hub);
	hub_disk_look(hub);
	if (authority_ready(hub->authority))
		hub_tell_revoked(hub);
	hub_explain(hub);
	hub_gateway_settle(hub);
	heap_give_back(&hub->heap); /* memory of nodes that are gone */
}

static int
start_web(struct hub *hub, const struct web_options *options, struct err *err)
{
	if (or_empty(options->listen)[0] == '\0')
		return 0;
	return web_start(&hub->web,
		&(struct web_config){
			.loop = hub->loop,
			.options = *options,
			.access = hub->grants.access,
			.guard = hub->guard,
			.peers = hub->peers,
			.ask = hub_ask_node,
			.sources = hub_web_sources,
			.arg = hub,
		},
		err);
}

static int
hub_start_parts(struct hub *hub, const struct hub_config *config, struct err *err)
{
	const char *domain = or_empty(config->cluster_domain);
	int rc;

	hub->nodes_config = (struct nodes_config){
		.settle = hub_source_settle,
		.settle_arg = hub,
		.heartbeat_ms = config->heartbeat_ms > 0 ? config->heartbeat_ms : HEARTBEAT_MS,
		.cluster_domain = domain[0] != '\0' ? domain : "cluster.local",
		.fanout = hub->fanout,
		.cluster = hub->cluster,
		.liveness = hub->liveness,
		.preauth = hub->preauth,
		.workers = hub->workers,
		.grants = &hub->grants,
	};
	if ((rc = addr_parse(&hub->nodes_config.listen, config->listen, PORT, err)) < 0)
		return err_wrap(err, rc, "listen");
	hub->held = config->held;
	start_tunnels(hub, hub->nodes_config.heartbeat_ms, config->compress);
	hub_peers_start(hub, addr_port(&hub->nodes_config.listen));
	if ((rc = hub_source_start(hub, config, err)) < 0 ||
		(rc = hub_authority_start(hub, config, err)) < 0 ||
		(rc = hub_peers_configure(hub, config->ways_in.peers, err)) < 0)
		return rc;
	if (authority_ready(hub->authority) && (rc = hub_nodes_start(hub, err)) < 0)
		return rc;
	hub->ways_in = config->ways_in;
	rc = hub_ways_start(hub, &config->ways_in, err);
	if (rc == 0)
		hub_source_use_access(hub);
	if (rc == 0)
		rc = start_web(hub, &config->web, err);
	if (rc < 0)
		return rc;
	hub->look = timer_new(hub->loop, on_look, hub);
	timer_start(hub->look, LOOK_MS, LOOK_MS);
	return 0;
}

static uint64_t
hub_preauth_places(void)
{
	const uint64_t memory = cgroup_memory_limit("/proc/self/cgroup", "/sys/fs/cgroup");

	return MIN(MIN(descriptors_limit() / PREAUTH_PART, (uint64_t)PREAUTH_PLACES_MAX),
		memory / PREAUTH_MEMORY_PART / PREAUTH_BYTES);
}

int
hub_start(struct hub **out, struct loop *loop, const struct hub_config *config, struct err *err)
{
	const size_t memory = session_budget_limit(TUNNELS_MEMORY, TUNNELS_MEMORY_MOST);
	struct hub *hub = xcalloc(1, sizeof *hub);
	struct loop *const *loops;
	uint64_t seed;
	int rc;

	hub->loop = hub->grants.loop = loop;
	hub->addresses = addresses_new(loop, NULL, NULL);
	hub->cluster = cluster_new();
	hub->fanout = fanout_new();
	hub->floods = floods_new("hub");
	hub->liveness = liveness_new();
	hub->presence = presence_new();
	hub->began_ms = loop_now_ms(loop);
	random_bytes(&seed, sizeof seed);
	hub->preauth = preauth_new(loop, hub_preauth_places(), seed);
	if (config->n_workers > 0) {
		hub->workers = tls_workers_new(config->workers, config->n_workers, hub->preauth);
		loops = config->workers + config->n_workers;
		hub->sessions =
			session_workers_new(loop, loops, config->n_workers, SESSION_CLIENT, memory);
		hub->outward_sessions =
			session_workers_new(loop, loops, config->n_workers, SESSION_SERVER, memory);
	}
	rc = hub_start_parts(hub, config, err);
	if (rc < 0)
		hub_stop(&hub);
	*out = hub;
	return rc;
}

int
hub_reload(struct hub *hub, const struct hub_ways_in *ways_in, struct err *err)
{
	struct acl *fresh = NULL;
	int rc = acl_new(ways_in->access, &fresh, err);
	unsigned cut;

	if (rc < 0)
		return rc;
	rc = redirect_prepare(hub->redirect, &ways_in->redirect, err);
	if (rc == 0 &&
		((rc = listeners_renew(hub->ingress, &hub->ways_in, err)) < 0 ||
			(rc = web_renew(hub->web, err)) < 0 ||
			(rc = hub_peers_configure(hub, ways_in->peers, err)) < 0))
		redirect_abandon(hub->redirect);
	if (rc < 0) {
		acl_free(&fresh);
		return rc;
	}
	hub_note_listeners(hub, ways_in);
	redirect_commit(hub->redirect);
	acl_adopt(hub->grants.access, &fresh);
	hub_source_use_access(hub);
	if (authority_ready(hub->authority))
		hub_tell_revoked(hub);
	quota_adopt(hub->grants.quota, &ways_in->limits);
	cut = ingress_recheck(hub->ingress) + udp_maps_recheck(hub->udp_maps) +
		egress_recheck(hub->outward) + web_recheck(hub->web);
	log_info("ingress", "rules of access adopted rules=%zu cut=%u",
		acl_count(hub->grants.access), cut);
	return 0;
}

/* --- hand-over between hubs ----------------------------------------------------------------- */

void
hub_open(struct hub *hub, bool joins)
{
	ingress_hold(hub->ingress, false);
	if (!joins)
		return;
	hub->held = false;
	if (hub->nodes != NULL)
		nodes_hold(hub->nodes, false);
}

void
hub_hold(struct hub *hub, bool held)
{
	struct certs *certs = authority_certs(hub->authority);

	if (hub->nodes != NULL)
		nodes_hold(hub->nodes, held);
	if (certs != NULL)
		ledger_hold(certs_ledger(certs), held);
	redirect_hold(hub->redirect, held);
}

size_t
hub_behind(const struct hub *hub)
{
	struct certs *certs = authority_certs(hub->authority);

	return certs != NULL ? ledger_behind(certs_ledger(certs)) : 0;
}

void
hub_leave(struct hub *hub)
{
	hub->leaves = true;
}

void
hub_sweep(void)
{
	struct err err = {0};
	int rc = divert_sweep(&err);

	if (rc > 0)
		log_info("hub",
			"removed the rules that an earlier run had left, since ingress.redirect is "
			"off table=\"ip " DIVERT_TABLE "\"");
	/* a hub that may not look could add no rules, unless it had more rights once */
	else if (rc < 0)
		log_debug("hub", "not looked for rules that an earlier run left: %s", err.text);
}

static void
on_drained(void *arg)
{
	struct hub *hub = arg;

	if (--hub->draining == 0)
		hub->drained(hub->drained_arg);
}

static void
hub_drain_tunnels(struct hub *hub)
{
	/* first: the other replicas then wait for the nodes */
	peers_drain(hub->peers, on_drained, hub);
	if (hub->nodes != NULL && (hub->leaves || peers_any(hub->peers)))
		nodes_leave(hub->nodes,
			hub->leaves ? "this hub hands over to a new one at its address"
				    : "this replica of the hub stops, another one serves");
	udp_maps_drain(hub->udp_maps);
	tunnels_drain(hub->tunnels, on_drained, hub);
	tunnels_drain(hub->outward_tunnels, on_drained, hub);
}

/* Keeps the nodes here until every client that was accepted before the next hub took over has been
 * connected to its node, at most for SETTLE_MS. */
static void
hub_on_settle(void *arg)
{
	struct hub *hub = arg;
	bool settled = ingress_settle(hub->ingress) == 0 && connector_pending(hub->reach) == 0;

	if (settled || loop_now_ms(hub->loop) >= hub->settle_until_ms)
		hub_drain_tunnels(hub);
	else
		timer_start(hub->settle, SETTLE_TICK_MS, 0);
}

void
hub_drain(struct hub *hub, void (*done)(void *arg), void *arg)
{
	hub->draining = 3;
	hub->drained = done;
	hub->drained_arg = arg;
	web_leave(hub->web);
	redirect_drain(hub->redirect);
	ingress_drain(hub->ingress);
	if (!hub->leaves) {
		hub_drain_tunnels(hub);
		return;
	}
	hub->settle_until_ms = loop_now_ms(hub->loop) + SETTLE_MS;
	hub->settle = timer_new(hub->loop, hub_on_settle, hub);
	timer_start(hub->settle, 0, 0);
}

void
hub_end_spans(struct hub *hub)
{
	ingress_end_spans(hub->ingress);
}

void
hub_stop(struct hub **out)
{
	struct hub *hub = take_ptr(out);

	if (hub == NULL)
		return;
	timer_free(&hub->again);
	timer_free(&hub->settle);
	timer_free(&hub->look);
	web_stop(&hub->web);
	nodes_stop(&hub->nodes);
	naming_stop(&hub->naming);
	ingress_free(&hub->ingress);
	redirect_free(&hub->redirect);
	hub_asks_end(hub);
	udp_maps_free(&hub->udp_maps);
	rendezvous_free(&hub->rendezvous);
	tunnels_free(&hub->outward_tunnels);
	egress_free(&hub->outward);
	connector_free(&hub->reach);
	peers_free(&hub->peers);
	local_dial_free(&hub->cloud);
	routes_free(&hub->ways);
	tunnels_free(&hub->tunnels);
	session_workers_free(&hub->sessions);
	session_workers_free(&hub->outward_sessions);
	tls_workers_free(&hub->workers);
	preauth_free(&hub->preauth);
	floods_free(&hub->floods);
	liveness_free(&hub->liveness);
	inquiries_free(&hub->neighbour_queries);
	self_guard_free(&hub->guard);
	acl_free(&hub->grants.access);
	quota_free(&hub->grants.quota);
	authority_stop(&hub->authority);
	manifests_stop(&hub->manifests);
	node_sites_stop(&hub->sites);
	route_status_free(&hub->route_status);
	kubernetes_stop(&hub->kubernetes);
	fanout_free(&hub->fanout);
	presence_free(&hub->presence);
	cluster_free(&hub->cluster);
	addresses_free(&hub->addresses);
	selector_free(&hub->join_nodes);
	free(hub->join_nodes_text);
	free(hub->data_dir);
	free(hub->disk_problem);
	free(hub->said);
	free(hub->ways_kept);
	free(hub);
}
