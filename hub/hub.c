#include "hub/hub_private.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/log.h"
#include "iptables/iptables.h"

enum { PORT = 10000, HEARTBEAT_MS = 4000, EXPLAIN_MS = 2000, AGAIN_MS = 10 * 1000 };

enum { UNSERVED_MAX = 16384 }; /* services of nodes that are told by Events */

static const char *
or_empty(const char *s)
{
	return s != NULL ? s : "";
}

/* --- from the source to the nodes ----------------------------------------- */

static bool
source_ready(const struct hub *hub)
{
	return hub->manifests != NULL
		? manifests_ready(hub->manifests)
		: hub->kubernetes != NULL && kubernetes_ready(hub->kubernetes);
}

static void
on_changed(void *arg)
{
	struct hub *hub = arg;
	struct cluster_change change;
	struct err err = {0};
	char *note;

	while (cluster_next_change(hub->cluster, &change)) {
		hub->n_changes++;
		if (change.view == NULL)
			fanout_remove(hub->fanout, change.ns, change.name);
		else if (fanout_set(hub->fanout, &change, &err) < 0)
			log_error("hub", "a service stays as it was: %s", err.text);
		cluster_change_fini(&change);
	}
	for (; (note = cluster_next_note(hub->cluster)) != NULL; free(note))
		log_limited(LOG_LEVEL_WARN, 20, "hub", "%s", note);
	fanout_settle(hub->fanout);
	if (hub->redirect != NULL)
		redirect_poke(hub->redirect);
	/* During manifests_start there are none yet. */
	if (hub->nodes == NULL)
		return;
	nodes_refresh(hub->nodes);
	if (!hub->ready && source_ready(hub)) {
		hub->ready = true;
		nodes_ready(hub->nodes);
	}
}

/* What nodes cannot serve, in order of services and then of nodes. */
struct unserved {
	struct row {
		const char *key, *node; /* borrowed */
	} * rows;
	size_t n;
};

static void
add_unserved(void *arg, const char *key, const char *node)
{
	struct unserved *u = arg;

	if (u->n == UNSERVED_MAX)
		return;
	if ((u->n & (u->n - 1)) == 0)
		u->rows = xrealloc(u->rows, MAX(u->n * 2, (size_t)1) * sizeof *u->rows);
	u->rows[u->n++] = (struct row){key, node};
}

static int
compare_rows(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	int order = strcmp(x->key, y->key);

	return order != 0 ? order : strcmp(x->node, y->node);
}

/* The first node that cannot serve it: the same one for as long as it says so, since each text is an Event. NULL: none. */
static const char *
find_unserved(const struct unserved *u, const char *key)
{
	size_t low = 0, high = u->n;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (strcmp(u->rows[mid].key, key) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low < u->n && strcmp(u->rows[low].key, key) == 0 ? u->rows[low].node : NULL;
}

static void
explain(const struct hub *hub, struct kube_events *events, const char *key,
	const struct unserved *unserved)
{
	const char *name = strchr(key, '/') + 1, *node = find_unserved(unserved, key);
	auto_free char *ns = xstrndup(key, (size_t)(name - 1 - key));
	const char *reason = cluster_reason(hub->cluster, ns, name);
	auto_free char *text = NULL, *rules = cluster_rule_problem(hub->cluster, ns, name);

	kube_events_tell(events, ns, name, EVENT_RULE, rules);
	if (cluster_selector_wrong(hub->cluster, ns, name)) {
		kube_events_tell(events, ns, name, EVENT_SELECTOR, reason);
	} else if (node != NULL) {
		text = xasprintf("no fake IP is left for it on some nodes, such as %s: its name "
				 "does not exist there; choose a larger mesh.subnet",
			node);
		kube_events_tell(events, ns, name, EVENT_EXHAUSTED, text);
	} else {
		kube_events_tell(events, ns, name, EVENT_UNREACHABLE, reason);
	}
}

static void
on_source(void *arg, const char *node, const char *address)
{
	node_sites_saw(arg, node, address);
}

/* Tells the Kubernetes source what is to be said of its Services and Nodes. */
static void
on_explain(void *arg)
{
	struct hub *hub = arg;
	struct kube_events *events =
		hub->kubernetes != NULL ? kubernetes_events(hub->kubernetes) : NULL;
	struct unserved unserved = {0};

	if (events == NULL)
		return;
	if (hub->nodes != NULL)
		nodes_sources(hub->nodes, on_source, hub->sites);
	if (hub->nodes != NULL)
		nodes_unserved(hub->nodes, add_unserved, &unserved);
	if (unserved.n > 1)
		qsort(unserved.rows, unserved.n, sizeof *unserved.rows, compare_rows);
	kube_events_begin(events);
	for (uint32_t i = 0; i < fanout_slots(hub->fanout); i++) {
		const struct fanout_item *item = fanout_at(hub->fanout, i);

		/* A name with a dot is of a pod's own view, not of a Service. */
		if (item != NULL && item->present && strchr(strchr(item->key, '/'), '.') == NULL)
			explain(hub, events, item->key, &unserved);
	}
	kube_events_end(events);
	free(unserved.rows);
}

/* --- nodes --------------------------------------------------------------------- */

/* The host part of the listen address for the certificate; "" when it is any. */
static const char *
listen_host(const struct addr *a, char to[INET6_ADDRSTRLEN])
{
	to[0] = '\0';
	if (a->sa.sa_family == AF_INET && a->in.sin_addr.s_addr != htonl(INADDR_ANY))
		inet_ntop(AF_INET, &a->in.sin_addr, to, INET6_ADDRSTRLEN);
	else if (a->sa.sa_family == AF_INET6 && !IN6_IS_ADDR_UNSPECIFIED(&a->in6.sin6_addr))
		inet_ntop(AF_INET6, &a->in6.sin6_addr, to, INET6_ADDRSTRLEN);
	return to;
}

static int
start_nodes(struct hub *hub, struct err *err)
{
	struct nodes_config *config = &hub->nodes_config;
	char text[ADDR_TEXT_MAX];
	struct addr addr;
	int rc;

	hub->ready = source_ready(hub);
	config->ready = hub->ready;
	config->tls = authority_tls(hub->authority);
	config->certs = authority_certs(hub->authority);
	config->tokens = authority_tokens(hub->authority);
	config->share = authority_share(hub->authority);
	config->approvals = authority_approvals(hub->authority);
	config->tunnels = hub->tunnels;
	config->outward = hub->outward_tunnels;
	tunnels_renew(hub->tunnels, config->tls);
	tunnels_renew(hub->outward_tunnels, config->tls);
	peers_use(hub->peers, config->tls, authority_peer_tls(hub->authority));
	config->others = hub->peers;
	if ((rc = nodes_start(&hub->nodes, hub->loop, config, err)) < 0)
		return rc;
	addr = nodes_addr(hub->nodes);
	log_info("hub", "serving listen=%s services=%zu ca=%s", addr_text(&addr, text),
		fanout_count(hub->fanout), certs_ca_hash(config->certs));
	return 0;
}

static void
on_authority_ready(void *arg)
{
	struct hub *hub = arg;
	struct err err = {0};

	if (start_nodes(hub, &err) < 0) {
		log_error("hub", "nodes cannot be served, trying again in 10 s: %s", err.text);
		timer_start(hub->again, AGAIN_MS, 0);
	}
}

static int
on_renewed(void *arg, struct ssl_ctx_st *tls)
{
	struct hub *hub = arg;

	int rc = hub->nodes != NULL ? nodes_renew(hub->nodes, tls) : 0;

	if (rc == 0) {
		hub->nodes_config.tls = tls;
		tunnels_renew(hub->tunnels, tls);
		tunnels_renew(hub->outward_tunnels, tls);
		peers_use(hub->peers, tls, authority_peer_tls(hub->authority));
	}
	return rc;
}

static void
on_revoked(void *arg)
{
	struct hub *hub = arg;

	if (hub->nodes != NULL)
		nodes_check(hub->nodes);
	tunnels_check(hub->tunnels);
	tunnels_check(hub->outward_tunnels);
}

static void
on_ca_changed(void *arg)
{
	struct hub *hub = arg;

	if (hub->nodes != NULL)
		nodes_again(hub->nodes, "the hub's CA changed, connect again");
}

static int
start_authority(struct hub *hub, const struct hub_config *config, const struct addr *listen,
	struct err *err)
{
	struct authority_config authority = {
		.certs =
			{
				.data_dir = config->data_dir,
				.cert = or_empty(config->cert),
				.key = or_empty(config->key),
				.ca = or_empty(config->ca),
				.ca_key = or_empty(config->ca_key),
				.names = config->names,
				.listen = listen_host(listen, hub->listen_host),
				.node_life_s = config->node_life_s,
			},
		.ns = "",
		.service = or_empty(config->service),
		.approval = config->approval,
		.cluster_domain = hub->nodes_config.cluster_domain,
		.ready = on_authority_ready,
		.renewed = on_renewed,
		.revoked = on_revoked,
		.ca_changed = on_ca_changed,
		.arg = hub,
	};
	int rc = mkdir_p(config->data_dir, 0700);

	if (rc < 0)
		return err_set(err, rc,
			"cannot make the data folder %s: %s; set dataDir to a folder that can be "
			"written",
			config->data_dir, strerror(-rc));
	if (hub->kubernetes != NULL)
		authority.api = kubernetes_api(hub->kubernetes);
	if (hub->kubernetes != NULL && !config->kubernetes_alone) {
		authority.ns = or_empty(config->kubernetes_namespace);
		if (authority.ns[0] == '\0')
			authority.ns = kube_api_namespace(authority.api);
		if (authority.ns[0] == '\0')
			authority.ns = "edgeway";
	}
	return authority_start(&hub->authority, hub->loop, &authority, err);
}

/* --- start and stop ------------------------------------------------------- */

static bool
refuses(void *arg, const char *node, const char *serial)
{
	const struct hub *hub = arg;

	return certs_refuses(authority_certs(hub->authority), node, serial);
}

static void
on_tunnel_news(void *arg, const char *node, enum tunnel_news news)
{
	const struct hub *hub = arg;

	if (hub->inquiries != NULL)
		inquiry_news(hub->inquiries, node, news);
}

static void
start_tunnels(struct hub *hub, uint64_t heartbeat_ms, bool compress)
{
	struct rlimit limit = {.rlim_cur = 1024};
	struct tunnels_setup setup = {
		.loop = hub->loop,
		.heartbeat_ms = heartbeat_ms,
		.squeeze = compress,
		.refuses = refuses,
		.news = on_tunnel_news,
		.arg = hub,
		.changed = hub_tunnel_changed,
		.claimed = hub_tunnel_claimed,
		.others = hub,
	};

	getrlimit(RLIMIT_NOFILE, &limit);
	setup.most = (size_t)MIN(limit.rlim_cur / 4, (rlim_t)TUNNELS_MOST);
	hub->tunnels = tunnels_new(&setup);
	hub->outward = outward_new(hub->loop);
	setup.changed = NULL; /* nobody opens streams in these */
	setup.claimed = NULL;
	setup.news = NULL;
	setup.opened = outward_opened;
	setup.opened_arg = hub->outward;
	hub->outward_tunnels = tunnels_new(&setup);
}

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
	return edge_known(arg) && source_ready(arg);
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

static int
start_web(struct hub *hub, const struct web_options *options, struct err *err)
{
	if (or_empty(options->listen)[0] == '\0')
		return 0;
	return web_start(&hub->web,
		&(struct web_config){
			.loop = hub->loop,
			.options = *options,
			.access = hub->access,
			.reach = hub->reach,
			.sources = hub_web_sources,
			.arg = hub,
		},
		err);
}

static int
start_source(struct hub *hub, const struct hub_config *config, struct err *err)
{
	const struct manifests_config manifests = {
		.folder = or_empty(config->manifests),
		.data_dir = config->data_dir,
		.cluster = hub->cluster,
		.changed = on_changed,
		.arg = hub,
	};
	const struct kubernetes_config kubernetes = {
		.kubeconfig = or_empty(config->kubeconfig),
		.rules = config->kubernetes_rules,
		.silence_ms = config->kubernetes_silence_ms,
		.cluster = hub->cluster,
		.changed = on_changed,
		.arg = hub,
	};
	int rc;

	if (manifests.folder[0] != '\0')
		return manifests_start(&hub->manifests, hub->loop, &manifests, err);
	rc = kubernetes_start(&hub->kubernetes, hub->loop, &kubernetes, err);
	if (rc == 0)
		hub->sites = node_sites_start(&(struct node_sites_config){
			.loop = hub->loop,
			.api = kubernetes_api(hub->kubernetes),
			.cluster = hub->cluster,
			.note = config->kubernetes_sites,
		});
	return rc;
}

static int
start(struct hub *hub, const struct hub_config *config, struct err *err)
{
	const char *domain = or_empty(config->cluster_domain);
	int rc;

	hub->nodes_config = (struct nodes_config){
		.heartbeat_ms = config->heartbeat_ms > 0 ? config->heartbeat_ms : HEARTBEAT_MS,
		.cluster_domain = domain[0] != '\0' ? domain : "cluster.local",
		.fanout = hub->fanout,
		.cluster = hub->cluster,
	};
	if ((rc = addr_parse(&hub->nodes_config.listen, config->listen, PORT, err)) < 0)
		return err_wrap(err, rc, "listen");
	hub->again = timer_new(hub->loop, on_authority_ready, hub);
	start_tunnels(hub, hub->nodes_config.heartbeat_ms, config->compress);
	hub_peers_start(hub, addr_port(&hub->nodes_config.listen));
	if ((rc = start_source(hub, config, err)) < 0 ||
		(rc = start_authority(hub, config, &hub->nodes_config.listen, err)) < 0 ||
		(rc = hub_peers_configure(hub, config->ways_in.peers, err)) < 0)
		return rc;
	if (authority_ready(hub->authority) && (rc = start_nodes(hub, err)) < 0)
		return rc;
	hub->ways_in = config->ways_in;
	rc = start_ingress(hub, &config->ways_in, hub->nodes_config.cluster_domain, err);
	if (rc == 0)
		rc = start_naming(hub, &config->ways_in, err);
	if (rc == 0)
		rc = start_web(hub, &config->web, err);
	if (rc < 0)
		return rc;
	hub->explain = timer_new(hub->loop, on_explain, hub);
	timer_start(hub->explain, EXPLAIN_MS, EXPLAIN_MS);
	return 0;
}

int
hub_start(struct hub **out, struct loop *loop, const struct hub_config *config, struct err *err)
{
	struct hub *hub = xcalloc(1, sizeof *hub);
	int rc;

	hub->loop = loop;
	hub->cluster = cluster_new();
	hub->fanout = fanout_new();
	rc = start(hub, config, err);
	if (rc < 0)
		hub_stop(&hub);
	*out = hub;
	return rc;
}

int
hub_reload(struct hub *hub, const struct hub_ways_in *ways_in, struct err *err)
{
	struct access *fresh = NULL;
	int rc = access_new(ways_in->access, &fresh, err);
	unsigned cut;

	if (rc < 0)
		return rc;
	rc = redirect_prepare(hub->redirect, &ways_in->redirect, err);
	if (rc == 0 &&
		((rc = doors_renew(hub->ingress, &hub->ways_in, err)) < 0 ||
			(rc = web_renew(hub->web, err)) < 0 ||
			(rc = hub_peers_configure(hub, ways_in->peers, err)) < 0))
		redirect_abandon(hub->redirect);
	if (rc < 0) {
		access_free(&fresh);
		return rc;
	}
	redirect_commit(hub->redirect);
	access_adopt(hub->access, &fresh);
	quota_adopt(hub->quota, &ways_in->limits);
	cut = ingress_recheck(hub->ingress) + udp_maps_recheck(hub->udp_maps) +
		outward_recheck(hub->outward) + web_recheck(hub->web);
	log_info("ingress", "rules of access adopted rules=%zu cut=%u", access_count(hub->access),
		cut);
	return 0;
}

void
hub_sweep(void)
{
	struct err err = {0};
	int rc = divert_sweep(&err);

	if (rc > 0)
		log_info("hub",
			"removed the rules that an earlier run had left, since "
			"ingress.redirect is off table=\"ip " DIVERT_TABLE "\"");
	else if (rc < 0) /* a hub that may not look has made none either, unless it could once */
		log_debug("hub", "not looked for rules that an earlier run left: %s", err.text);
}

static void
on_drained(void *arg)
{
	struct hub *hub = arg;

	if (--hub->draining == 0)
		hub->drained(hub->drained_arg);
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
	peers_drain(hub->peers, on_drained, hub); /* first: others wait for the nodes then */
	if (peers_any(hub->peers) && hub->nodes != NULL)
		nodes_leave(hub->nodes, "this replica of the hub stops, another one serves");
	udp_maps_drain(hub->udp_maps);
	tunnels_drain(hub->tunnels, on_drained, hub);
	tunnels_drain(hub->outward_tunnels, on_drained, hub);
}

void
hub_stop(struct hub **out)
{
	struct hub *hub = take_ptr(out);

	if (hub == NULL)
		return;
	timer_free(&hub->again);
	timer_free(&hub->explain);
	web_stop(&hub->web);
	nodes_stop(&hub->nodes);
	naming_stop(&hub->naming);
	ingress_free(&hub->ingress);
	redirect_free(&hub->redirect);
	udp_maps_free(&hub->udp_maps);
	tunnels_free(&hub->outward_tunnels);
	outward_free(&hub->outward);
	reach_free(&hub->reach);
	peers_free(&hub->peers);
	cloud_free(&hub->cloud);
	ways_free(&hub->ways);
	tunnels_free(&hub->tunnels);
	inquiries_free(&hub->inquiries);
	access_free(&hub->access);
	quota_free(&hub->quota);
	authority_stop(&hub->authority);
	manifests_stop(&hub->manifests);
	node_sites_stop(&hub->sites);
	kubernetes_stop(&hub->kubernetes);
	fanout_free(&hub->fanout);
	cluster_free(&hub->cluster);
	free(hub);
}

/* --- tokens and nodes ------------------------------------------------------- */

int
hub_token_create(
	struct hub *hub, const char *node, uint64_t ttl_s, struct buf *out, struct err *err)
{
	return authority_token_create(hub->authority, node, ttl_s, out, err);
}

void
hub_token_list(const struct hub *hub, struct buf *out)
{
	authority_token_list(hub->authority, out);
}

int
hub_token_revoke(struct hub *hub, const char *id, struct err *err)
{
	return authority_token_revoke(hub->authority, id, err);
}

int
hub_node_revoke(struct hub *hub, const char *node, struct err *err)
{
	int rc = authority_node_revoke(hub->authority, node, err);
	unsigned ended = 0;

	if (hub->nodes == NULL)
		return MIN(rc, 0);
	if (rc >= 0) {
		ended = nodes_revoked(hub->nodes, node) + tunnels_revoked(hub->tunnels, node) +
			tunnels_revoked(hub->outward_tunnels, node);
		log_info("hub", "node revoked node=%s connections=%u tokens=%d", node, ended, rc);
	} else {
		on_revoked(hub); /* the certificates may be revoked all the same */
	}
	return MIN(rc, 0);
}
