#include "src/hub/hub_main_private.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/inherited.h"
#include "base/core/log.h"
#include "base/http/admin.h"
#include "src/common/check.h"
#include "src/common/limits.h"
#include "src/common/lock.h"
#include "src/common/log_admin.h"
#include "src/common/reload.h"
#include "src/common/self.h"
#include "src/hub/hub_rights.h"

enum { TOKEN_TTL_S = 24 * 3600, TOKEN_TTL_MOST_S = 365 * 24 * 3600, TOKEN_USES_MOST = 10000 };

static void
on_healthz(void *arg, const struct admin_request *req, struct admin_reply *reply)
{
	(void)arg;
	(void)req;
	buf_adds(&reply->body, "ok\n");
}

static void
on_readyz(void *arg, const struct admin_request *req, struct admin_reply *reply)
{
	struct hub_main *m = arg;

	(void)req;
	if (!hub_ready(m->hub))
		reply->status = 503;
	buf_printf(&reply->body, "%s\n", hub_ready(m->hub) ? "ok" : hub_waits(m->hub));
}

static bool
hub_main_announces(void *arg, struct buf *status)
{
	struct hub_main *m = arg;

	buf_adds(status, hub_ready(m->hub) ? "serves" : hub_waits(m->hub));
	return hub_ready(m->hub);
}

static void
on_metrics(void *arg, const struct admin_request *req, struct admin_reply *reply)
{
	struct hub_main *m = arg;
	struct metrics metrics;

	(void)req;
	metrics_init(&metrics);
	metric_gauge(&metrics, "edgeway_hub_info", "Constant 1, labelled with the version.",
		"version=\"" EDGEWAY_VERSION "\"", 1);
	metric_gauge(
		&metrics, "edgeway_hub_ready", "1 when /readyz says 200.", NULL, hub_ready(m->hub));
	metric_counter(&metrics, "edgeway_hub_reloads_total",
		"SIGHUP: the configuration was read again.", "result=\"adopted\"", m->reloaded);
	metric_counter(&metrics, "edgeway_hub_reloads_total",
		"SIGHUP: the configuration was read again.", "result=\"refused\"", m->not_reloaded);
	hub_metrics(m->hub, &metrics);
	tracing_metrics(m->tracing.exporter, &m->tracing.spans, &metrics);
	admin_metrics(m->admin, m->metrics, &metrics);
	confine_metrics(m->confine, &metrics);
	self_metrics(&metrics, m->loop, m->workers);
	reply->type = "text/plain; version=0.0.4; charset=utf-8";
	buf_add(&reply->body, buf_at(&metrics.out), buf_len(&metrics.out));
	metrics_fini(&metrics);
}

/* Thousands of services have tens of megabytes. */
static void
on_state_more(void *arg, uint64_t *at, struct buf *out)
{
	struct hub_main *m = arg;

	if (hub_state_services(m->hub, at, out))
		buf_adds(out, "}\n");
}

static void
on_state(void *arg, const struct admin_request *req, struct admin_reply *reply)
{
	struct hub_main *m = arg;

	(void)req;
	reply->type = "application/json";
	buf_printf(&reply->body,
		"{\"program\":\"edgeway-hub\",\"version\":\"" EDGEWAY_VERSION
		"\",\"node\":\"the cloud\",\"ready\":%s,\"uptime_s\":%llu,\"seccomp\":",
		hub_ready(m->hub) ? "true" : "false",
		(unsigned long long)((loop_now_ms(m->loop) - m->started_ms) / 1000));
	confine_state(m->confine, &reply->body);
	buf_adds(&reply->body, ",\"admin\":");
	self_admin_state(m->admin, m->metrics, &reply->body);
	buf_adds(&reply->body, ",\"tracing\":");
	tracing_state(m->tracing.exporter, &reply->body);
	buf_adds(&reply->body, ",\"hub\":");
	hub_state(m->hub, &reply->body);
	reply->more = on_state_more;
}

static void
on_nodes(void *arg, const struct admin_request *req, struct admin_reply *reply)
{
	struct hub_main *m = arg;

	(void)req;
	reply->type = "application/json";
	hub_nodes(m->hub, &reply->body);
}

static void
on_streams(void *arg, const struct admin_request *req, struct admin_reply *reply)
{
	struct hub_main *m = arg;

	(void)req;
	reply->type = "application/json";
	hub_streams(m->hub, &reply->body);
}

static void
on_tunnels(void *arg, const struct admin_request *req, struct admin_reply *reply)
{
	struct hub_main *m = arg;

	(void)req;
	reply->type = "application/json";
	hub_tunnels(m->hub, &reply->body);
}

static void
on_peers(void *arg, const struct admin_request *req, struct admin_reply *reply)
{
	struct hub_main *m = arg;

	(void)req;
	reply->type = "application/json";
	hub_peers(m->hub, &reply->body);
}

static void
hub_main_refuse(struct admin_reply *reply, int status, const char *why)
{
	reply->status = status;
	buf_printf(&reply->body, "%s\n", why);
}

/* The next hub is reading the disk, or has read it: a change now would be lost. */
static bool
hub_main_hands_over(const struct hub_main *m, struct admin_reply *reply)
{
	if (!handover_is_under_way(m->handover))
		return false;
	hub_main_refuse(reply, 503, "this hub hands over to a new one: try again");
	return true;
}

static void
on_token_create(void *arg, const struct admin_request *req, struct admin_reply *reply)
{
	struct hub_main *m = arg;
	char node[256] = "", ttl[32] = "", uses[32] = "";
	struct hub_token token = {.node = node, .uses = 1, .ttl_s = TOKEN_TTL_S};
	struct err err = {0};
	int rc;

	if (hub_main_hands_over(m, reply))
		return;
	/* A misspelt name must not result in a token for any name. */
	if ((rc = admin_query(req->query, "node", node, sizeof node)) < 0 ||
		(rc == 1 && node[0] == '\0')) {
		hub_main_refuse(reply, 400, "node must be a node's name");
		return;
	}
	if ((rc = admin_query(req->query, "ttl", ttl, sizeof ttl)) == 1)
		token.ttl_s = strtoul(ttl, NULL, 10);
	if (rc < 0 || ttl[strspn(ttl, "0123456789")] != '\0' || token.ttl_s == 0 ||
		token.ttl_s > TOKEN_TTL_MOST_S) {
		hub_main_refuse(reply, 400, "ttl must be a number of seconds from 1 to 31536000");
		return;
	}
	if ((rc = admin_query(req->query, "uses", uses, sizeof uses)) == 1)
		token.uses = strcmp(uses, "unlimited") == 0 ? 0 : strtoul(uses, NULL, 10);
	if (rc < 0 ||
		(rc == 1 && strcmp(uses, "unlimited") != 0 &&
			(uses[strspn(uses, "0123456789")] != '\0' || token.uses == 0 ||
				token.uses > TOKEN_USES_MOST))) {
		hub_main_refuse(
			reply, 400, "uses must be a number of joins from 1 to 10000, or unlimited");
		return;
	}
	if (hub_token_create(m->hub, &token, &reply->body, &err) < 0)
		hub_main_refuse(reply, 400, err.text);
	else
		buf_adds(&reply->body, "\n");
}

static void
on_tokens(void *arg, const struct admin_request *req, struct admin_reply *reply)
{
	struct hub_main *m = arg;

	(void)req;
	reply->type = "application/json";
	hub_token_list(m->hub, &reply->body);
}

/* The change is in force; but the disk may be full. */
static void
say_ended(const struct hub_main *m, struct admin_reply *reply, const char *verb, const char *what)
{
	const char *unwritten = hub_unwritten(m->hub);

	buf_printf(&reply->body, "%s %s\n", verb, what);
	if (unwritten[0] != '\0')
		buf_printf(&reply->body, "but not on the disk yet: %s\n", unwritten);
}

static void
on_token_revoke(void *arg, const struct admin_request *req, struct admin_reply *reply)
{
	struct hub_main *m = arg;
	struct err err = {0};
	char id[64] = "";

	if (hub_main_hands_over(m, reply))
		return;
	if (admin_query(req->query, "id", id, sizeof id) != 1)
		hub_main_refuse(reply, 400, "id must be that of a token");
	else if (hub_token_revoke(m->hub, id, &err) < 0)
		hub_main_refuse(reply, 400, err.text);
	else
		say_ended(m, reply, "revoked", id);
}

static void
end_node(const struct hub_main *m, const struct admin_request *req, struct admin_reply *reply,
	bool forget)
{
	struct err err = {0};
	char node[256] = "";
	int rc;

	if (hub_main_hands_over(m, reply))
		return;
	if (admin_query(req->query, "name", node, sizeof node) != 1) {
		hub_main_refuse(reply, 400, "name must be that of a node");
		return;
	}
	rc = forget ? hub_node_forget(m->hub, node, &err) : hub_node_revoke(m->hub, node, &err);
	if (rc < 0)
		hub_main_refuse(reply, 400, err.text);
	else
		say_ended(m, reply, forget ? "forgotten" : "revoked", node);
}

static void
on_node_revoke(void *arg, const struct admin_request *req, struct admin_reply *reply)
{
	end_node(arg, req, reply, false);
}

static void
on_node_forget(void *arg, const struct admin_request *req, struct admin_reply *reply)
{
	end_node(arg, req, reply, true);
}

static void
on_hubs(void *arg, const struct admin_request *req, struct admin_reply *reply)
{
	struct hub_main *m = arg;

	(void)req;
	reply->type = "application/json";
	hub_hubs(m->hub, &reply->body);
}

static void
on_hub_revoke(void *arg, const struct admin_request *req, struct admin_reply *reply)
{
	struct hub_main *m = arg;
	auto_buf struct buf serial;
	struct err err = {0};
	char name[256] = "";

	buf_init(&serial, BUF_UNLIMITED);
	if (hub_main_hands_over(m, reply))
		return;
	if (admin_query(req->query, "name", name, sizeof name) != 1)
		hub_main_refuse(reply, 400, "name must be that of a hub, or a serial number");
	else if (hub_hub_revoke(m->hub, name, &serial, &err) < 0)
		hub_main_refuse(reply, 400, err.text);
	else
		say_ended(m, reply, "revoked", buf_str(&serial));
}

static void
on_access_check(void *arg, const struct admin_request *req, struct admin_reply *reply)
{
	struct hub_main *m = arg;
	struct err err = {0};
	char from[512] = "", to[512] = "";

	if (admin_query(req->query, "from", from, sizeof from) != 1 ||
		admin_query(req->query, "to", to, sizeof to) != 1)
		hub_main_refuse(reply, 400, "from and to: who calls, and whom");
	else if (hub_access(m->hub, from, to, &reply->body, &err) < 0)
		hub_main_refuse(reply, 400, err.text);
	else
		reply->type = "application/json";
}

static void
on_ca(void *arg, const struct admin_request *req, struct admin_reply *reply)
{
	const struct hub_main *m = arg;

	(void)req;
	reply->type = "application/json";
	hub_ca_list(m->hub, &reply->body);
}

static void
on_ca_use(void *arg, const struct admin_request *req, struct admin_reply *reply)
{
	const struct hub_main *m = arg;
	struct err err = {0};
	char force[8] = "";

	if (admin_query(req->query, "force", force, sizeof force) < 0)
		hub_main_refuse(reply, 400, "force: yes expected");
	else if (hub_ca_use(m->hub, strcmp(force, "yes") == 0, &err) < 0)
		hub_main_refuse(reply, 400, err.text);
	else
		buf_adds(&reply->body, "using the CA of the Secret\n");
}

/* The port is that of the agents' admin.listen or metrics.listen. */
static void
on_targets(void *arg, const struct admin_request *req, struct admin_reply *reply)
{
	struct hub_main *m = arg;
	char text[8] = "40002";
	unsigned long port = 0;

	if (admin_query(req->query, "port", text, sizeof text) >= 0 &&
		text[strspn(text, "0123456789")] == '\0')
		port = strtoul(text, NULL, 10);
	if (port < 1 || port > 65535) {
		reply->status = 400;
		buf_adds(&reply->body, "port: a number from 1 to 65535 expected\n");
		return;
	}
	reply->type = "application/json";
	hub_targets(m->hub, (unsigned)port, &reply->body);
}

static void
on_ask_agent(void *arg, int fd, const char *query)
{
	struct hub_main *m = arg;

	hub_ask_agent(m->hub, fd, query);
}

static const struct admin_route for_prometheus[] = {
	{"GET", "/healthz", on_healthz, false},
	{"GET", "/readyz", on_readyz, false},
	{"GET", "/metrics", on_metrics, false},
	{"GET", "/targets", on_targets, false},
	{NULL, NULL, NULL, false},
};

static const struct admin_route routes[] = {
	{"GET", "/healthz", on_healthz, false},
	{"GET", "/readyz", on_readyz, false},
	{"GET", "/metrics", on_metrics, false},
	{"GET", "/targets", on_targets, false},
	{"GET", "/debug/state", on_state, false},
	{"GET", "/nodes", on_nodes, false},
	{"POST", "/nodes/revoke", on_node_revoke, true},
	{"POST", "/nodes/ask", NULL, true},
	{"POST", "/nodes/forget", on_node_forget, true},
	{"GET", "/hubs", on_hubs, false},
	{"POST", "/hubs/revoke", on_hub_revoke, true},
	{"GET", "/ca", on_ca, false},
	{"POST", "/ca/use", on_ca_use, true},
	{"GET", "/tunnels", on_tunnels, false},
	{"GET", "/debug/streams", on_streams, false},
	{"GET", "/peers", on_peers, false},
	{"GET", "/tokens", on_tokens, true},
	{"POST", "/tokens/create", on_token_create, true},
	{"POST", "/tokens/revoke", on_token_revoke, true},
	{"GET", "/access/check", on_access_check, true},
	{"GET", "/debug/events", self_events, true},
	{"POST", "/upgrade", NULL, true},
	{"GET", "/log", log_admin_show, false},
	{"POST", "/log/level", log_admin_level, true},
	{NULL, NULL, NULL, false},
};

static void
on_spans_sent(void *arg)
{
	struct hub_main *m = arg;

	loop_stop(m->loop);
}

void
hub_main_end(void *arg)
{
	struct hub_main *m = arg;

	hub_end_spans(m->hub);
	hub_tracing_end(&m->tracing, on_spans_sent, m);
}

/* Or drainTimeout has passed. */
static void
on_drained(void *arg)
{
	const struct hub_main *m = arg;

	handover_drained(m->handover);
}

void
hub_main_drain(struct hub_main *m)
{
	timer_start(m->drain, m->options->drain_timeout, 0);
	hub_drain(m->hub, on_drained, m);
}

void
hub_main_stop(void *arg)
{
	struct hub_main *m = arg;

	if (!handover_terminate(m->handover))
		return;
	if (m->takeover != NULL && !takeover_offered(m->takeover))
		hub_hold(m->hub, true); /* the rules belong to the predecessor, which continues */
	service_state_stopping(m->announce);
	log_info("hub", "stopping: finishing what is in progress drain_ms=%llu",
		(unsigned long long)m->options->drain_timeout);
	hub_main_drain(m);
}

static struct quota_limits
limits_of(const struct hub_options *o)
{
	return (struct quota_limits){
		.of = {[QUOTA_CALLER] = {o->ingress_limits_caller_streams,
			       o->ingress_limits_caller_bytes},
			[QUOTA_NODE] = {o->ingress_limits_node_streams,
				o->ingress_limits_node_bytes}},
	};
}

static void
hub_main_adopt(struct hub_options *to, struct hub_options *from)
{
	char **peers = to->peers, *sample = to->tracing_sample;

	to->log_level = from->log_level;
	to->log_format = from->log_format;
	to->drain_timeout = from->drain_timeout;
	to->access = from->access;
	to->ingress_redirect = from->ingress_redirect;
	to->peers = from->peers; /* on the heap: each struct keeps one of the two lists */
	from->peers = peers;
	to->tracing_sample = from->tracing_sample; /* swapped for the same reason */
	from->tracing_sample = sample;
	to->tracing_limit = from->tracing_limit;
	to->ingress_limits_caller_streams = from->ingress_limits_caller_streams;
	to->ingress_limits_caller_bytes = from->ingress_limits_caller_bytes;
	to->ingress_limits_node_streams = from->ingress_limits_node_streams;
	to->ingress_limits_node_bytes = from->ingress_limits_node_bytes;
}

static struct hub_ways_in
ways_in_of(const struct hub_options *o)
{
	struct hub_ways_in ways_in = {
		.limits = limits_of(o),
		.peers = (const char *const *)o->peers,
		.http = o->ingress_http,
		.egress = o->ingress_egress,
		.tls = o->ingress_tls,
		.tcp = o->ingress_tcp,
		.udp = o->ingress_udp,
		.udp_idle_ms = o->ingress_udp_idle,
		.udp_flows = (unsigned)o->ingress_udp_flows,
		.access = o->access,
		.zone = o->ingress_dns,
		.dns_listen = o->ingress_dns_listen,
		.dns_ttl_s = o->ingress_dns_ttl,
		.addresses = (const char *const *)o->node_addresses,
		.others = {o->admin_listen, o->metrics_listen, o->web_listen},
		.hosts_map = o->ingress_hosts_config_map,
		.hosts_key = o->ingress_hosts_key,
	};

	/* hub_options_load has checked it */
	(void)hub_options_redirect(o, &ways_in.redirect, NULL);
	return ways_in;
}

static int
hub_main_reload(struct hub_main *m, struct hub_options *read, struct err *err)
{
	struct hub_ways_in ways_in;
	bool check;

	if (hub_options_load(read, m->argc, m->argv, &check, err) != OPT_RUN)
		return -EINVAL;
	ways_in = ways_in_of(read);
	return hub_reload(m->hub, &ways_in, err);
}

static void
on_hup(void *arg)
{
	struct hub_main *m = arg;
	struct hub_options read = {0}, swap;
	struct err err = {0};

	if (hub_main_reload(m, &read, &err) < 0) {
		m->not_reloaded++;
		log_error("hub",
			"the configuration is not reloaded, and what was in force stays so: %s",
			err.text);
	} else {
		m->reloaded++;
		reload_report("hub", &hub_program, m->options, &read);
		hub_main_adopt(m->options, &read);
		hub_tracing_use(&m->tracing, m->options);
		log_setup((enum log_level)read.log_level, (enum log_format)read.log_format);
		swap = m->reread;
		m->reread = read;
		read = swap;
	}
	hub_options_free(&read);
}

int
hub_main_start_admin(struct hub_main *m, struct err *err)
{
	static const struct admin_taken taken[] = {
		{"/nodes/ask", on_ask_agent},
		{"/takeover", hub_main_takeover},
		{"/upgrade", hub_main_upgrade},
		{NULL, NULL},
	};
	const struct hub_options *o = m->options;
	const struct admin_config admin = {
		.key = "admin.listen",
		.listen = o->admin_listen,
		.names = {(const char *const *)o->admin_names, (const char *const *)o->tls_names},
		.socket_path = o->admin_socket,
		.routes = routes,
		.arg = m,
		.taken = taken,
	};
	const struct admin_config metrics = {
		.key = "metrics.listen",
		.listen = o->metrics_listen,
		.names = {(const char *const *)o->admin_names, (const char *const *)o->tls_names},
		.socket_path = "",
		.routes = for_prometheus,
		.arg = m,
	};
	int rc = admin_start(&m->admin, m->loop, &admin, err);

	if (rc == 0 && o->metrics_listen[0] != '\0' &&
		(rc = admin_start(&m->metrics, m->loop, &metrics, err)) < 0)
		err_wrap(err, rc, "metrics.listen");
	inherited_drop();
	return rc;
}

/* With a single worker the hub's own loop does everything. Tunnels have threads of their own beside
 * those for TLS: what strangers have these do takes no time of them. */
static int
hub_main_make_workers(struct hub_main *m, struct hub_config *config, struct err *err)
{
	static const char *const kinds[] = {"tls", "tunnels"};
	size_t n = workers_wanted(m->options->workers);
	int rc;

	if (n < 2)
		return 0;
	rc = workers_new(&m->workers, kinds, ARRAY_LEN(kinds), n, err);
	if (rc < 0)
		return rc;
	config->workers = workers_loops(m->workers);
	config->n_workers = n;
	return 0;
}

static int
hub_main_start(struct hub_main *m, const struct hub_options *o, struct err *err)
{
	struct hub_config config = {
		.listen = o->listen,
		.manifests = o->source_manifests,
		.kubeconfig = o->source_kubernetes_kubeconfig,
		.compress = o->tunnel_compress,
		.kubernetes_silence_ms = o->source_kubernetes_silence,
		.kubernetes_alone = !o->source_kubernetes_share,
		.kubernetes_rules = o->source_kubernetes_destination_rules,
		.kubernetes_policies = o->source_kubernetes_network_policies,
		.kubernetes_gateway = o->source_kubernetes_gateway_api,
		.kubernetes_sites = o->source_kubernetes_sites,
		.kubernetes_namespace = o->source_kubernetes_namespace,
		.data_dir = o->data_dir,
		.cert = o->tls_cert,
		.key = o->tls_key,
		.ca = o->tls_ca,
		.ca_key = o->tls_ca_key,
		.ca_force = o->tls_ca_force,
		.names = (const char *const *)o->tls_names,
		.service = o->tls_service,
		.approval = o->join_approval,
		.join_nodes = o->join_nodes,
		.node_life_s = o->tls_node_lifetime / 1000,
		.cluster_domain = "",
		.ways_in = ways_in_of(o),
		.web = {.listen = o->web_listen,
			.cert = o->web_cert,
			.key = o->web_key,
			.client_ca = o->web_client_ca,
			.names = (const char *const *)o->web_names,
			.viewers = o->web_viewers},
	};
	int rc;

	signal(SIGPIPE, SIG_IGN);
	limit_descriptors();
	rc = hub_main_take_lock(m, err);
	config.held = m->takeover != NULL;
	if (rc == 0 && o->ingress_redirect == NULL)
		hub_sweep(); /* while its privileges allow that */
	if (rc == 0) { /* the folder exists now, and there are no threads yet */
		hub_rights_reduce(o);
		if (o->admin_socket[0] != '\0' && spawner_new(&m->starter, m->argv, err) < 0)
			log_warn("hub", "edgewayctl upgrade will not work: %s", err->text);
		confine_enter(&m->confine, (enum sandbox_mode)o->seccomp);
		rc = loop_new(&m->loop, err);
	}
	config.ways_in.spans = &m->tracing.spans;
	if (rc == 0)
		rc = hub_main_make_workers(m, &config, err);
	if (rc == 0)
		rc = hub_tracing_open(&m->tracing, m->loop, o, err);
	if (rc == 0)
		rc = hub_start(&m->hub, m->loop, &config, err);
	if (rc == 0 && m->takeover == NULL)
		rc = hub_main_start_admin(m, err);
	if (rc == 0 && m->workers != NULL)
		rc = workers_run(m->workers, err);
	if (rc < 0)
		return rc;
	m->started_ms = loop_now_ms(m->loop);
	confine_follow(m->confine, m->loop);
	m->drain = timer_new(m->loop, on_drained, m);
	m->term = signal_start(m->loop, SIGTERM, hub_main_stop, m);
	m->intr = signal_start(m->loop, SIGINT, hub_main_stop, m);
	m->hup = signal_start(m->loop, SIGHUP, on_hup, m);
	service_state_start(&m->announce,
		&(struct service_state_config){
			.loop = m->loop, .part = "hub", .ready = hub_main_announces, .arg = m});
	hub_main_follow(m);
	return 0;
}

/* The exporter needs the loop to free itself. */
static void
end_tracing(struct hub_main *m)
{
	hub_tracing_end(&m->tracing, on_spans_sent, m);
	loop_run(m->loop);
}

static int
hub_main_run(struct hub_main *m)
{
	struct hub_options *o = m->options;
	struct err err = {0};
	bool check = false;
	int rc;

	switch (hub_options_load(o, m->argc, m->argv, &check, &err)) {
	case OPT_EXIT_OK:
		return 0;
	case OPT_EXIT_BAD:
		fprintf(stderr, "edgeway-hub: %s\n", err.text);
		return 2;
	case OPT_RUN:
		break;
	}
	if (check)
		return check_print(&hub_program, o);
	log_setup((enum log_level)o->log_level, (enum log_format)o->log_format);
	rc = hub_main_start(m, o, &err);
	if (rc < 0)
		log_error("hub", "cannot start: %s", err.text);
	if (rc == 0)
		loop_run(m->loop);
	else if (m->tracing.exporter != NULL)
		end_tracing(m);
	admin_stop(&m->admin);
	admin_stop(&m->metrics);
	service_state_stop(&m->announce);
	handover_free(&m->handover);
	timer_free(&m->ready);
	takeover_free(&m->takeover);
	hub_stop(&m->hub);
	workers_stop(&m->workers);
	timer_free(&m->drain);
	signal_stop(&m->term);
	signal_stop(&m->intr);
	signal_stop(&m->hup);
	confine_free(&m->confine);
	spawner_free(&m->starter);
	loop_free(&m->loop);
	if (rc == 0)
		log_info("hub", "stopped");
	return rc < 0 ? 1 : m->status;
}

int
main(int argc, char **argv)
{
	struct hub_options options = {0};
	struct hub_main m = {.options = &options, .argc = argc, .argv = argv, .lock = -1};
	int status;

	open_standard_descriptors();
	opt_hide_secrets(&hub_program, argc, argv);
	status = hub_main_run(&m);
	hub_options_free(&options);
	hub_options_free(&m.reread);
	return status;
}
