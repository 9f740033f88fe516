#include "src/agent.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "base/log.h"
#include "model/mesh.h"
#include "src/agent_private.h"
#include "src/limits.h"
#include "src/lock.h"
#include "src/reload.h"
#include "src/rights.h"

enum { WORKERS_MOST = 4 };

static void stop(void *agent);

static void
use(void *arg, const struct snapshot *snapshot)
{
	struct agent *a = arg;

	snapshot_unref(&a->snapshot);
	a->snapshot = snapshot_ref(snapshot);
	if (a->dns != NULL)
		dns_use(a->dns, snapshot);
	if (a->lb != NULL)
		lb_use(a->lb, snapshot);
	if (a->ipt != NULL)
		iptables_use(a->ipt, snapshot);
	agent_tunnel_use(a);
}

static void
on_hub(void *arg)
{
	agent_tunnel_hub(arg);
}

static size_t
worker_count(const struct agent_options *o)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);

	if (o->mesh_workers > 0)
		return o->mesh_workers;
	return cores < 1 ? 1 : MIN((size_t)cores, (size_t)WORKERS_MOST);
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

static int
open_meta(struct agent *a, struct err *err)
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
		.node_id = o->hub_node_id,
		.cloudhub = o->hub_protocol == PROTOCOL_CLOUDHUB,
		.cluster_domain = o->mesh_cluster_domain,
		.proxy = o->hub_proxy,
		.heartbeat_ms = o->hub_heartbeat,
		.mark = MESH_MARK,
		.forward = agent_tunnel_wanted(o),
		.hub_changed = on_hub,
	};

	return meta_open(&a->meta, &config, use, a, err);
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
		.interface = o->mesh_interface,
		.interfaces = (const char *const *)o->mesh_interfaces,
		.port = (uint16_t)o->dns_port,
		.ttl_s = o->dns_ttl,
		.upstreams = a->upstreams,
		.n_upstreams = a->n_upstreams,
		.resolv_conf = o->dns_resolv_conf,
		.manage_resolv_conf = o->dns_manage_resolv_conf,
		.mark = MESH_MARK,
		.keep = {a->meta, meta_keep_get, meta_keep_put, meta_keep_del},
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
		.port = (uint16_t)o->mesh_listen_port,
		.policy = agent_options_policy(o),
		.subnet = o->mesh_subnet.address,
		.mask = o->mesh_subnet.mask,
		.metric_services = o->lb_metric_services,
		.mark = MESH_MARK,
		.forward = agent_tunnel_wanted(o) ? agent_tunnel_forward : NULL,
		.forward_arg = a,
	};

	return lb_open(&a->lb, &config, err);
}

static int
open_iptables(struct agent *a, struct err *err)
{
	const struct agent_options *o = a->options;
	const struct iptables_config config = {
		.loop = a->loop,
		.interface = o->mesh_interface,
		.interfaces = (const char *const *)o->mesh_interfaces,
		.subnet = o->mesh_subnet.address,
		.mask = o->mesh_subnet.mask,
		.port = (uint16_t)o->mesh_listen_port,
		.dns_port = (uint16_t)o->dns_port,
		.mark = MESH_MARK,
		.kernel = o->mesh_datapath == MESH_DATAPATH_KERNEL,
		.catch = (enum iptables_catch)o->mesh_catch_cluster_ips,
	};
	int rc = iptables_open(&a->ipt, &config, agent_address, a, err);

	if (rc == 0)
		iptables_use(a->ipt, a->snapshot);
	return rc;
}

static void
start_canary(struct agent *a)
{
	const struct canary_config config = {.loop = a->loop,
		.port = (uint16_t)a->options->dns_port,
		.domain = a->options->mesh_cluster_domain,
		.mark = MESH_MARK,
		.answered = agent_capture,
		.arg = a};

	if (a->options->dns_capture == CAPTURE_OFF)
		return;
	canary_start(&a->canary, &config);
}

/* The lists change places, so that each is freed with its struct. */
static void
use_reach(struct agent *a, struct agent_options *read)
{
	char **former = a->options->tunnel_reach;

	a->options->tunnel_reach = read->tunnel_reach;
	read->tunnel_reach = former;
	agent_tunnel_reach(a, a->options);
}

static void
on_hup(void *arg)
{
	struct agent *a = arg;
	struct agent_options read = {0};
	struct err err = {0};
	bool check;

	if (agent_options_load(&read, a->argc, a->argv, &check, &err) != OPT_RUN) {
		log_error("agent", "the configuration is not reloaded: %s", err.text);
	} else {
		reload_report("agent", &agent_program, a->options, &read);
		a->options->log_level = read.log_level;
		a->options->log_format = read.log_format;
		a->options->drain_timeout = read.drain_timeout;
		a->options->on_stop = read.on_stop;
		use_reach(a, &read);
		a->options->lb_access_log = read.lb_access_log;
		lb_access_log(a->lb, (enum lb_access_mode)read.lb_access_log);
		log_setup((enum log_level)read.log_level, (enum log_format)read.log_format);
	}
	agent_options_free(&read);
}

/* The hub is optional for serving: what is wrong there is said, and the node goes on from its database. */
static void
connect_hub(struct agent *a)
{
	struct err err = {0};
	const struct addr *upstreams;
	size_t n = dns_upstreams(a->dns, &upstreams);

	if (meta_start(a->meta, upstreams, n, &err) < 0)
		log_error("agent", "not connecting to a hub: %s", err.text);
	dns_follow_upstreams(a->dns, agent_upstreams, a);
}

static int
open_parts(struct agent *a, struct err *err)
{
	int rc = loop_new(&a->loop, err);

	if (rc == 0)
		rc = workers_new(&a->workers, worker_count(a->options), err);
	if (rc == 0)
		rc = parse_upstreams(a, err);
	if (rc == 0)
		rc = open_meta(a, err);
	if (rc == 0)
		rc = open_dns(a, err);
	if (rc == 0)
		rc = open_lb(a, err);
	if (rc < 0)
		return rc;
	dns_use(a->dns, a->snapshot);
	lb_use(a->lb, a->snapshot);
	lb_access_log(a->lb, (enum lb_access_mode)a->options->lb_access_log);
	a->retry = timer_new(a->loop, agent_mesh_retry, a);
	a->started_ms = loop_now_ms(a->loop);
	start_canary(a);
	rc = open_iptables(a, err);
	if (rc == 0)
		rc = agent_tunnel_start(a, err);
	if (rc == 0)
		rc = agent_admin_start(a, err);
	return rc;
}

int
agent_start(
	struct agent **out, struct agent_options *options, int argc, char **argv, struct err *err)
{
	struct agent *a = xcalloc(1, sizeof *a);
	int rc;

	a->options = options;
	a->argc = argc;
	a->argv = argv;
	a->lock = a->network_lock = -1;
	signal(SIGPIPE, SIG_IGN);
	limit_descriptors();
	rc = lock_take(options->data_dir, &a->lock, err);
	if (rc == 0)
		rights_reduce(options); /* the folder is there now, threads are not yet */
	if (rc == 0)
		rc = lock_network(&a->network_lock, err);
	if (rc == 0)
		rc = open_parts(a, err);
	if (rc < 0) {
		iptables_close(&a->ipt); /* the rest ends with the process */
		return rc;
	}
	a->term = signal_start(a->loop, SIGTERM, stop, a);
	a->intr = signal_start(a->loop, SIGINT, stop, a);
	a->hup = signal_start(a->loop, SIGHUP, on_hup, a);
	workers_run(a->workers);
	connect_hub(a);
	announce_start(&a->announce,
		&(struct announce_config){
			.loop = a->loop, .part = "agent", .ready = agent_announces, .arg = a});
	log_info("agent", "started version=%s node=%s workers=%zu services=%zu", EDGEWAY_VERSION,
		options->node, workers_count(a->workers), snapshot_count(a->snapshot));
	*out = a;
	return 0;
}

static void
on_dns_stopped(void *arg)
{
	struct agent *a = arg;

	meta_stop(&a->meta);
	loop_stop(a->loop);
}

static void
on_tunnel_ended(void *arg)
{
	struct agent *a = arg;

	dns_stop(&a->dns, on_dns_stopped, a);
}

static void
on_lb_stopped(void *arg)
{
	struct agent *a = arg;
	struct err err = {0};

	/* only now: without the table's translation what was in progress would have been reset */
	if (a->options->on_stop != ON_STOP_KEEP && iptables_remove(a->ipt, &err) < 0)
		log_error("agent", "cannot remove the nftables table: %s", err.text);
	iptables_close(&a->ipt);
	canary_stop(&a->canary);
	agent_tunnel_end(a, on_tunnel_ended);
}

static void
stop(void *arg)
{
	struct agent *a = arg;
	struct err err = {0};

	if (a->stopping)
		return;
	a->stopping = true;
	announce_stopping(a->announce);
	log_info("agent", "stopping: finishing what is in progress drain_ms=%llu",
		(unsigned long long)a->options->drain_timeout);
	timer_cancel(a->retry);
	if (a->options->on_stop != ON_STOP_KEEP)
		agent_capture_end(a);
	if (a->options->dns_manage_resolv_conf && a->options->on_stop != ON_STOP_KEEP &&
		dns_resolvconf_restore(a->dns, &err) < 0) {
		log_error("agent", "cannot restore resolv.conf: %s", err.text);
		a->status = 1;
	}
	if (iptables_drain(a->ipt, &err) < 0)
		log_error("agent", "new connections still go to the listener: %s", err.text);
	agent_tunnel_drain(a);
	lb_stop(&a->lb, a->options->drain_timeout, on_lb_stopped, a);
}

int
agent_run(struct agent **out)
{
	struct agent *a = take_ptr(out);
	int status;

	loop_run(a->loop);
	workers_stop(&a->workers);
	admin_stop(&a->admin);
	announce_stop(&a->announce);
	signal_stop(&a->term);
	signal_stop(&a->intr);
	signal_stop(&a->hup);
	timer_free(&a->retry);
	snapshot_unref(&a->snapshot);
	loop_free(&a->loop);
	log_info("agent", "stopped node=%s", a->options->node);
	free(a->upstreams);
	close(a->network_lock);
	close(a->lock);
	status = a->status;
	free(a);
	return status;
}
