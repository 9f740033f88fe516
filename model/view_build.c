#include "model/http_route.h"
#include "model/json.h"
#include "model/view.h"

static const char *
view_build_plain(const char *text)
{
	return text != NULL ? text : "";
}

static int
compare_endpoints(const void *a, const void *b)
{
	const struct view_endpoint *x = *(const struct view_endpoint *const *)a;
	const struct view_endpoint *y = *(const struct view_endpoint *const *)b;
	int order = strcmp(view_build_plain(x->node), view_build_plain(y->node));

	if (order == 0)
		order = strcmp(view_build_plain(x->pod), view_build_plain(y->pod));
	if (order == 0)
		order = strcmp(view_build_plain(x->pod_ip), view_build_plain(y->pod_ip));
	if (order == 0)
		order = strcmp(view_build_plain(x->given_ip), view_build_plain(y->given_ip));
	if (order == 0)
		order = strcmp(view_build_plain(x->host_ip), view_build_plain(y->host_ip));
	if (order == 0)
		order = (int)x->pod_port - (int)y->pod_port;
	if (order == 0)
		order = (int)x->given_port - (int)y->given_port;
	if (order == 0)
		order = (int)x->host_port - (int)y->host_port;
	if (order == 0)
		order = (int)x->flags - (int)y->flags;
	return order;
}

static int
compare_ports(const void *a, const void *b)
{
	const struct view_port *x = *(const struct view_port *const *)a;
	const struct view_port *y = *(const struct view_port *const *)b;

	return x->port != y->port ? (int)x->port - (int)y->port : (int)x->mode - (int)y->mode;
}

static void
text_member(struct buf *out, const char *name, const char *text)
{
	if (*view_build_plain(text) == '\0')
		return;
	buf_printf(out, ",\"%s\":", name);
	json_add_text(out, text);
}

static void
number_member(struct buf *out, const char *name, uint32_t value)
{
	if (value != 0)
		buf_printf(out, ",\"%s\":%u", name, value);
}

static void
names_member(struct buf *out, const char *name, const struct view_names *names)
{
	for (size_t i = 0; i < names->n; i++) {
		if (i == 0)
			buf_printf(out, ",\"%s\":[", name);
		else
			buf_adds(out, ",");
		json_add_text(out, names->list[i]);
	}
	if (names->n > 0)
		buf_adds(out, "]");
}

/* Members are written with a leading comma; the bracket replaces the first one's. */
static void
open_bracket(struct buf *out, size_t at, char bracket)
{
	out->data[out->start + at] = bracket;
}

static void
build_endpoint(struct buf *out, const struct view_endpoint *e)
{
	size_t at = buf_len(out);

	text_member(out, "node", e->node);
	text_member(out, "site", e->site);
	text_member(out, "zone", e->zone);
	if (e->node_public)
		buf_adds(out, ",\"public\":true");
	text_member(out, "pod", e->pod);
	text_member(out, "hostname", e->hostname);
	buf_printf(out, ",\"flags\":%u", e->flags);
	text_member(out, "podIP", e->pod_ip);
	text_member(out, "otherPodIP", e->other_pod_ip);
	number_member(out, "podPort", e->pod_port);
	text_member(out, "hostIP", e->host_ip);
	text_member(out, "otherHostIP", e->other_host_ip);
	number_member(out, "hostPort", e->host_port);
	if (e->network != NETWORK_UNSAID)
		buf_printf(
			out, ",\"hostNetwork\":%s", e->network == NETWORK_HOST ? "true" : "false");
	text_member(out, "publicIP", e->public_ip);
	text_member(out, "otherPublicIP", e->other_public_ip);
	text_member(out, "givenIP", e->given_ip);
	text_member(out, "otherGivenIP", e->other_given_ip);
	number_member(out, "givenPort", e->given_port);
	names_member(out, "hintZones", &e->hint_zones);
	names_member(out, "hintNodes", &e->hint_nodes);
	number_member(out, "gate", e->gate);
	open_bracket(out, at, '{');
	buf_adds(out, "}");
}

static void
build_port(struct buf *out, const struct view_port *p)
{
	const struct view_endpoint **sorted = xcalloc(p->n_endpoints + 1, sizeof *sorted);
	size_t at = buf_len(out);

	for (size_t i = 0; i < p->n_endpoints; i++)
		sorted[i] = &p->endpoints[i];
	qsort(sorted, p->n_endpoints, sizeof *sorted, compare_endpoints);
	text_member(out, "name", p->name);
	buf_printf(out, ",\"port\":%u,\"mode\":\"%s\"", p->port, port_mode_name(p->mode));
	if (p->extra)
		buf_adds(out, ",\"extra\":true");
	if (p->tls > 0)
		buf_printf(out, ",\"tls\":%u", p->tls);
	number_member(out, "nodePort", p->node_port);
	if (p->why != NULL && p->why[0] != '\0') {
		buf_adds(out, ",\"why\":");
		json_add_text(out, p->why);
	} else if (p->tls > 0) {
		/* for those who do not know `tlsEndpoints` */
		buf_adds(out, ",\"why\":\"" VIEW_WHY_TLS "\"");
	}
	buf_adds(out, p->tls > 0 ? ",\"endpoints\":[],\"tlsEndpoints\":[" : ",\"endpoints\":[");
	open_bracket(out, at, '{');
	for (size_t i = 0; i < p->n_endpoints; i++) {
		if (i > 0)
			buf_adds(out, ",");
		build_endpoint(out, sorted[i]);
	}
	buf_adds(out, "]}");
	free(sorted);
}

static void
build_policy(struct buf *out, const struct view *v)
{
	static const char *const hashes[] = {[HASH_ON_SOURCE_IP] = "",
		[HASH_ON_HEADER] = "header:",
		[HASH_ON_COOKIE] = "cookie:"};
	const struct service_lb *lb = &v->lb;
	char retry_on[RETRY_ON_TEXT_MAX];

	text_member(out, "policy", lb_policy_name(lb->policy));
	number_member(out, "affinity", lb->affinity_s);
	if (lb->hash_on != HASH_ON_SOURCE_IP)
		buf_printf(out, ",\"hashOn\":\"%s%s\"", hashes[lb->hash_on], v->hash_key);
	if (lb->retries != RETRIES_DEFAULT)
		buf_printf(out, ",\"retries\":%u", lb->retries);
	number_member(out, "connectMs", lb->connect_ms);
	if (lb->request_ms != REQUEST_MS_DEFAULT)
		buf_printf(out, ",\"requestMs\":%u", lb->request_ms);
	number_member(out, "idleMs", lb->idle_ms);
	number_member(out, "maxConnections", lb->max_connections);
	text_member(out, "healthPath", v->health_path);
	number_member(out, "healthMs", lb->health_interval_ms);
	number_member(out, "slowStartMs", lb->slow_start_ms);
	number_member(out, "hashBalance", lb->hash_balance);
	number_member(out, "outlier5xx", lb->outlier_5xx);
	number_member(out, "outlierMs", lb->outlier_ms);
	text_member(out, "retryOn", retry_on_text(lb->retry_on, retry_on));
	text_member(out, "datapath", datapath_name(lb->datapath));
	text_member(out, "encrypt", encrypt_name(lb->encrypt));
	if (v->local_only)
		buf_adds(out, ",\"localOnly\":true");
	text_member(out, "distribution", view_distribution_name(v->distribution));
	text_member(out, "allowFrom", v->allow_from);
	for (size_t i = 0; i < v->n_gates; i++) {
		buf_adds(out, i == 0 ? ",\"gates\":[" : ",");
		json_add_text(out, v->gates[i]);
	}
	if (v->n_gates > 0)
		buf_adds(out, "]");
}

uint64_t
view_build(struct buf *out, const struct view *v)
{
	const struct view_port **sorted = xcalloc(v->n_ports + 1, sizeof *sorted);
	size_t at = buf_len(out);

	text_member(out, "ns", v->ns);
	text_member(out, "name", v->name);
	text_member(out, "clusterIP", v->cluster_ip);
	text_member(out, "clusterIP6", v->cluster_ip6);
	text_member(out, "externalName", v->external_name);
	if (v->headless)
		buf_adds(out, ",\"headless\":true");
	names_member(out, "externalIPs", &v->external_ips);
	if (v->external_local)
		buf_adds(out, ",\"externalLocal\":true");
	number_member(out, "healthPort", v->health_port);
	if (v->gateway)
		buf_adds(out, ",\"gateway\":true");
	if (v->cloud)
		buf_adds(out, ",\"cloud\":true");
	build_policy(out, v);
	if (v->routes != NULL) {
		buf_adds(out, ",\"routes\":");
		http_routes_build(out, v->routes);
	}
	for (size_t i = 0; i < v->n_tls; i++) {
		buf_adds(out, i == 0 ? ",\"tls\":[" : ",");
		backend_tls_build(out, v->tls[i]);
	}
	buf_adds(out, v->n_tls > 0 ? "],\"ports\":[" : ",\"ports\":[");
	open_bracket(out, at, '{');
	for (size_t i = 0; i < v->n_ports; i++)
		sorted[i] = &v->ports[i];
	qsort(sorted, v->n_ports, sizeof *sorted, compare_ports);
	for (size_t i = 0; i < v->n_ports; i++) {
		if (i > 0)
			buf_adds(out, ",");
		build_port(out, sorted[i]);
	}
	buf_adds(out, "]}");
	free(sorted);
	return view_digest(buf_at(out) + at, buf_len(out) - at);
}
