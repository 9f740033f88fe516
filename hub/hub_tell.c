#include "hub/hub_private.h"

#include <string.h>

#include "model/json.h"

enum {
	STATE_PART = 64 * 1024, /* bytes of services at once */
	SILENT_MS = 10 * 1000,
};

bool
hub_ready(const struct hub *hub)
{
	return hub->ready && hub->nodes != NULL && peers_settled(hub->peers);
}

const char *
hub_waits(const struct hub *hub)
{
	const char *why = authority_waits(hub->authority);

	if (why[0] != '\0')
		return why;
	if (!hub->ready)
		return "the source has not been read yet";
	if (hub->nodes == NULL)
		return "the address of `listen` cannot be used, see the log";
	return peers_settled(hub->peers)
		? ""
		: "the other replicas have not been asked for their nodes yet";
}

struct addr
hub_addr(const struct hub *hub)
{
	return hub->nodes != NULL ? nodes_addr(hub->nodes) : hub->nodes_config.listen;
}

/* How long the thread of tunnels that has been silent longest has told no figures; a second, unless
 * it hangs. */
static uint64_t
silent_thread_ms(const struct hub *hub)
{
	return MAX(session_workers_age_ms(hub->sessions),
		session_workers_age_ms(hub->outward_sessions));
}

char *
hub_thread_trouble(const struct hub *hub)
{
	const uint64_t ms = silent_thread_ms(hub);

	if (ms <= SILENT_MS)
		return NULL;
	return xasprintf("a thread that carries tunnels stands still, and with it the streams of "
			 "its nodes: nothing was heard of it for %llu s",
		(unsigned long long)(ms / 1000));
}

static void
thread_state(const struct hub *hub, struct buf *out)
{
	auto_free char *trouble = hub_thread_trouble(hub);

	if (trouble == NULL)
		return;
	buf_adds(out, ",\"threadTrouble\":");
	json_add_text(out, trouble);
}

void
hub_web_sources(void *arg, struct survey_sources *to)
{
	const struct hub *hub = arg;
	const struct addr at = hub_addr(hub);

	*to = (struct survey_sources){
		.nodes = hub->nodes,
		.certs = authority_certs(hub->authority),
		.tunnels = hub->tunnels,
		.peers = hub->peers,
		.fanout = hub->fanout,
		.cluster = hub->cluster,
		.manifests = hub->manifests,
		.kubernetes = hub->kubernetes,
		.ready = hub_ready(hub),
		.waits = hub_waits(hub),
		.port = addr_port(&at),
	};
	ingress_count(hub->ingress, &to->requests, &to->refused);
}

void
hub_metrics(const struct hub *hub, struct metrics *m)
{
	fanout_metrics(hub->fanout, m);
	metric_gauge(m, "edgeway_hub_pods_wanted",
		"Pods that nodes have asked for by their own address.", NULL,
		(double)cluster_pods_wanted(hub->cluster));
	metric_counter(m, "edgeway_hub_service_changes_total", "Changes of service views.", NULL,
		hub->n_changes);
	metric_gauge(m, "edgeway_hub_refused_services",
		"Services of which nodes refuse the address of some endpoint.", NULL,
		(double)cluster_count_refused(hub->cluster));
	metric_gauge(m, "edgeway_hub_disk_trouble", "1 while dataDir cannot be written.", NULL,
		hub->disk_problem != NULL);
	hub_service_metrics(hub, m);
	authority_metrics(hub->authority, m);
	if (hub->manifests != NULL)
		manifests_metrics(hub->manifests, m);
	else
		kubernetes_metrics(hub->kubernetes, m);
	if (hub->nodes != NULL) {
		nodes_metrics(hub->nodes, m);
		nodes_known_metrics(hub->nodes, m);
	}
	preauth_metrics(hub->preauth, m);
	tunnels_metrics(hub->tunnels, m);
	metric_gauge(m, "edgeway_tunnel_figures_age_seconds",
		"How old the figures of the tunnels are that other threads count: a second, unless "
		"such a thread hangs.",
		NULL, (double)silent_thread_ms(hub) / 1000);
	tls_workers_metrics(hub->workers, m);
	floods_metrics(hub->floods, m);
	neighbours_metrics(inquiries_neighbours(hub->neighbour_queries), m);
	egress_metrics(hub->outward, m);
	metric_counter(m, "edgeway_hub_outward_bytes_total",
		"Payload of nodes' connections through the hub, both ways.", NULL,
		tunnels_bytes(hub->outward_tunnels));
	rendezvous_metrics(hub->rendezvous, m);
	peers_metrics(hub->peers, m);
	ingress_metrics(hub->ingress, m);
	redirect_metrics(hub->redirect, m);
	self_guard_metrics(hub->guard, m);
	udp_maps_metrics(hub->udp_maps, m);
	naming_metrics(hub->naming, m);
	web_metrics(hub->web, m);
	quota_metrics(hub->grants.quota, m);
	connector_metrics(hub->reach, m);
}

static void
add_reason(const struct hub *hub, const char *key, const char *slash, struct buf *out)
{
	auto_free char *ns = xstrndup(key, (size_t)(slash - key));
	struct hub_service found;

	hub_service_look(hub, ns, slash + 1, &found);
	json_add_text(out, found.class != FINDING_INFO ? found.text : "");
	if (found.text[0] != '\0')
		buf_printf(out, ",\"class\":\"%s\",\"kind\":\"%s\"", finding_word(found.class),
			hub_service_word(found.kind));
	if (found.text[0] != '\0' && found.class == FINDING_INFO) {
		buf_adds(out, ",\"information\":");
		json_add_text(out, found.text);
	}
	if (cluster_beyond(hub->cluster, ns, slash + 1))
		buf_adds(out, ",\"beyond\":true");
}

static void
add_service(const struct hub *hub, const struct fanout_item *item, struct buf *out)
{
	const char *slash = strchr(item->key, '/');

	buf_printf(out,
		"{\"namespace\":\"%.*s\",\"name\":\"%s\",\"digest\":\"%016llx\",\"reason\":",
		(int)(slash - item->key), item->key, slash + 1, (unsigned long long)item->digest);
	add_reason(hub, item->key, slash, out);
	buf_adds(out, ",\"view\":");
	buf_add(out, item->content, item->content_len);
	buf_adds(out, "}");
}

/* *at: twice the next item's number, plus 1 if one was told before. */
bool
hub_state_services(const struct hub *hub, uint64_t *at, struct buf *out)
{
	uint64_t slots = fanout_slots(hub->fanout);
	size_t most = buf_len(out) + STATE_PART;

	if (*at == UINT64_MAX)
		return false;
	for (; *at / 2 < slots && buf_len(out) < most; *at += 2) {
		const struct fanout_item *item = fanout_at(hub->fanout, (uint32_t)(*at / 2));

		if (item == NULL || !item->present)
			continue;
		buf_adds(out, *at % 2 == 0 ? "" : ",");
		*at |= 1;
		add_service(hub, item, out);
	}
	if (*at / 2 < slots)
		return false;
	buf_adds(out, "]}");
	*at = UINT64_MAX;
	return true;
}

struct list_text {
	struct buf *out;
	const char *comma;
};

static void
add_rule(void *arg, const struct cluster_rule *rule)
{
	struct list_text *t = arg;

	buf_printf(t->out,
		"%s{\"namespace\":\"%s\",\"name\":\"%s\",\"service\":\"%s\",\"counts\":%s,"
		"\"problem\":",
		t->comma, rule->ns, rule->name, rule->service, rule->counts ? "true" : "false");
	json_add_text(t->out, rule->problem);
	buf_adds(t->out, "}");
	t->comma = ",";
}

static void
add_rules(const struct hub *hub, struct buf *out)
{
	struct list_text t = {out, ""};

	buf_adds(out, ",\"destinationRules\":[");
	cluster_each_rule(hub->cluster, add_rule, &t);
	buf_adds(out, "]");
}

static void
tell_add_beyond(void *arg, const char *ns, const char *name, const char *reason)
{
	struct list_text *t = arg;

	buf_printf(
		t->out, "%s{\"namespace\":\"%s\",\"name\":\"%s\",\"reason\":", t->comma, ns, name);
	json_add_text(t->out, reason);
	buf_adds(t->out, "}");
	t->comma = ",";
}

static void
add_nodes(const struct hub *hub, bool certificates, struct buf *out)
{
	if (hub->nodes != NULL)
		nodes_state(hub->nodes, certificates, out);
	else
		buf_adds(out, "[]");
}

static void
tell_add_route(void *arg, const struct cluster_route *r)
{
	struct list_text *t = arg;
	const char *problem;

	for (size_t i = 0; i < r->n_parents; i++) {
		const struct cluster_route_parent *p = &r->parents[i];

		buf_printf(t->out,
			"%s{\"kind\":\"%s\",\"namespace\":\"%s\",\"name\":\"%s\",\"service\":\"%s/"
			"%s\","
			"\"accepted\":\"%s\",\"resolved\":\"%s\",\"problem\":",
			t->comma, kube_kind_name(r->kind), r->ns, r->name, p->ref->ns, p->ref->name,
			p->accepted_reason, p->resolved_reason);
		problem = cluster_route_problem(p);
		json_add_text(t->out, problem != NULL ? problem : "");
		buf_adds(t->out, "}");
		t->comma = ",";
	}
}

static void
add_routes(const struct hub *hub, struct buf *out)
{
	buf_adds(out, ",\"routes\":[");
	cluster_each_route(hub->cluster, tell_add_route, &(struct list_text){out, ""});
	buf_adds(out, "]");
	if (hub->route_status == NULL)
		return;
	buf_adds(out, ",\"routeStatus\":");
	route_status_state(hub->route_status, out);
}

struct targets_text {
	struct buf *out;
	unsigned port;
	const char *comma;
};

static void
add_target(void *arg, const char *node, bool revoked)
{
	struct targets_text *t = arg;

	if (revoked)
		return;
	buf_printf(t->out, "%s\n{\"targets\":[\"%s:%u\"],\"labels\":{\"node\":\"%s\"}}", t->comma,
		node, t->port, node);
	t->comma = ",";
}

void
hub_targets(const struct hub *hub, unsigned port, struct buf *out)
{
	struct targets_text t = {out, port, ""};

	buf_adds(out, "[");
	if (hub->nodes != NULL)
		nodes_joined(hub->nodes, add_target, &t);
	buf_adds(out, "\n]\n");
}

void
hub_state(const struct hub *hub, struct buf *out)
{
	buf_adds(out, "{");
	authority_state(hub->authority, out);
	buf_adds(out, ",\"disk\":");
	hub_disk_state(hub, out);
	buf_printf(
		out, ",\"nodeRules\":%s", acl_names_nodes(hub->grants.access) ? "true" : "false");
	buf_adds(out, ",\"source\":");
	if (hub->manifests != NULL)
		manifests_state(hub->manifests, out);
	else
		kubernetes_state(hub->kubernetes, out);
	if (hub->sites != NULL) {
		buf_adds(out, ",\"sites\":");
		node_sites_state(hub->sites, out);
	}
	buf_adds(out, ",\"nodes\":");
	add_nodes(hub, false, out);
	buf_adds(out, ",\"tunnels\":");
	tunnels_state(hub->tunnels, out);
	buf_adds(out, ",\"neighbours\":");
	neighbours_state(inquiries_neighbours(hub->neighbour_queries), out);
	buf_adds(out, ",\"outward\":");
	tunnels_state(hub->outward_tunnels, out);
	thread_state(hub, out);
	buf_adds(out, ",\"floods\":");
	floods_state(hub->floods, loop_now_ms(hub->loop), out);
	buf_adds(out, ",\"peers\":");
	peers_state(hub->peers, out);
	if (hub->nodes != NULL) {
		buf_adds(out, ",\"twins\":");
		nodes_twins(hub->nodes, out);
		buf_adds(out, ",\"joins\":");
		nodes_joins(hub->nodes, out);
		buf_adds(out, ",\"carried\":");
		nodes_carried(hub->nodes, out);
		buf_printf(out, ",\"nodesFull\":%llu", (unsigned long long)nodes_full(hub->nodes));
	}
	buf_printf(out, ",\"loops\":%llu", (unsigned long long)connector_loops(hub->reach));
	buf_adds(out, ",\"unauthenticated\":");
	preauth_state(hub->preauth, out);
	buf_adds(out, ",\"visits\":");
	ingress_state(hub->ingress, out);
	buf_adds(out, ",\"redirect\":");
	redirect_state(hub->redirect, out);
	buf_adds(out, ",\"selfDials\":");
	self_guard_state(hub->guard, out);
	buf_adds(out, ",\"udpMaps\":");
	udp_maps_state(hub->udp_maps, out);
	buf_adds(out, ",\"udpFlows\":");
	udp_maps_flows(hub->udp_maps, out);
	buf_adds(out, ",\"accounts\":");
	quota_state(hub->grants.quota, out);
	buf_adds(out, ",\"naming\":");
	naming_state(hub->naming, out);
	buf_adds(out, ",\"web\":");
	web_state(hub->web, out);
	add_rules(hub, out);
	add_routes(hub, out);
	buf_adds(out, ",\"beyondLimits\":[");
	cluster_each_beyond(hub->cluster, tell_add_beyond, &(struct list_text){out, ""});
	buf_adds(out, "],\"services\":[");
}

void
hub_nodes(const struct hub *hub, struct buf *out)
{
	buf_adds(out, "{\"nodes\":");
	add_nodes(hub, true, out);
	buf_adds(out, "}\n");
}

void
hub_peers(const struct hub *hub, struct buf *out)
{
	buf_adds(out, "{\"peers\":");
	peers_state(hub->peers, out);
	buf_adds(out, "}\n");
}

void
hub_tunnels(const struct hub *hub, struct buf *out)
{
	buf_adds(out, "{\"tunnels\":");
	tunnels_state(hub->tunnels, out);
	buf_adds(out, ",\"neighbours\":");
	neighbours_state(inquiries_neighbours(hub->neighbour_queries), out);
	buf_adds(out, "}\n");
}

void
hub_streams(const struct hub *hub, struct buf *out)
{
	const char *comma = "";

	buf_adds(out, "{\"streams\":[");
	tunnels_streams_state(hub->tunnels, &comma, out);
	if (hub->outward_tunnels != NULL)
		tunnels_streams_state(hub->outward_tunnels, &comma, out);
	buf_adds(out, "\n]}\n");
}
