#include <arpa/inet.h>

#include "base/core/log.h"
#include "base/http/ws_tunnels.h"
#include "model/backend_tls.h"
#include "model/check.h"
#include "model/json.h"
#include "model/local_callers.h"
#include "src/agent/agent_private.h"
#include "src/common/log_admin.h"
#include "src/common/self.h"

enum { ADMIN_TRIES = 100, ADMIN_RETRY_MS = 50 };

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
	(void)req;
	if (!agent_ready(arg, &reply->body)) {
		reply->status = 503;
		return;
	}
	buf_adds(&reply->body, "ok\n");
	agent_degraded(arg, &reply->body);
}

static void
on_metrics(void *arg, const struct admin_request *req, struct admin_reply *reply)
{
	struct agent *a = arg;
	struct metrics m;

	(void)req;
	metrics_init(&m);
	metric_gauge(&m, "edgeway_agent_info", "Constant 1, labelled with the version.",
		"version=\"" EDGEWAY_VERSION "\"", 1);
	agent_ready_metrics(a, &m);
	if (a->meta != NULL)
		meta_metrics(a->meta, &m);
	if (a->dns != NULL)
		dns_metrics(a->dns, &m);
	if (a->lb != NULL)
		lb_metrics(a->lb, &m);
	tracing_metrics(a->tracing, &a->spans, &m);
	if (a->ipt != NULL)
		iptables_metrics(a->ipt, &m);
	agent_health_ports_metrics(a, &m);
	agent_tunnel_metrics(a, &m);
	if (a->carriers != NULL)
		ws_tunnels_metrics(a->carriers, &m);
	self_metrics(&m, a->loop, a->workers);
	admin_metrics(a->admin, a->metrics, &m);
	confine_metrics(a->confine, &m);
	agent_rings_metrics(a, &m);
	findings_metrics(&a->findings, &m);
	reply->type = "text/plain; version=0.0.4; charset=utf-8";
	buf_add(&reply->body, buf_at(&m.out), buf_len(&m.out));
	metrics_fini(&m);
}

void
agent_state_write(struct agent *a, struct buf *out, bool whole)
{
	struct in_addr in = {.s_addr = htonl(a->address)};
	char address[INET_ADDRSTRLEN];
	auto_buf struct buf why;

	buf_init(&why, BUF_UNLIMITED);
	buf_adds(out,
		"{\"program\":\"edgeway-agent\",\"version\":\"" EDGEWAY_VERSION "\",\"node\":");
	json_add_text(out, a->options->node);
	buf_printf(out, ",\"ready\":%s,\"address\":\"%s\",\"error\":",
		agent_ready(a, &why) ? "true" : "false",
		inet_ntop(AF_INET, &in, address, sizeof address));
	json_add_text(out, a->mesh_error);
	buf_adds(out, ",\"error6\":");
	json_add_text(out, agent_mesh_error6(a));
	buf_adds(out, ",\"degraded\":");
	buf_consume(&why, buf_len(&why));
	agent_degraded(a, &why);
	json_add_text(out, buf_str(&why));
	buf_printf(out, ",\"uptime_s\":%llu,\"services\":%zu,\"refused\":%zu,\"meta\":",
		(unsigned long long)((loop_now_ms(a->loop) - a->started_ms) / 1000),
		snapshot_count(a->snapshot), snapshot_refused(a->snapshot));
	if (a->meta != NULL)
		meta_state(a->meta, out);
	else
		buf_adds(out, "null");
	buf_adds(out, ",\"seccomp\":");
	confine_state(a->confine, out);
	buf_adds(out, ",\"io\":");
	agent_rings_state(a, out);
	buf_adds(out, ",\"admin\":");
	self_admin_state(a->admin, a->metrics, out);
	buf_adds(out, ",\"dns\":");
	if (a->dns != NULL)
		dns_state(a->dns, out);
	else
		buf_adds(out, "null");
	buf_adds(out, ",\"lb\":");
	if (a->lb != NULL)
		lb_state(a->lb, out, whole || lb_down(a->lb) > 0);
	else
		buf_adds(out, "null");
	buf_adds(out, ",\"tracing\":");
	tracing_state(a->tracing, out);
	buf_adds(out, ",\"iptables\":");
	if (a->ipt != NULL)
		iptables_state(a->ipt, out, whole || pod_canary_failing(a->pods));
	else
		buf_adds(out, "null");
	buf_adds(out, ",\"health_ports\":");
	agent_health_ports_state(a, out);
	buf_adds(out, ",\"tunnel\":");
	agent_tunnel_state(a, out);
	buf_adds(out, ",\"canary\":");
	pod_canary_state(a->pods, out);
	buf_adds(out, ",\"carriers\":");
	agent_carriers_state(a, out);
}

static void
on_state(void *arg, const struct admin_request *req, struct admin_reply *reply)
{
	(void)req;
	reply->type = "application/json";
	agent_state_write(arg, &reply->body, true);
	agent_findings_write(arg, &reply->body);
	buf_adds(&reply->body, "}\n");
}

static void
endpoints_text(struct buf *out, const struct endpoint *endpoints, unsigned n)
{
	static const char *const vias[] = {"pod", "host", "given", "tunnel"};
	static const char *const tiers[] = {"node", "zone", "rest", "tunnel"};

	for (unsigned i = 0; i < n; i++) {
		const struct endpoint *e = &endpoints[i];
		char text[ADDR_TEXT_MAX];

		buf_printf(out, "%s{\"address\":\"%s\",", i > 0 ? "," : "", endpoint_text(e, text));
		if (endpoint_has_other(e))
			buf_printf(out, "\"other\":\"%s\",", endpoint_other_text(e, text));
		if (*e->peer != '\0')
			buf_printf(out, "\"peer\":\"%s\",", e->peer);
		if ((e->flags & ENDPOINT_TERMINATING) != 0)
			buf_adds(out, "\"terminating\":true,");
		buf_printf(out, "\"via\":\"%s\",\"tier\":\"%s\",\"node\":", vias[e->via],
			tiers[e->tier]);
		json_add_text(out, e->node);
		buf_adds(out, "}");
	}
}

static void
port_text(struct buf *out, const struct service_port *p)
{
	static const char *const modes[] = {"http", "tcp", "udp"};

	buf_printf(out,
		"{\"name\":\"%s\",\"port\":%u,\"mode\":\"%s\",\"extra\":%s,\"unreachable\":%u,"
		"\"why\":",
		p->name, p->port, modes[p->mode], p->extra ? "true" : "false", p->n_unreachable);
	json_add_text(out, p->why);
	if (p->tls != NULL) {
		buf_adds(out, ",\"tls\":{\"policy\":");
		json_add_text(out, p->tls->policy);
		buf_adds(out, ",\"name\":");
		json_add_text(out, p->tls->host);
		buf_adds(out, ",\"wrong\":");
		json_add_text(out, p->tls->wrong);
		buf_adds(out, "}");
	}
	buf_adds(out, ",\"endpoints\":[");
	endpoints_text(out, p->endpoints, p->n_endpoints);
	buf_adds(out, "],\"leaving\":[");
	endpoints_text(out, p->endpoints + p->n_endpoints, p->n_leaving);
	buf_adds(out, "],\"refused\":[");
	for (unsigned i = 0; i < p->n_refused; i++) {
		const struct endpoint *e = &service_port_refused(p)[i];
		char text[ADDR_TEXT_MAX];

		buf_printf(out,
			"%s{\"address\":\"%s\",\"reason\":\"%s\",\"node\":", i > 0 ? "," : "",
			endpoint_text(e, text), special_addr_text((enum special_addr)e->tier));
		json_add_text(out, e->node);
		buf_adds(out, "}");
	}
	buf_adds(out, "]}");
}

static const char *
caller_verdict(const struct service *s, const struct allow_caller *who)
{
	unsigned open = 0;
	uint64_t closed;

	if (!service_permits(s, who, &closed))
		return "denied";
	for (unsigned k = 0; k < s->n_ports; k++)
		for (unsigned i = 0; i < s->ports[k].n_endpoints; i++)
			open += !endpoint_is_closed(&s->ports[k].endpoints[i], closed);
	return closed == 0 ? "allowed" : open > 0 ? "partly" : "denied";
}

/* Who may call a restricted service: processes of this node, and its pods. */
static void
callers_text(struct buf *out, const struct service *s, const struct snapshot *snapshot)
{
	const struct local_callers *callers = snapshot_callers(snapshot);
	struct allow_caller who = {.on_node = true, .node = local_callers_node(callers)};

	buf_adds(out, ",\"allowFrom\":");
	json_add_text(out, s->allow_text);
	buf_printf(out, ",\"policies\":%u,\"callers\":{\"node\":\"%s\",\"pods\":[", s->n_gates,
		caller_verdict(s, &who));
	for (size_t i = 0; i < local_callers_count(callers); i++) {
		const struct local_pod pod = local_callers_at(callers, i);
		struct in6_addr ip = {0};

		ip_parse(pod.ip, &ip);
		local_callers_find(callers, &ip, &who);
		buf_printf(out, "%s{\"pod\":\"%s/%s\",\"address\":\"%s\",\"call\":\"%s\"}",
			i > 0 ? "," : "", pod.ns, pod.name, pod.ip, caller_verdict(s, &who));
	}
	buf_adds(out, "]}");
}

static void
on_services(void *arg, const struct admin_request *req, struct admin_reply *reply)
{
	struct agent *a = arg;
	struct buf *out = &reply->body;
	const struct opt_cidr *subnet = &a->options->mesh_subnet;
	struct in_addr range = {.s_addr = htonl(subnet->address)};
	char ip[INET_ADDRSTRLEN], cluster_ip[INET_ADDRSTRLEN], ip6[IP_TEXT_MAX];

	(void)req;
	reply->type = "application/json";
	buf_printf(out, "{\"subnet\":\"%s/%u\",\"subnet6\":\"%s\",\"services\":[",
		inet_ntop(AF_INET, &range, ip, sizeof ip), subnet->bits, a->options->mesh_subnet6);
	for (size_t i = 0; i < snapshot_count(a->snapshot); i++) {
		const struct service *s = snapshot_at(a->snapshot, i);
		struct in_addr in = {.s_addr = htonl(s->fake_ip)},
			       cluster = {.s_addr = htonl(s->cluster_ip)};

		buf_printf(out,
			"%s\n{\"namespace\":\"%s\",\"name\":\"%s\",\"fakeIP\":\"%s\",\"clusterIP\":"
			"\"%s\",\"headless\":%s,",
			i > 0 ? "," : "", s->namespace, s->name,
			s->fake_ip != 0 ? inet_ntop(AF_INET, &in, ip, sizeof ip) : "",
			s->cluster_ip != 0
				? inet_ntop(AF_INET, &cluster, cluster_ip, sizeof cluster_ip)
				: "",
			s->headless ? "true" : "false");
		if (a->options->subnet6.bits > 0 && s->fake_ip != 0) {
			const struct in6_addr fake6 = fake6_of(&a->options->subnet6, s->fake_ip);

			buf_printf(out, "\"fakeIP6\":\"%s\",", ip_text(&fake6, ip6));
		}
		if (!IN6_IS_ADDR_UNSPECIFIED(&s->cluster_ip6))
			buf_printf(out, "\"clusterIP6\":\"%s\",", ip_text(&s->cluster_ip6, ip6));
		buf_adds(out, "\"ports\":[");
		for (unsigned p = 0; p < s->n_ports; p++) {
			if (p > 0)
				buf_adds(out, ",");
			port_text(out, &s->ports[p]);
		}
		buf_adds(out, "]");
		if (s->restricted)
			callers_text(out, s, a->snapshot);
		buf_adds(out, "}");
	}
	buf_adds(out, "]}\n");
}

/* Lasts until SIGHUP or the end; then lb.accessLog applies again. */
static void
on_access_log(void *arg, const struct admin_request *req, struct admin_reply *reply)
{
	static const char *const words[] = {
		[ACCESS_OFF] = "off", [ACCESS_ERRORS] = "errors", [ACCESS_ALL] = "all"};
	const struct agent *a = arg;
	struct err err = {0};
	char mode[16] = "";

	admin_query(req->query, "mode", mode, sizeof mode);
	for (size_t i = 0; i < ARRAY_LEN(words) && a->lb != NULL; i++) {
		if (strcmp(mode, words[i]) == 0) {
			if (lb_access_log(a->lb, (enum lb_access_mode)i,
				    (uint32_t)a->options->lb_access_log_sample, &err) < 0) {
				reply->status = 503;
				buf_printf(&reply->body, "%s\n", err.text);
				return;
			}
			log_info("log", "access log changed mode=%s", mode);
			buf_printf(&reply->body, "access log: %s\n", mode);
			return;
		}
	}
	reply->status = 400;
	buf_adds(&reply->body, "mode: off, errors or all expected\n");
}

static void
on_streams(void *arg, const struct admin_request *req, struct admin_reply *reply)
{
	(void)req;
	reply->type = "application/json";
	agent_tunnel_streams(arg, &reply->body);
}

static void
on_peers(void *arg, const struct admin_request *req, struct admin_reply *reply)
{
	(void)req;
	reply->type = "application/json";
	agent_peers_state(arg, &reply->body);
	buf_adds(&reply->body, "\n");
}

int
agent_admin_start(struct agent *a, struct err *err)
{
	static const struct admin_route routes[] = {
		{"GET", "/healthz", on_healthz, false},
		{"GET", "/readyz", on_readyz, false},
		{"GET", "/metrics", on_metrics, false},
		{"GET", "/debug/state", on_state, false},
		{"GET", "/debug/services", on_services, false},
		{"GET", "/debug/events", self_events, true},
		{"GET", "/debug/streams", on_streams, false},
		{"GET", "/peers", on_peers, false},
		{"GET", "/debug/tap", agent_debug_tap, true},
		{"GET", "/access/check", agent_access_check, false},
		{"GET", "/debug/flow", agent_debug_flow, true},
		{"GET", "/log", log_admin_show, false},
		{"POST", "/log/level", log_admin_level, true},
		{"POST", "/log/access", on_access_log, true},
		{"POST", "/upgrade", NULL, true},
		{NULL, NULL, NULL, false},
	};
	static const struct admin_taken taken[] = {
		{"/takeover", agent_takeover},
		{"/upgrade", agent_upgrade},
		{NULL, NULL},
	};
	const struct admin_config config = {
		.key = "admin.listen",
		.listen = a->options->admin_listen,
		.names = {(const char *const *)a->options->admin_names, NULL},
		.name = a->options->node,
		.socket_path = a->options->admin_socket,
		.routes = routes,
		.arg = a,
		.taken = taken,
	};

	return admin_start(&a->admin, a->loop, &config, err);
}

int
agent_metrics_start(struct agent *a, struct err *err)
{
	static const struct admin_route routes[] = {
		{"GET", "/healthz", on_healthz, false},
		{"GET", "/readyz", on_readyz, false},
		{"GET", "/metrics", on_metrics, false},
		{NULL, NULL, NULL, false},
	};
	const struct admin_config config = {.key = "metrics.listen",
		.listen = a->options->metrics_listen,
		.names = {(const char *const *)a->options->admin_names, NULL},
		.name = a->options->node,
		.socket_path = "",
		.routes = routes,
		.arg = a};
	int rc;

	if (config.listen[0] == '\0')
		return 0;
	rc = admin_start(&a->metrics, a->loop, &config, err);
	return rc < 0 ? err_wrap(err, rc, "metrics.listen") : 0;
}

void
agent_admin_open(void *arg)
{
	struct agent *a = arg;
	struct err err = {0};

	if (a->stopping ||
		((a->admin != NULL || agent_admin_start(a, &err) == 0) &&
			agent_metrics_start(a, &err) == 0))
		return;
	if (a->admin_tries++ < ADMIN_TRIES) {
		if (a->admin_retry == NULL)
			a->admin_retry = timer_new(a->loop, agent_admin_open, a);
		timer_start(a->admin_retry, ADMIN_RETRY_MS, 0);
		return;
	}
	log_error("agent", "no health, metrics or edgewayctl: %s", err.text);
}
