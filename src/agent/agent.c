#include "src/agent/agent.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/inherited.h"
#include "base/core/liveness.h"
#include "base/core/log.h"
#include "base/http/ws_tunnels.h"
#include "model/mesh.h"
#include "model/pod_name.h"
#include "src/agent/agent_private.h"
#include "src/common/limits.h"

static void
agent_use(void *arg, const struct snapshot *snapshot)
{
	struct agent *a = arg;
	struct snapshot *old = a->snapshot;

	a->snapshot = snapshot_ref(snapshot);
	agent_tunnel_adopt(a, old);
	if (a->lb != NULL)
		lb_use(a->lb, snapshot);
	if (a->ipt != NULL)
		iptables_use(a->ipt, snapshot);
	agent_tunnel_settle(a);
	agent_tunnel_use(a);
	if (a->dns != NULL) /* last: who gets an address calls it at once */
		dns_use(a->dns, snapshot);
	agent_health_ports_look(a);
	agent_findings_forget(a);
	snapshot_unref(&old);
}

static void
on_hub(void *arg)
{
	agent_tunnel_hub(arg);
}

static void
on_pod_ranges(void *arg)
{
	struct agent *a = arg;

	if (a->ipt != NULL && a->meta != NULL)
		iptables_pod_ranges(a->ipt, meta_pod_ranges(a->meta));
}

/* This machine's addresses have changed: each dial checks the new ones, and endpoints with such
 * addresses become allowed or refused. */
static void
on_addresses(void *arg)
{
	struct agent *a = arg;
	struct dial_guard *former = a->guard;

	a->guard = dial_guard_with(former, addresses_list(a->addresses));
	dial_guard_unref(&former);
	if (a->lb != NULL)
		lb_guard(a->lb, a->guard);
	if (a->meta != NULL)
		meta_guard(a->meta, a->guard);
	if (a->ipt != NULL)
		iptables_addresses(a->ipt, addresses_list(a->addresses));
}

static int
open_addresses(struct agent *a, struct err *err)
{
	int rc = dial_guard_new((const char *const *)a->options->lb_allow, &a->guard, err);

	if (rc < 0)
		return err_wrap(err, rc, "lb.allow");
	a->addresses = addresses_new(a->loop, on_addresses, a);
	a->liveness = liveness_new();
	on_addresses(a);
	return 0;
}

/* As many as have sockets: packets that the kernel queues on a socket without a reader would be
 * lost. */
static size_t
worker_count(const struct agent *a)
{
	size_t wanted = workers_wanted(a->options->mesh_workers);
	size_t had = inherited_workers();

	if (had == 0 || had == wanted)
		return wanted;
	log_warn("agent",
		"as many workers as the agent before had, until a restart workers=%zu wanted=%zu",
		had, wanted);
	return had;
}

static int
parse_upstreams(struct agent *a, struct err *err)
{
	for (char **u = a->options->dns_upstreams; *u != NULL; u++) {
		int rc;

		a->upstreams = xrealloc(a->upstreams, (a->n_upstreams + 1) * sizeof *a->upstreams);
		rc = addr_parse(&a->upstreams[a->n_upstreams++], *u, 53, err);
		if (rc < 0)
			return err_wrap(err, rc, "dns.upstreams");
	}
	return 0;
}

int
agent_open_meta(struct agent *a, struct err *err)
{
	const struct agent_options *o = a->options;
	const struct meta_config config = {
		.loop = a->loop,
		.data_dir = o->data_dir,
		.node = o->node,
		.subnet = o->mesh_subnet.address,
		.mask = o->mesh_subnet.mask,
		.listen_port = (uint16_t)o->mesh_listen_port,
		.hub_urls = (const char *const *)o->hub_url,
		.ca = o->hub_ca,
		.cert = o->hub_cert,
		.key = o->hub_key,
		.token = o->hub_token,
		.token_file = o->hub_token_file,
		.node_id = o->hub_node_id,
		.cloudhub = o->hub_protocol == PROTOCOL_CLOUDHUB,
		.cluster_domain = o->mesh_cluster_domain,
		.proxy = o->hub_proxy,
		.carriers = a->carriers,
		.heartbeat_ms = o->hub_heartbeat,
		.liveness = a->liveness,
		.mark = MESH_MARK,
		.find_hubs = agent_tunnel_wanted(o) && o->hub_tunnels > 1,
		.forward = agent_tunnel_wanted(o),
		.apiserver = o->tunnel_apiserver,
		.encrypt = (uint8_t)(o->mesh_encrypt + ENCRYPT_OFF),
		.direct = agent_tunnel_wanted(o) && o->mesh_peer_port != 0 &&
			o->mesh_direct != DIRECT_OFF,
		.guard = a->guard,
		.hub_changed = on_hub,
		.ranges_changed = on_pod_ranges,
		.asked = agent_asked,
	};

	return meta_open(&a->meta, &config, agent_use, a, err);
}

static void
agent_take_pod_ask(void *arg)
{
	struct pod_ask *ask = arg;
	const struct agent *a = ask->owner;

	meta_ask_pod(a->meta, ask);
}

/* On a worker's thread. */
static void
agent_ask_pod(void *arg, struct pod_ask *ask)
{
	const struct agent *a = arg;

	ask->owner = arg;
	loop_post(a->loop, agent_take_pod_ask, ask);
}

/* For dns_keep: the database may be closed and reopened meanwhile. */
static int
keep_get(void *arg, const char *key, char **data, size_t *len)
{
	return meta_keep_get(((struct agent *)arg)->meta, key, data, len);
}

static int
keep_put(void *arg, const char *key, const void *data, size_t len)
{
	return meta_keep_put(((struct agent *)arg)->meta, key, data, len);
}

static int
keep_del(void *arg, const char *key)
{
	return meta_keep_del(((struct agent *)arg)->meta, key);
}

static int
open_dns(struct agent *a, struct err *err)
{
	const struct agent_options *o = a->options;
	const struct dns_config config = {
		.main = a->loop,
		.workers = workers_loops(a->workers),
		.n_workers = workers_count(a->workers),
		.cluster_domain = o->mesh_cluster_domain,
		.subnet = o->mesh_subnet.address,
		.mask = o->mesh_subnet.mask,
		.subnet6 = o->subnet6,
		.interface = o->bridge,
		.interfaces = o->pod_interfaces,
		.port = (uint16_t)o->dns_port,
		.ttl_s = o->dns_ttl,
		.upstreams = a->upstreams,
		.n_upstreams = a->n_upstreams,
		.resolv_conf = o->dns_resolv_conf,
		.manage_resolv_conf = o->dns_manage_resolv_conf && o->dns_host == HOST_FILE,
		.resolved = o->dns_host == HOST_RESOLVED,
		.mark = MESH_MARK,
		.keep = {a, keep_get, keep_put, keep_del},
		.ask_pod = agent_ask_pod,
		.ask_pod_arg = a,
		.succeeds = a->takeover != NULL,
	};

	return dns_open(&a->dns, &config, err);
}

static int
open_lb(struct agent *a, struct err *err)
{
	const struct agent_options *o = a->options;
	const struct lb_config config = {
		.main = a->loop,
		.workers = workers_loops(a->workers),
		.n_workers = workers_count(a->workers),
		.rings = a->rings,
		.port = (uint16_t)o->mesh_listen_port,
		.policy = agent_options_policy(o),
		.subnet = o->mesh_subnet.address,
		.mask = o->mesh_subnet.mask,
		.subnet6 = o->subnet6,
		.metric_services = o->lb_metric_services,
		.via = o->lb_via,
		.memory_bytes = (uint64_t)o->lb_memory << 20,
		.mark = MESH_MARK,
		.guard = a->guard,
		.forward = agent_tunnel_wanted(o) ? agent_tunnel_forward : NULL,
		.forward_arg = a,
		.ask_pod = agent_ask_pod,
		.ask_pod_arg = a,
		.take_spans = a->tracing != NULL ? tracing_take : NULL,
		.spans_arg = a->tracing,
	};

	return lb_open(&a->lb, &config, err);
}

int
agent_open_iptables(struct agent *a, struct err *err)
{
	const struct agent_options *o = a->options;
	const struct iptables_config config = {
		.loop = a->loop,
		.interface = o->bridge,
		.interfaces = o->pod_interfaces,
		.own = o->own,
		.own_address = o->own_address,
		.succeeds = a->takeover != NULL,
		.own_used = agent_mesh_recall(a) == o->own_address,
		.subnet = o->mesh_subnet.address,
		.mask = o->mesh_subnet.mask,
		.subnet6 = o->subnet6,
		.port = (uint16_t)o->mesh_listen_port,
		.dns_port = (uint16_t)o->dns_port,
		.mark = MESH_MARK,
		.kernel = o->mesh_datapath == MESH_DATAPATH_KERNEL,
		.catch = (enum iptables_catch)o->mesh_catch_cluster_ips,
		.node_ports = (enum iptables_catch)o->mesh_node_ports,
		.relay = agent_tunnel_wanted(o) ? agent_tunnel_relay : NULL,
		.relay_arg = a,
		.changed6 = agent_mesh_trouble6,
	};
	int rc = iptables_open(&a->ipt, &config, agent_address, a, err);

	if (rc == 0) {
		iptables_addresses(a->ipt, addresses_list(a->addresses));
		iptables_use(a->ipt, a->snapshot);
		on_pod_ranges(a);
	}
	return rc;
}

/* One of the services that the listener serves: of the others the kernel itself translates TCP to
 * their endpoints. */
static bool
choose_target(void *arg, struct pod_canary_target *to)
{
	const struct agent *a = arg;

	for (size_t i = 0; i < snapshot_count(a->snapshot); i++) {
		const struct service *s = snapshot_at(a->snapshot, i);

		if (pod_name_is(s->name, strlen(s->name)))
			continue;
		for (unsigned p = 0; p < s->n_ports && s->fake_ip != 0; p++) {
			if (s->ports[p].mode != PORT_HTTP)
				continue;
			snprintf(to->name, sizeof to->name, "%s.%s.svc", s->name, s->namespace);
			to->ip = s->fake_ip;
			to->port = s->ports[p].port;
			return true;
		}
	}
	return false;
}

static void
expect_canary(void *arg, uint32_t ip, uint16_t port, uint64_t number)
{
	lb_canary(((struct agent *)arg)->lb, ip, port, number);
}

static void
start_pod_canary(struct agent *a)
{
	const struct pod_canary_config config = {.loop = a->loop,
		.interface = a->options->bridge,
		.others = a->options->pod_interfaces,
		.domain = a->options->mesh_cluster_domain,
		.dns_port = (uint16_t)a->options->dns_port,
		.choose = choose_target,
		.expect = expect_canary,
		.arg = a};

	if (a->options->mesh_canary)
		pod_canary_start(&a->pods, &config);
}

static void
start_canary(struct agent *a)
{
	const struct dns_selfcheck_config config = {.loop = a->loop,
		.port = (uint16_t)a->options->dns_port,
		.domain = a->options->mesh_cluster_domain,
		.mark = MESH_MARK,
		.answered = agent_capture,
		.arg = a};

	if (a->options->dns_capture == CAPTURE_OFF)
		return;
	dns_selfcheck_start(&a->canary, &config);
}

void
agent_connect_hub(struct agent *a)
{
	struct err err = {0};
	const struct addr *upstreams;
	size_t n = dns_upstreams(a->dns, &upstreams);

	if (meta_start(a->meta, upstreams, n, &err) < 0)
		log_error("agent", "not connecting to a hub: %s", err.text);
	agent_peers_use(a);
	tracing_upstreams(a->tracing, upstreams, n);
	dns_follow_upstreams(a->dns, agent_upstreams, a);
}

static int
open_parts(struct agent *a, struct err *err)
{
	static const char *const kind = "worker";
	int rc = loop_new(&a->loop, err);

	if (rc == 0)
		rc = open_addresses(a, err);
	if (rc == 0)
		rc = workers_new(&a->workers, &kind, 1, a->n_workers, err);
	if (rc == 0)
		rc = parse_upstreams(a, err);
	if (rc == 0)
		rc = agent_carriers_open(a, err);
	if (rc == 0)
		rc = agent_open_meta(a, err);
	if (rc == 0)
		rc = open_dns(a, err);
	if (rc == 0)
		rc = agent_tracing_open(a, err);
	if (rc == 0)
		rc = open_lb(a, err);
	if (rc < 0)
		return rc;
	dns_use(a->dns, a->snapshot);
	lb_use(a->lb, a->snapshot);
	agent_use_access_log(a);
	agent_tracing_use(a);
	a->retry = timer_new(a->loop, agent_mesh_retry, a);
	a->started_ms = loop_now_ms(a->loop);
	start_canary(a);
	start_pod_canary(a);
	rc = agent_open_iptables(a, err);
	if (rc == 0) {
		agent_find_estate(a);
		agent_note_estate(a);
	}
	if (rc == 0)
		rc = agent_tunnel_start(a, err);
	if (rc == 0 && a->takeover == NULL)
		rc = agent_admin_start(a, err);
	if (rc == 0 && a->takeover == NULL)
		rc = agent_metrics_start(a, err);
	return rc;
}

/* While there is only one thread. Without a spawner the agent cannot upgrade, but does everything
 * else. */
static void
settle_in(struct agent *a)
{
	struct err err = {0};

	if (spawner_new(&a->starter, a->argv, &err) < 0)
		log_warn("agent", "edgewayctl upgrade will not work: %s", err.text);
	confine_enter(&a->confine, (enum sandbox_mode)a->options->seccomp);
}

int
agent_start(
	struct agent **out, struct agent_options *options, int argc, char **argv, struct err *err)
{
	struct agent *a = xcalloc(1, sizeof *a);
	int rc;

	*out = a;
	a->options = options;
	a->argc = argc;
	a->argv = argv;
	a->lock = a->network_lock = -1;
	signal(SIGPIPE, SIG_IGN);
	socket_store_new(&a->sockets);
	limit_descriptors();
	rc = agent_take_locks(a, err);
	if (rc == 0) {
		a->n_workers = worker_count(a);
		rc = agent_rings_open(a, err);
	}
	if (rc == 0) {
		settle_in(a);
		rc = open_parts(a, err);
	}
	if (rc == 0)
		rc = workers_run(a->workers, err);
	if (rc < 0) {
		iptables_close(&a->ipt); /* the end of the process releases the rest */
		return rc;
	}
	a->term = signal_start(a->loop, SIGTERM, agent_stop, a);
	a->intr = signal_start(a->loop, SIGINT, agent_stop, a);
	a->hup = signal_start(a->loop, SIGHUP, agent_reload, a);
	confine_follow(a->confine, a->loop);
	agent_findings_start(a);
	agent_connect_hub(a);
	agent_follow(a);
	service_state_start(&a->announce,
		&(struct service_state_config){
			.loop = a->loop, .part = "agent", .ready = agent_announces, .arg = a});
	log_info("agent", "started version=%s node=%s workers=%zu services=%zu", EDGEWAY_VERSION,
		options->node, workers_count(a->workers), snapshot_count(a->snapshot));
	return 0;
}

int
agent_run(struct agent **out)
{
	struct agent *a = take_ptr(out);
	int status;

	loop_run(a->loop);
	workers_stop(&a->workers);
	agent_rings_close(a);
	admin_stop(&a->admin);
	admin_stop(&a->metrics);
	service_state_stop(&a->announce);
	signal_stop(&a->term);
	signal_stop(&a->intr);
	signal_stop(&a->hup);
	timer_free(&a->retry);
	agent_findings_end(a);
	agent_health_ports_end(a);
	timer_free(&a->admin_retry);
	handover_free(&a->handover);
	timer_free(&a->given);
	agent_health_end(a);
	buf_fini(&a->estate);
	free(a->noted);
	takeover_free(&a->takeover);
	socket_store_free(&a->sockets);
	confine_free(&a->confine);
	spawner_free(&a->starter);
	snapshot_unref(&a->snapshot);
	addresses_free(&a->addresses);
	liveness_free(&a->liveness);
	dial_guard_unref(&a->guard);
	loop_free(&a->loop);
	log_info("agent", "stopped node=%s", a->options->node);
	free(a->upstreams);
	cleanup_fd(&a->network_lock);
	cleanup_fd(&a->lock);
	status = a->status;
	free(a);
	return status;
}
