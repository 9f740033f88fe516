#include "src/agent.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "base/carriers.h"
#include "base/log.h"
#include "model/mesh.h"
#include "src/agent_private.h"
#include "src/limits.h"
#include "src/lock.h"
#include "src/reload.h"
#include "src/rights.h"

enum { WORKERS_MOST = 4 };

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
wanted_workers(const struct agent_options *o)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);

	if (o->mesh_workers > 0)
		return o->mesh_workers;
	return cores < 1 ? 1 : MIN((size_t)cores, (size_t)WORKERS_MOST);
}

/* As many as have sockets: one that nobody reads would lose what the kernel puts into it. */
static size_t
worker_count(const struct agent *a)
{
	size_t wanted = wanted_workers(a->options);
	size_t had = a->takeover != NULL ? takeover_workers(a->takeover) : 0;

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
		.carriers = a->carriers,
		.heartbeat_ms = o->hub_heartbeat,
		.mark = MESH_MARK,
		.forward = agent_tunnel_wanted(o),
		.hub_changed = on_hub,
	};

	return meta_open(&a->meta, &config, use, a, err);
}

/* dns_keep: the database may be closed and opened anew meanwhile. */
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
		.interface = o->mesh_interface,
		.interfaces = (const char *const *)o->mesh_interfaces,
		.port = (uint16_t)o->dns_port,
		.ttl_s = o->dns_ttl,
		.upstreams = a->upstreams,
		.n_upstreams = a->n_upstreams,
		.resolv_conf = o->dns_resolv_conf,
		.manage_resolv_conf = o->dns_manage_resolv_conf,
		.mark = MESH_MARK,
		.keep = {a, keep_get, keep_put, keep_del},
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
		.port = (uint16_t)o->mesh_listen_port,
		.policy = agent_options_policy(o),
		.subnet = o->mesh_subnet.address,
		.mask = o->mesh_subnet.mask,
		.metric_services = o->lb_metric_services,
		.mark = MESH_MARK,
		.forward = agent_tunnel_wanted(o) ? agent_tunnel_forward : NULL,
		.forward_arg = a,
		.take_spans = a->tracing != NULL ? tracing_take : NULL,
		.spans_arg = a->tracing,
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
use_access_log(struct agent *a)
{
	lb_access_log(a->lb, (enum lb_access_mode)a->options->lb_access_log,
		(uint32_t)a->options->lb_access_log_sample);
}

static void
use_sample(struct agent *a, struct agent_options *read)
{
	char *former = a->options->tracing_sample;

	a->options->tracing_sample = read->tracing_sample;
	read->tracing_sample = former;
	a->options->tracing_limit = read->tracing_limit;
	agent_tracing_use(a);
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
		a->options->lb_access_log_sample = read.lb_access_log_sample;
		use_access_log(a);
		use_sample(a, &read);
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
	tracing_upstreams(a->tracing, upstreams, n);
	dns_follow_upstreams(a->dns, agent_upstreams, a);
}

static int
open_parts(struct agent *a, struct err *err)
{
	int rc = loop_new(&a->loop, err);

	if (rc == 0)
		rc = workers_new(&a->workers, worker_count(a), err);
	if (rc == 0)
		rc = parse_upstreams(a, err);
	if (rc == 0)
		rc = agent_carriers_open(a, err);
	if (rc == 0)
		rc = open_meta(a, err);
	if (rc == 0)
		rc = open_dns(a, err);
	if (rc == 0)
		rc = agent_tracing_open(a, err);
	if (rc == 0)
		rc = open_lb(a, err);
	if (rc < 0)
		return rc;
	if (a->takeover != NULL)
		takeover_use(a->takeover, a->dns, a->lb);
	dns_use(a->dns, a->snapshot);
	lb_use(a->lb, a->snapshot);
	use_access_log(a);
	agent_tracing_use(a);
	a->retry = timer_new(a->loop, agent_mesh_retry, a);
	a->started_ms = loop_now_ms(a->loop);
	start_canary(a);
	rc = open_iptables(a, err);
	if (rc == 0)
		rc = agent_tunnel_start(a, err);
	if (rc == 0 && a->takeover == NULL)
		rc = agent_admin_start(a, err);
	if (rc == 0 && a->takeover == NULL)
		rc = agent_metrics_start(a, err);
	return rc;
}

/* The locks, or those of the agent that runs, with its sockets. */
static int
take_locks(struct agent *a, struct err *err)
{
	const struct agent_options *o = a->options;
	int rc = 0;

	if (o->takeover && o->admin_socket[0] != '\0')
		rc = takeover_ask(o->admin_socket, &a->takeover, err);
	if (rc == 0 && a->takeover != NULL) {
		takeover_locks(a->takeover, &a->lock, &a->network_lock);
		if (a->lock >= 0 && !lock_is_of(o->data_dir, a->lock))
			return err_set(err, EINVAL,
				"takeover: the agent that runs has another dataDir than %s; stop "
				"it "
				"first to change that",
				o->data_dir);
		lock_inherit(a->lock);
		rights_reduce(o);
		return 0;
	}
	if (rc == 0)
		rc = lock_take(o->data_dir, &a->lock, err);
	if (rc == 0)
		rights_reduce(o); /* the folder is there now, threads are not yet */
	if (rc == 0)
		rc = lock_network(&a->network_lock, err);
	return rc;
}

/* While there is one thread. Without a starter there is no upgrade, and all else. */
static void
settle_in(struct agent *a)
{
	struct err err = {0};

	if (starter_new(&a->starter, a->argv, &err) < 0)
		log_warn("agent", "edgewayctl upgrade will not work: %s", err.text);
	confine_enter(&a->confine, (enum sandbox_mode)a->options->seccomp);
}

/* --- from one agent to the next -------------------------------------------- */

/* It goes on, with what is on the host, in the database and at the hub. */
static void
leave_to_predecessor(struct agent *a)
{
	a->handed_over = true;
	iptables_undo(a->ipt); /* what was the other one's still is */
	agent_freeze(a);
	takeover_free(&a->takeover); /* at its end the other one goes on, if it has not yet */
}

static void
on_predecessor_gone(void *arg, bool ours)
{
	struct agent *a = arg;

	if (ours) {
		if (iptables_inherit(a->ipt, takeover_estate(a->takeover)) < 0)
			log_warn("agent",
				"the agent before this one did not say what is to be put back at "
				"the end: its reserved port and its bridges' hairpin mode stay");
		takeover_free(&a->takeover);
		log_info("agent", "has taken over");
		announce_again(a->announce);
		agent_admin_open(a);
		if (a->address == 0 && a->mesh_error[0] != '\0')
			agent_address(a, 0); /* what is on the host is ours now, and misleads */
		return;
	}
	log_error("agent", "came too late, the agent before goes on: it waits %d s",
		HANDOVER_MS / 1000);
	a->status = 1;
	leave_to_predecessor(a);
	agent_stop(a);
}

void
agent_served(struct agent *a)
{
	if (a->takeover != NULL)
		takeover_serving(a->takeover);
}

/* An agent before that does not serve either has nothing to lose. */
void
agent_tried(struct agent *a)
{
	if (a->takeover != NULL && takeover_workers(a->takeover) == 0)
		agent_served(a);
}

void
agent_freeze(struct agent *a)
{
	timer_cancel(a->retry);
	dns_freeze(a->dns);
	buf_init(&a->estate, BUF_UNLIMITED);
	iptables_leave(&a->ipt, &a->estate);
	meta_stop(&a->meta);
	agent_tunnel_hold(a, true);
}

int
agent_resume(struct agent *a, struct err *err)
{
	int rc = open_meta(a, err);

	if (rc == 0)
		rc = open_iptables(a, err);
	if (rc < 0)
		return rc;
	iptables_inherit(a->ipt, buf_str(&a->estate));
	buf_fini(&a->estate);
	dns_thaw(a->dns);
	agent_tunnel_hold(a, false);
	connect_hub(a);
	return 0;
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
	rc = take_locks(a, err);
	if (rc == 0) {
		settle_in(a);
		rc = open_parts(a, err);
	}
	if (rc < 0) {
		iptables_close(&a->ipt); /* the rest ends with the process */
		return rc;
	}
	a->term = signal_start(a->loop, SIGTERM, agent_stop, a);
	a->intr = signal_start(a->loop, SIGINT, agent_stop, a);
	a->hup = signal_start(a->loop, SIGHUP, on_hup, a);
	confine_follow(a->confine, a->loop);
	workers_run(a->workers);
	connect_hub(a);
	if (a->takeover != NULL)
		takeover_follow(a->takeover, a->loop, on_predecessor_gone, a);
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

	if (a->meta != NULL)
		meta_stop(&a->meta);
	carriers_free(&a->carriers);
	if (!handover_waits(a))
		loop_stop(a->loop);
}

void
agent_end(struct agent *a)
{
	dns_stop(&a->dns, on_dns_stopped, a);
}

static void
on_tunnel_ended(void *arg)
{
	struct agent *a = arg;

	if (!handover_lingers(a))
		agent_end(a);
}

/* What was changed on the host is left to the next agent. */
static bool
stays(const struct agent *a)
{
	return a->handed_over || a->options->on_stop == ON_STOP_KEEP;
}

static void
on_spans_sent(void *arg)
{
	agent_tunnel_end(arg, on_tunnel_ended);
}

static void
on_lb_stopped(void *arg)
{
	struct agent *a = arg;
	struct err err = {0};

	/* only now: without the table's translation what was in progress would have been reset */
	if (!stays(a) && iptables_remove(a->ipt, &err) < 0)
		log_error("agent", "cannot remove the nftables table: %s", err.text);
	iptables_close(&a->ipt);
	canary_stop(&a->canary);
	agent_tracing_end(a, on_spans_sent);
}

void
agent_hand_over(struct agent *a)
{
	a->handed_over = true;
	announce_stop(&a->announce);
	lb_hand_over(&a->lb, a->options->drain_timeout, on_lb_stopped, a);
}

void
agent_stop(void *arg)
{
	struct agent *a = arg;
	struct err err = {0};

	if (handover_terminates(a) || a->stopping)
		return;
	a->stopping = true;
	if (a->takeover != NULL && !takeover_offered(a->takeover))
		leave_to_predecessor(a);
	announce_stopping(a->announce);
	log_info("agent", "stopping: finishing what is in progress drain_ms=%llu",
		(unsigned long long)a->options->drain_timeout);
	timer_cancel(a->retry);
	if (!stays(a))
		agent_capture_end(a);
	if (a->options->dns_manage_resolv_conf && !stays(a) &&
		dns_resolvconf_restore(a->dns, &err) < 0) {
		log_error("agent", "cannot restore resolv.conf: %s", err.text);
		a->status = 1;
	}
	if (!a->handed_over && iptables_drain(a->ipt, &err) < 0)
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
	admin_stop(&a->metrics);
	announce_stop(&a->announce);
	signal_stop(&a->term);
	signal_stop(&a->intr);
	signal_stop(&a->hup);
	timer_free(&a->retry);
	timer_free(&a->admin_retry);
	handover_free(a);
	buf_fini(&a->estate);
	takeover_free(&a->takeover);
	confine_free(&a->confine);
	starter_free(&a->starter);
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
