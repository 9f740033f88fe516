#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/sock.h"
#include "base/core/special_addr.h"
#include "model/check.h"
#include "model/json.h"
#include "model/service.h"
#include "src/common/ctl_answer.h"
#include "src/ctl/ctl_ask.h"
#include "src/ctl/ctl_attempt.h"
#include "src/ctl/ctl_resolve.h"

enum {
	ARM_MS = 3000, /* time for the agent's workers to start watching */
	LOOK_MS = 3000, /* time for their results */
	LOOK_PAUSE_US = 20 * 1000,
};

/* --- the URL -------------------------------------------------------------------------------- */

struct trace_url {
	enum attempt_kind kind;
	char host[256];
	uint16_t port;
	char path[1024];
};

static const struct trace_scheme {
	const char *text;
	enum attempt_kind kind;
	uint16_t port; /* default; 0: must be given */
} trace_schemes[] = {
	{"http://", ATTEMPT_HTTP, 80},
	{"tcp://", ATTEMPT_TCP, 0},
	{"udp://", ATTEMPT_UDP, 0},
	{"grpc://", ATTEMPT_GRPC, 0},
};

static int
trace_read_scheme(const char **at, struct trace_url *to, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(trace_schemes); i++) {
		size_t n = strlen(trace_schemes[i].text);

		if (strncmp(*at, trace_schemes[i].text, n) != 0)
			continue;
		to->kind = trace_schemes[i].kind;
		to->port = trace_schemes[i].port;
		*at += n;
		return 0;
	}
	if (strstr(*at, "://") != NULL)
		return err_set(err, EINVAL,
			"expected http://, tcp://, udp:// or grpc:// (without TLS), not \"%.100s\"",
			*at);
	to->kind = ATTEMPT_HTTP;
	to->port = 80;
	return 0;
}

/* SCHEME://HOST[:PORT][/PATH]; the default scheme is HTTP. */
static int
trace_read_url(const char *text, struct trace_url *to, struct err *err)
{
	const char *at = text;
	unsigned port;
	size_t host;
	bool six; /* an IPv6 address in brackets */
	int used = 0, rc = trace_read_scheme(&at, to, err);

	if (rc < 0)
		return rc;
	six = *at == '[';
	at += six;
	host = strcspn(at, six ? "]" : ":/");
	if (host == 0 || (six && at[host] == '\0') || host >= sizeof to->host)
		return err_set(err, EINVAL,
			"expected [http://]NAME[:PORT][/PATH], tcp://NAME:PORT, udp://NAME:PORT or "
			"grpc://NAME:PORT, not \"%.100s\"",
			text);
	memcpy(to->host, at, host);
	to->host[host] = '\0';
	at += host + six;
	port = to->port;
	if (*at == ':' &&
		(sscanf(at, ":%5u%n", &port, &used) != 1 || port < 1 || port > 65535 ||
			(at[used] != '\0' && at[used] != '/')))
		return err_set(err, EINVAL, "no port: \"%.20s\"", at);
	at += used;
	if (port == 0)
		return err_set(err, EINVAL, "a port is missing: \"%.100s\"", text);
	if (*at != '\0' && to->kind != ATTEMPT_HTTP)
		return err_set(err, EINVAL, "only http:// has a path: \"%.100s\"", at);
	for (const char *c = at; *c != '\0'; c++)
		if (!isgraph((unsigned char)*c))
			return err_set(
				err, EINVAL, "a path has no blanks and no control characters");
	to->port = (uint16_t)port;
	snprintf(to->path, sizeof to->path, "%s", *at != '\0' ? at : "/");
	return 0;
}

/* --- the path to the service ---------------------------------------------------------------- */

struct trace {
	const char *socket;
	struct trace_url url;
	struct lookup name;
	const struct tree_node *state,
		*services; /* from the agent, before and finally after the attempt */
	const struct tree_node *service, *port; /* NULL: none */
	struct attempt attempt;
	char id[24]; /* of the tap at the agent */
	struct buf answered; /* members of the JSON object `answered` */
};

/* A port number may exist for both TCP and UDP. */
static const struct tree_node *
trace_port_of(const struct tree_node *service, const struct trace_url *url)
{
	tree_each(tree_get(service, "ports"), p) {
		bool udp = strcmp(ctl_text(p, "mode"), "udp") == 0;

		if ((int)ctl_number(p, "port") == url->port && udp == (url->kind == ATTEMPT_UDP))
			return p;
	}
	return NULL;
}

/* An endpoint with two addresses is shown with the one that is dialled. */
static bool
trace_is_at(const struct tree_node *endpoint, const char *address)
{
	return strcmp(ctl_text(endpoint, "address"), address) == 0 ||
		strcmp(ctl_text(endpoint, "other"), address) == 0;
}

/* "; TLS: BackendTLSPolicy default/web, name web.example, verify failed: ...": the last one. */
static void
trace_add_tls(struct buf *out, const struct tree_node *tls)
{
	if (tls == NULL)
		return;
	buf_printf(out, "; TLS: BackendTLSPolicy %s, name %s", ctl_text(tls, "policy"),
		ctl_text(tls, "name"));
	if (ctl_text(tls, "problem")[0] != '\0')
		buf_printf(out, ", verify failed: %s", ctl_text(tls, "problem"));
}

/* The endpoint's state in each worker; workers that have not used it yet have none. */
static void
trace_write_health(struct buf *out, const struct tree_node *state, const char *service,
	const struct tree_node *endpoint)
{
	const char *comma = "";

	tree_each(tree_path(state, "lb.endpoints"), g) {
		if (strcmp(ctl_text(g, "service"), service) != 0)
			continue;
		tree_each(tree_get(g, "endpoints"), e) {
			if (!trace_is_at(endpoint, ctl_text(e, "address")))
				continue;
			buf_printf(out, "%sworker %s: %s", comma, ctl_text(g, "worker"),
				ctl_text(e, "state"));
			if (ctl_text(e, "fault")[0] != '\0')
				buf_printf(out, " (%s)", ctl_text(e, "fault"));
			trace_add_tls(out, tree_get(e, "tls"));
			comma = ", ";
		}
	}
	if (comma[0] == '\0')
		buf_adds(out, "not used yet");
}

static void
trace_write_endpoints(struct buf *out, const struct tree_node *state, const struct tree_node *port,
	const char *service)
{
	const char *comma = "";

	buf_adds(out, ",\"endpoints\":[");
	tree_each(tree_get(port, "endpoints"), e) {
		auto_buf struct buf health;

		buf_init(&health, BUF_UNLIMITED);
		trace_write_health(&health, state, service, e);
		buf_printf(out,
			"%s{\"address\":\"%s\",\"tier\":\"%s\",\"via\":\"%s\",\"node\":", comma,
			ctl_text(e, "address"), ctl_text(e, "tier"), ctl_text(e, "via"));
		json_add_text(out, ctl_text(e, "node"));
		buf_adds(out, ",\"health\":");
		json_add_text(out, buf_str(&health));
		buf_adds(out, "}");
		comma = ",";
	}
	tree_each(tree_get(port, "refused"), e) {
		auto_free char *why = xasprintf("REFUSED: it is %s%s", ctl_text(e, "reason"),
			strstr(ctl_text(e, "reason"), "encrypt") != NULL ? "" : " (lb.allow)");

		buf_printf(out, "%s{\"address\":\"%s\",\"tier\":\"\",\"via\":\"\",\"node\":", comma,
			ctl_text(e, "address"));
		json_add_text(out, ctl_text(e, "node"));
		buf_adds(out, ",\"health\":");
		json_add_text(out, why);
		buf_adds(out, "}");
		comma = ",";
	}
	buf_adds(out, "]");
}

/* Who may call it, in words; "" if everybody may. The request below comes from a process of the
 * node itself. */
static void
trace_write_callers(struct buf *out, const struct tree_node *service)
{
	const struct tree_node *callers = tree_get(service, "callers");
	auto_buf struct buf text;

	buf_init(&text, BUF_UNLIMITED);
	if (callers != NULL) {
		const char *rule = ctl_text(service, "allowFrom");

		if (rule[0] != '\0')
			buf_printf(&text, "edgeway.io/allow-from \"%s\"; ", rule);
		if (ctl_number(service, "policies") > 0)
			buf_adds(&text, "NetworkPolicies; ");
		buf_printf(&text, "processes of this node: %s", ctl_text(callers, "node"));
		tree_each(tree_get(callers, "pods"), p)
			buf_printf(&text, ", pod %s: %s", ctl_text(p, "pod"), ctl_text(p, "call"));
	}
	buf_adds(out, ",\"callers\":");
	json_add_text(out, buf_str(&text));
}

/* Returns whether the address is in mesh.subnet or mesh.subnet6. */
static bool
trace_in_range(const struct tree_node *services, const char *address)
{
	static const char *const keys[] = {"subnet", "subnet6"};
	struct in6_addr range, ip;
	bool in = false;
	unsigned bits;

	for (size_t i = 0; i < ARRAY_LEN(keys) && !in; i++)
		in = ip_net_parse(ctl_text(services, keys[i]), &range, &bits) &&
			ip_parse(address, &ip) && special_addr_in_net(&ip, &range, bits);
	return in;
}

static const char *
trace_protocol(const struct trace *t)
{
	return t->url.kind == ATTEMPT_UDP ? "UDP" : "TCP";
}

/* tunnel.apiserver: pods reach the API server through the hub, whoever serves other ClusterIPs. */
static bool
trace_is_tunnelled_apiserver(const struct trace *t)
{
	if (!service_is_apiserver(ctl_text(t->service, "namespace"), ctl_text(t->service, "name")))
		return false;
	tree_each(tree_get(t->port, "endpoints"), e) {
		if (strcmp(ctl_text(e, "via"), "tunnel") == 0)
			return true;
	}
	return false;
}

/* Which rule handles it, in words. */
static void
trace_add_rule(struct buf *out, const struct trace *t)
{
	const char *served = ctl_text(t->state, "iptables.kernel.clusterIPsServedBy");
	const char *address = t->name.address, *mode = ctl_text(t->port, "mode");
	const char *family = strchr(address, ':') != NULL ? "ip6" : "ip";
	bool by_cluster_ip = t->service != NULL &&
		(strcmp(ctl_text(t->service, "clusterIP"), address) == 0 ||
			strcmp(ctl_text(t->service, "clusterIP6"), address) == 0);

	if (address[0] == '\0')
		buf_adds(out, "none: there is no address to go to");
	else if (t->service == NULL && trace_in_range(t->services, address))
		buf_adds(out, "an address of mesh.subnet that no service has now: refused");
	else if (t->service == NULL)
		buf_adds(out, "none of ours: it goes straight there");
	else if (by_cluster_ip && strcmp(served, "edgeway") != 0 &&
		!trace_is_tunnelled_apiserver(t))
		buf_printf(out, "a ClusterIP, which is left to %s (mesh.catchClusterIPs)",
			served[0] != '\0' ? served : "whoever serves it");
	else if (t->port == NULL)
		buf_printf(out, "the service has no %s port %u: refused", trace_protocol(t),
			t->url.port);
	else if (strcmp(mode, "udp") == 0)
		buf_printf(out, "table %s edgeway: the kernel draws one endpoint for the flow",
			family);
	else
		buf_printf(out, "table %s edgeway: to the proxy at %s, %s", family,
			ctl_text(t->state, "lb.listen"),
			strcmp(mode, "http") == 0
				? "an endpoint for each request"
				: "one endpoint for the connection, unless the kernel carries it");
}

static void
trace_write_way(struct buf *out, const struct trace *t)
{
	auto_free char *name =
		xasprintf("%s/%s", ctl_text(t->service, "namespace"), ctl_text(t->service, "name"));
	auto_buf struct buf rule;

	buf_init(&rule, BUF_UNLIMITED);
	trace_add_rule(&rule, t);
	buf_adds(out, ",\"service\":");
	json_add_text(out, t->service != NULL ? name : "");
	buf_adds(out, ",\"rule\":");
	json_add_text(out, buf_str(&rule));
	trace_write_callers(out, t->service);
	trace_write_endpoints(out, t->state, t->port, name);
}

/* --- who answered --------------------------------------------------------------------------- */

/* What the proxy recorded of our connection; false: it cannot be asked. */
static bool
trace_ask_tap(const struct trace *t, bool last, struct tree **to)
{
	auto_free char *target =
		xasprintf("/debug/tap?id=%s&port=%u&last=%d", t->id, t->attempt.from_port, last);
	struct err err = {0};

	tree_free(to);
	return ctl_ask_json(t->socket, target, to, &err) == 0;
}

/* Waits until every worker watches for our port. */
static void
trace_arm(const struct trace *t)
{
	struct tree *said auto_tree = NULL;
	double until = ctl_now_ms() + ARM_MS;

	while (ctl_now_ms() < until && trace_ask_tap(t, false, &said) &&
		!ctl_true(tree_document(said, 0), "armed"))
		usleep(LOOK_PAUSE_US);
}

/* How many endpoints of the chosen tier were usable. */
static unsigned
trace_usable(const struct trace *t, const char *tier)
{
	auto_free char *name =
		xasprintf("%s/%s", ctl_text(t->service, "namespace"), ctl_text(t->service, "name"));
	unsigned n = 0;

	tree_each(tree_get(t->port, "endpoints"), e) {
		auto_buf struct buf health;

		buf_init(&health, BUF_UNLIMITED);
		trace_write_health(&health, t->state, name, e);
		n += strcmp(ctl_text(e, "tier"), tier) == 0 &&
			strstr(buf_str(&health), ": ejected") == NULL &&
			strstr(buf_str(&health), ": ill") == NULL;
	}
	return n;
}

/* Explains the two letters of the access log (lb/proxy/access_log.h). */
static const char *
trace_end_text(const char *end)
{
	static const struct {
		const char *end, *text;
	} all[] = {
		{"SC", "no endpoint could be connected to"},
		{"sC", "no endpoint took the connection in time"},
		{"SH", "the endpoint ended the connection before its answer"},
		{"sH", "the endpoint did not answer in time"},
		{"SD", "the endpoint ended the connection within its answer"},
		{"PR", "the proxy refused it: a loop, or a rule keeps this caller out"},
		{"PH", "the proxy refused the endpoint's answer"},
	};

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (strcmp(all[i].end, end) == 0)
			return all[i].text;
	return "";
}

/* The conditions of the match that fitted: "path prefix /v2, header version=2". */
static void
trace_add_match(struct buf *why, const struct tree_node *m)
{
	static const struct {
		const char *member, *text;
	} kinds[] = {{"exact", "path "}, {"prefix", "path prefix "}, {"regex", "path like "},
		{"method", "method "}};
	static const char *const lists[2][2] = {{"headers", "header"}, {"params", "parameter"}};
	const char *comma = "";

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		const char *text = ctl_text(m, kinds[i].member);

		if (*text == '\0')
			continue;
		buf_printf(why, "%s%s%s", comma, kinds[i].text, text);
		comma = ", ";
	}
	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		tree_each(tree_get(m, lists[i][0]), c) {
			const char *like = ctl_text(c, "regex");

			buf_printf(why, "%s%s %s%s%s", comma, lists[i][1], ctl_text(c, "name"),
				*like != '\0' ? " like " : "=",
				*like != '\0' ? like : ctl_text(c, "value"));
			comma = ", ";
		}
	if (*comma == '\0')
		buf_adds(why, "every request");
}

/* Which rule of an HTTPRoute or GRPCRoute decided, and why; "" without routes. */
static void
trace_write_route(struct buf *out, const struct tree_node *r)
{
	const struct tree_node *route = tree_get(r, "route");
	const char *name = ctl_text(route, "route"), *backend = ctl_text(route, "backend");
	unsigned status = (unsigned)ctl_number(route, "status");
	auto_buf struct buf why;

	buf_init(&why, BUF_UNLIMITED);
	if (tree_get(route, "rule") != NULL && *name == '\0') {
		buf_adds(&why, "no rule of its routes is for this request: 404");
	} else if (*name != '\0') {
		buf_printf(&why, "rule %u%s%s%s of %s, for ", (unsigned)ctl_number(route, "rule"),
			*ctl_text(route, "name") != '\0' ? " (" : "", ctl_text(route, "name"),
			*ctl_text(route, "name") != '\0' ? ")" : "", name);
		trace_add_match(&why, tree_get(route, "match"));
		if (*backend != '\0')
			buf_printf(&why, ": to service %s port %u, weight %u of %u", backend,
				(unsigned)ctl_number(route, "port"),
				(unsigned)ctl_number(route, "weight"),
				(unsigned)ctl_number(route, "of"));
		else if (ctl_number(route, "redirect") > 0)
			buf_printf(&why, ": redirected with %u",
				(unsigned)ctl_number(route, "redirect"));
		else
			buf_printf(
				&why, ": no backend can be used, %u", status != 0 ? status : 500);
	}
	buf_adds(out, ",\"route\":");
	json_add_text(out, buf_str(&why));
}

static void
trace_add_proxied(struct buf *out, const struct trace *t, const struct tree_node *r)
{
	const char *tier = ctl_text(r, "tier"), *ended = trace_end_text(ctl_text(r, "end"));
	unsigned attempts = (unsigned)ctl_number(r, "attempts");
	bool any = ctl_text(r, "endpoint")[0] != '\0';
	auto_buf struct buf why;

	buf_init(&why, BUF_UNLIMITED);
	if (any)
		buf_printf(&why, "%s among %u of tier %s", ctl_text(r, "policy"),
			trace_usable(t, tier), tier);
	if (attempts > 0)
		buf_printf(&why, "%s%u attempts before it failed", any ? "; " : "", attempts);
	if (ended[0] != '\0')
		buf_printf(&why, "%s%s", buf_len(&why) > 0 ? "; " : "", ended);
	buf_printf(out, "\"by\":\"proxy\",\"endpoint\":\"%s\",\"node\":", ctl_text(r, "endpoint"));
	json_add_text(out, ctl_text(r, "node"));
	buf_printf(out, ",\"tier\":\"%s\",\"attempts\":%u,\"why\":", tier, attempts);
	json_add_text(out, buf_str(&why));
	trace_write_route(out, r);
}

/* The proxy reports a relayed connection as soon as it is made. */
static void
trace_look_at_proxy(struct trace *t)
{
	struct tree *said auto_tree = NULL;
	double until = ctl_now_ms() + LOOK_MS;
	/* On an HTTP port there is no endpoint before a request. */
	bool hopeless = t->url.kind != ATTEMPT_HTTP && t->url.kind != ATTEMPT_GRPC &&
		strcmp(ctl_text(t->port, "mode"), "http") == 0;

	do {
		const struct tree_node *last = NULL;

		if (!trace_ask_tap(t, false, &said))
			return;
		tree_each(tree_path(tree_document(said, 0), "requests"), r)
			last = r;
		if (last != NULL) {
			trace_add_proxied(&t->answered, t, last);
			break;
		}
		usleep(LOOK_PAUSE_US);
	} while (ctl_now_ms() < until && !hopeless);
	trace_ask_tap(t, true, &said);
}

static const struct tree_node *
trace_endpoint_at(const struct trace *t, const char *address)
{
	tree_each(tree_get(t->port, "endpoints"), e) {
		if (trace_is_at(e, address))
			return e;
	}
	return NULL;
}

/* Whether both "HOST:PORT" are of one host. */
static bool
trace_is_host(const char *a, const char *b)
{
	const char *port = strrchr(b, ':');
	size_t n = port != NULL ? (size_t)(port - b) + 1 : 0;

	return n > 0 && strncmp(a, b, n) == 0 && strrchr(a, ':') == a + n - 1;
}

static void
trace_look_at_kernel(struct trace *t)
{
	bool six = strchr(t->name.address, ':') != NULL;
	auto_free char *target = xasprintf("/debug/flow?protocol=%s&to=%s%s%s:%u&from=%u",
		t->url.kind == ATTEMPT_UDP ? "udp" : "tcp", six ? "[" : "", t->name.address,
		six ? "]" : "", t->url.port, t->attempt.from_port);
	const char *own = ctl_text(t->state, six ? "iptables.to6" : "iptables.to"), *server;
	struct tree *said auto_tree = NULL;
	const struct tree_node *flow, *e;
	struct err err = {0};
	bool is_own;

	if (ctl_ask_json(t->socket, target, &said, &err) < 0)
		return;
	flow = tree_document(said, 0);
	server = ctl_text(flow, "server");
	is_own = trace_is_host(server, own);
	if (!ctl_true(flow, "found") || (is_own && t->url.kind != ATTEMPT_UDP))
		return;
	e = trace_endpoint_at(t, server);
	buf_printf(&t->answered, "\"by\":\"kernel\",\"endpoint\":\"%s\",\"replied\":%s,\"node\":",
		is_own ? "" : server, ctl_true(flow, "replied") ? "true" : "false");
	json_add_text(&t->answered, ctl_text(e, "node"));
	buf_printf(&t->answered, ",\"tier\":\"%s\",\"why\":", ctl_text(e, "tier"));
	json_add_text(&t->answered,
		is_own ? "the agent passes the datagrams on through the hub: the kernel can send "
			 "to none of the endpoints"
		       : "drawn by the kernel for this client's address and port, of the nearest "
			 "tier that has an endpoint");
}

static void
trace_look(struct trace *t)
{
	bool udp = t->url.kind == ATTEMPT_UDP;

	if (t->port == NULL)
		return;
	if (udp || ctl_number(t->state, "iptables.kernel.tcpPorts") > 0)
		trace_look_at_kernel(t);
	if (!udp && buf_len(&t->answered) == 0)
		trace_look_at_proxy(t);
}

/* --- the whole trace ------------------------------------------------------------------------ */

static void
trace_try(struct trace *t)
{
	const struct attempt_ask ask = {.kind = t->url.kind,
		.address = t->name.address,
		.port = t->url.port,
		.host = t->url.host,
		.path = t->url.path};

	if (t->name.address[0] == '\0') {
		t->attempt = (struct attempt){.fd = -1,
			.connect_ms = -1,
			.first_ms = -1,
			.total_ms = -1,
			.said = "",
			.error = "the name has no address"};
		return;
	}
	if (attempt_open(&t->attempt, &ask) < 0)
		return;
	if (t->port != NULL && t->url.kind != ATTEMPT_UDP)
		trace_arm(t);
	attempt_run(&t->attempt, &ask);
}

/* For an address DNS is not needed. */
static int
trace_look_up(struct trace *t, struct err *err)
{
	struct in6_addr ip;

	if (!ip_parse(t->url.host, &ip))
		return ctl_lookup(ctl_text(t->state, "dns.address"), t->url.host, &t->name, err);
	t->name = (struct lookup){.rcode = "an address"};
	snprintf(t->name.asked, sizeof t->name.asked, "%s", t->url.host);
	ip_text(&ip, t->name.address);
	return 0;
}

static void
trace_write_attempt(struct buf *out, const struct trace *t)
{
	const struct attempt *a = &t->attempt;

	buf_printf(out,
		",\"status\":%d,\"connect_ms\":%.2f,\"first_byte_ms\":%.2f,\"total_ms\":%.2f,"
		"\"bytes\":%zu,\"said\":",
		a->status, a->connect_ms, a->first_ms, a->total_ms, a->bytes);
	json_add_text(out, a->said);
	buf_adds(out, ",\"error\":");
	json_add_text(out, a->error != NULL ? a->error : "");
}

static void
trace_write(struct buf *out, struct trace *t, const char *text)
{
	buf_adds(out, "{\"url\":");
	json_add_text(out, text);
	buf_adds(out, ",\"asked\":");
	json_add_text(out, t->name.asked);
	buf_printf(out, ",\"rcode\":\"%s\",\"resolve_ms\":%.2f,\"address\":\"%s\",\"port\":%u",
		t->name.rcode, t->name.ms, t->name.address, t->url.port);
	trace_write_way(out, t);
	trace_write_attempt(out, t);
	buf_printf(out, ",\"answered\":{%s}}\n", buf_str(&t->answered));
}

int
ctl_trace(const char *socket, const char *text, struct buf *answer, struct err *err)
{
	struct tree *before auto_tree = NULL, *services auto_tree = NULL, *after auto_tree = NULL;
	struct trace t = {.socket = socket, .attempt = {.fd = -1}};
	int rc = trace_read_url(text, &t.url, err);

	if (rc == 0)
		rc = ctl_ask_json(socket, "/debug/state", &before, err);
	if (rc == 0)
		rc = ctl_ask_json(socket, "/debug/services", &services, err);
	if (rc < 0)
		return rc;
	snprintf(t.id, sizeof t.id, "trace-%d", (int)getpid());
	t.state = tree_document(before, 0);
	t.services = tree_document(services, 0);
	if ((rc = trace_look_up(&t, err)) < 0)
		return rc;
	t.service = ctl_service_at(t.services, t.name.address);
	t.port = trace_port_of(t.service, &t.url);
	trace_try(&t);
	/* Now the workers know the endpoints. */
	if ((rc = ctl_ask_json(socket, "/debug/state", &after, err)) < 0) {
		attempt_close(&t.attempt);
		return rc;
	}
	t.state = tree_document(after, 0);
	buf_init(&t.answered, BUF_UNLIMITED);
	trace_look(&t);
	attempt_close(&t.attempt);
	trace_write(answer, &t, text);
	buf_fini(&t.answered);
	return 0;
}
