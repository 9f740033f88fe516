#include "src/ctl/ctl_show.h"

#include <stdio.h>
#include <string.h>

#include "src/common/ctl_answer.h"
#include "src/ctl/ctl_table.h"

static char *
service_name(const struct tree_node *s)
{
	return xasprintf("%s/%s", ctl_text(s, "namespace"), ctl_text(s, "name"));
}

static int
no_such_service(const char *name)
{
	fprintf(stderr, "edgewayctl: no service %s on this node; write namespace/name\n", name);
	return 1;
}

int
ctl_show_services(const struct tree_node *answer, const char *argument)
{
	static const char *const headers[] = {"SERVICE", "ADDRESS", "PORTS (endpoints)", NULL};
	auto_table struct table t;

	table_init(&t, headers);
	tree_each(tree_get(answer, "services"), s) {
		auto_free char *name = service_name(s);
		const char *ip = ctl_text(s, "fakeIP"), *ip6 = ctl_text(s, "fakeIP6");
		auto_free char *both = xasprintf("%s%s%s", ip, ip6[0] != '\0' ? " " : "", ip6);
		auto_buf struct buf ports;

		buf_init(&ports, BUF_UNLIMITED);
		if (!ctl_is_wanted(s, argument))
			continue;
		tree_each(tree_get(s, "ports"), p)
			buf_printf(&ports, "%s%s/%s(%u)", buf_len(&ports) > 0 ? " " : "",
				ctl_text(p, "port"), ctl_text(p, "mode"),
				ctl_count(tree_get(p, "endpoints")));
		table_row(&t,
			(const char *const[]){
				name, ip[0] != '\0' ? both : "(none left)", buf_str(&ports)});
	}
	if (t.n_rows == 0 && argument != NULL)
		return no_such_service(argument);
	table_sort(&t);
	table_print(&t, stdout);
	return 0;
}

static void
add_words(struct buf *to, const char *word)
{
	buf_printf(to, "%s%s", buf_len(to) > 0 ? " " : "", word);
}

/* What is not served stands behind what is, by reason. */
int
ctl_show_nodeports(const struct tree_node *answer, const char *argument)
{
	static const char *const headers[] = {
		"SERVICE", "PORT", "OUTSIDE", "BY", "ADDRESSES", "NOT SERVED", NULL};
	const struct tree_node *external = tree_path(answer, "iptables.external");
	auto_table struct table t;

	(void)argument;
	table_init(&t, headers);
	tree_each(tree_get(external, "ports"), p) {
		auto_free char *outside =
			xasprintf("%s/%s", ctl_text(p, "number"), ctl_text(p, "protocol"));
		auto_buf struct buf served, refused;

		buf_init(&served, BUF_UNLIMITED);
		buf_init(&refused, BUF_UNLIMITED);
		tree_each(tree_get(p, "addresses"), a)
			add_words(&served, tree_text(a, ""));
		tree_each(tree_get(p, "refused"), r)
			buf_printf(&refused, "%s%s: %s", buf_len(&refused) > 0 ? ", " : "",
				ctl_text(r, "address"), ctl_text(r, "why"));
		table_row(&t,
			(const char *const[]){ctl_text(p, "service"), ctl_text(p, "port"), outside,
				ctl_text(p, "by"), buf_str(&served), buf_str(&refused)});
	}
	table_sort(&t);
	table_print(&t, stdout);
	if (!ctl_true(external, "on"))
		printf("nothing of it is served here: %s (mesh.nodePorts)\n",
			ctl_text(external, "servedBy")[0] != '\0' ? ctl_text(external, "servedBy")
								  : "it is switched off");
	return 0;
}

static void
add_endpoint(struct table *t, const char *name, const char *port, const struct tree_node *e,
	const char *note)
{
	const char *other = ctl_text(e, "other");
	auto_free char *address = xasprintf(
		"%s%s%s%s", ctl_text(e, "address"), *other != '\0' ? " or " : "", other, note);

	table_row(t,
		(const char *const[]){
			name, port, address, ctl_text(e, "via"), ctl_text(e, "node")});
}

/* A port without endpoints gets a line as well: an empty table would be ambiguous. */
static void
add_endpoints_of(struct table *t, const char *name, const struct tree_node *p)
{
	auto_free char *port = xasprintf("%s/%s%s", ctl_text(p, "port"), ctl_text(p, "mode"),
		tree_get(p, "tls") != NULL ? " TLS" : "");
	bool some_unreachable = ctl_number(p, "unreachable") > 0;
	auto_free char *unreachable =
		xasprintf("%s that this node cannot dial (no hostPort, or another site)",
			ctl_text(p, "unreachable"));
	auto_free char *none = xasprintf("none (%s)",
		ctl_text(p, "why")[0] != '\0' ? ctl_text(p, "why")
					      : "no pod, or none with an address");
	bool any = false;

	tree_each(tree_get(p, "endpoints"), e) {
		any = true;
		add_endpoint(t, name, port, e, ctl_true(e, "terminating") ? " TERMINATING" : "");
	}
	tree_each(tree_get(p, "leaving"), e) {
		any = true;
		add_endpoint(t, name, port, e,
			" TERMINATING: for calls from outside alone (externalTrafficPolicy)");
	}
	tree_each(tree_get(p, "refused"), e) {
		const char *reason = ctl_text(e, "reason");
		auto_free char *refused =
			xasprintf("%s REFUSED: it is %s%s", ctl_text(e, "address"), reason,
				strstr(reason, "encrypt") != NULL ? "" : " (lb.allow)");

		any = true;
		table_row(t, (const char *const[]){name, port, refused, "", ctl_text(e, "node")});
	}
	if (some_unreachable)
		table_row(t, (const char *const[]){name, port, unreachable, NULL, NULL});
	else if (!any)
		table_row(t, (const char *const[]){name, port, none, NULL, NULL});
}

int
ctl_show_endpoints(const struct tree_node *answer, const char *argument)
{
	static const char *const headers[] = {"SERVICE", "PORT", "ENDPOINT", "VIA", "NODE", NULL};
	auto_table struct table t;
	bool found = false;

	table_init(&t, headers);
	tree_each(tree_get(answer, "services"), s) {
		auto_free char *name = service_name(s);

		if (!ctl_is_wanted(s, argument))
			continue;
		found = true;
		tree_each(tree_get(s, "ports"), p)
			add_endpoints_of(&t, name, p);
	}
	if (!found && argument != NULL)
		return no_such_service(argument);
	table_sort(&t);
	table_print(&t, stdout);
	return 0;
}

int
ctl_show_health(const struct tree_node *answer, const char *argument)
{
	static const char *const headers[] = {"SERVICE", "PORT", "WORKER", "ENDPOINT", "TIER",
		"STATE", "IN FLIGHT", "IDLE", "FAULT", NULL};
	auto_table struct table t;

	table_init(&t, headers);
	tree_each(tree_path(answer, "lb.endpoints"), g) {
		if (!ctl_is_wanted(g, argument))
			continue;
		tree_each(tree_get(g, "endpoints"), e)
			table_row(&t,
				(const char *const[]){ctl_text(g, "service"), ctl_text(g, "port"),
					ctl_text(g, "worker"), ctl_text(e, "address"),
					ctl_text(e, "tier"), ctl_text(e, "state"),
					ctl_text(e, "in_flight"), ctl_text(e, "idle"),
					ctl_text(e, "fault")});
	}
	table_sort(&t);
	table_print(&t, stdout);
	return 0;
}

/* Shows members unchanged; upstreams stay in the order in which they are queried. */
static int
show_members(const struct tree_node *answer, const char *list, bool sorted,
	const char *const *headers, const char *const *members)
{
	auto_table struct table t;

	table_init(&t, headers);
	tree_each(tree_path(answer, list), row) {
		const char *cells[TABLE_COLUMNS_MAX] = {NULL};

		for (size_t i = 0; members[i] != NULL; i++)
			cells[i] = ctl_text(row, members[i]);
		table_row(&t, cells);
	}
	if (sorted)
		table_sort(&t);
	table_print(&t, stdout);
	return 0;
}

int
ctl_show_upstreams(const struct tree_node *answer, const char *argument)
{
	static const char *const headers[] = {"ADDRESS", "STATE", "QUERIES", "FAILURES", "TIMEOUTS",
		"LATENCY MS", NULL},
				 *const members[] = {"address", "state", "queries", "failures",
					 "timeouts", "latency_ms", NULL};

	(void)argument;
	return show_members(answer, "dns.forwarding", false, headers, members);
}

int
ctl_show_tokens(const struct tree_node *answer, const char *argument)
{
	static const char *const headers[] = {"ID", "NODE", "USED", "USES", "EXPIRES", NULL},
				 *const members[] = {"id", "node", "used", "uses", "expires", NULL};

	(void)argument;
	return show_members(answer, "tokens", true, headers, members);
}

int
ctl_show_nodes(const struct tree_node *answer, const char *argument)
{
	static const char *const headers[] = {"NODE", "CONNECTED", "AT", "ADDRESS", "VERSION",
		"SYNCED", "SINCE", "PENDING", "REVOKED", "CERTIFICATE UNTIL", "SERIAL",
		"LAST WORDS", NULL},
				 *const members[] = {"node", "connected", "at", "address",
					 "version", "synced", "since", "pending", "revoked",
					 "expires", "serial", "lastWords", NULL};

	(void)argument;
	return show_members(answer, "nodes", true, headers, members);
}

int
ctl_show_ca(const struct tree_node *answer, const char *argument)
{
	static const char *const headers[] = {"NODE", "CAS", NULL},
				 *const members[] = {"node", "cas", NULL};

	(void)argument;
	printf("CAs in use: %s; %s nodes have them, %s do not%s%s\n", ctl_text(answer, "cas"),
		ctl_text(answer, "have"), ctl_text(answer, "lack"),
		ctl_text(answer, "refused")[0] != '\0' ? "; that of the Secret is not used: " : "",
		ctl_text(answer, "refused"));
	return show_members(answer, "lacking", true, headers, members);
}

int
ctl_show_hubs(const struct tree_node *answer, const char *argument)
{
	static const char *const headers[] = {"HUB", "ADDRESS", "STATE", "SINCE", "SERIAL", NULL},
				 *const members[] = {
					 "hub", "address", "state", "since", "serial", NULL};

	(void)argument;
	return show_members(answer, "hubs", true, headers, members);
}

int
ctl_show_tunnels(const struct tree_node *answer, const char *argument)
{
	static const char *const headers[] = {"NODE", "STATE", "ADDRESS", "STREAMS", "RTT MS",
		"BYTES IN", "BYTES OUT", "SINCE S", "CERTIFICATE UNTIL", NULL},
				 *const members[] = {"node", "state", "address", "streams",
					 "rtt_ms", "bytes_in", "bytes_out", "since_s",
					 "certificate_expires", NULL};
	static const char *const beside_headers[] = {"REACHED BESIDE", "VIA", "SITE", "HERE",
		"STATE", "STREAMS OF VIA", "PROBLEM", NULL},
				 *const beside_members[] = {"node", "via", "site", "here", "state",
					 "streams", "problem", NULL};

	(void)argument;
	show_members(answer, "tunnels", true, headers, members);
	if (ctl_count(tree_get(answer, "neighbours")) == 0)
		return 0;
	puts("");
	return show_members(answer, "neighbours", true, beside_headers, beside_members);
}

int
ctl_show_flows(const struct tree_node *answer, const char *argument)
{
	static const char *const headers[] = {"MAP", "CALLER", "TARGET", "STATE", "SENT",
		"RECEIVED", "DROPPED", "IDLE MS", "AGE MS", NULL},
				 *const members[] = {"listen", "caller", "target", "state", "sent",
					 "received", "dropped", "idle_ms", "age_ms", NULL};

	(void)argument;
	return show_members(answer, "hub.udpFlows", true, headers, members);
}

int
ctl_show_peers(const struct tree_node *answer, const char *argument)
{
	static const char *const headers[] = {"PEER", "STATE", "ADDRESS", "NODES", "STREAMS",
		"RTT MS", "BYTES IN", "BYTES OUT", "SINCE S", "ERROR", NULL},
				 *const members[] = {"peer", "state", "address", "nodes", "streams",
					 "rtt_ms", "bytes_in", "bytes_out", "since_s", "error",
					 NULL};
	static const char *const of_node[] = {"NODE", "DIRECTION", "STATE", "PATH", "ADDRESS",
		"STREAMS", "RTT MS", "BYTES IN", "BYTES OUT", "SINCE S", "RETRY MS", "ATTEMPTS",
		"ERROR", NULL},
				 *const of_node_members[] = {"peer", "direction", "state", "path",
					 "address", "streams", "rtt_ms", "bytes_in", "bytes_out",
					 "since_s", "retry_ms", "attempts", "error", NULL};

	(void)argument;
	if (tree_get(answer, "port") != NULL)
		return show_members(answer, "peers", true, of_node, of_node_members);
	return show_members(answer, "peers", true, headers, members);
}

int
ctl_show_log(const struct tree_node *answer, const char *argument)
{
	static const char *const headers[] = {"PART", "LEVEL", NULL},
				 *const members[] = {"part", "level", NULL};

	(void)argument;
	return show_members(answer, "log", true, headers, members);
}

int
ctl_show_events(const struct tree_node *answer, const char *argument)
{
	static const char *const headers[] = {"TIME", "LEVEL", "PART", "EVENT", NULL},
				 *const members[] = {"time", "level", "part", "event", NULL};

	(void)argument;
	return show_members(answer, "events", false, headers, members);
}

int
ctl_show_resolve(const struct tree_node *answer, const char *argument)
{
	static const char *const headers[] = {"TYPE", "TTL", "VALUE", NULL},
				 *const members[] = {"type", "ttl", "value", NULL};

	(void)argument;
	printf("%s: %s from %s in %s ms\n%s\n", ctl_text(answer, "asked"),
		ctl_text(answer, "rcode"), ctl_text(answer, "server"), ctl_text(answer, "ms"),
		ctl_text(answer, "meaning"));
	if (ctl_count(tree_get(answer, "records")) > 0) {
		puts("");
		show_members(answer, "records", false, headers, members);
	}
	return ctl_count(tree_get(answer, "records")) > 0 ? 0 : 1;
}

/* Which endpoint answered, and why it was chosen. */
static void
show_answered(const struct tree_node *answered)
{
	const char *endpoint = ctl_text(answered, "endpoint"), *node = ctl_text(answered, "node");

	if (ctl_text(answered, "why")[0] == '\0')
		return;
	printf("endpoint  %s%s%s: %s\n", endpoint[0] != '\0' ? endpoint : "none",
		node[0] != '\0' ? " on " : "", node, ctl_text(answered, "why"));
}

/* Which rule of the service's routes decided. */
static void
show_route(const struct tree_node *answered)
{
	const char *route = ctl_text(answered, "route");

	if (*route != '\0')
		printf("route     %s\n", route);
}

int
ctl_show_trace(const struct tree_node *answer, const char *argument)
{
	static const char *const headers[] = {"ENDPOINT", "TIER", "VIA", "NODE", "HEALTH", NULL},
				 *const members[] = {
					 "address", "tier", "via", "node", "health", NULL};
	const char *service = ctl_text(answer, "service"), *error = ctl_text(answer, "error");

	(void)argument;
	printf("name      %s: %s %s in %s ms\n", ctl_text(answer, "asked"),
		ctl_text(answer, "rcode"), ctl_text(answer, "address"),
		ctl_text(answer, "resolve_ms"));
	printf("service   %s\nrule      %s\n", service[0] != '\0' ? service : "none of the mesh",
		ctl_text(answer, "rule"));
	if (ctl_text(answer, "callers")[0] != '\0')
		printf("callers   %s\n", ctl_text(answer, "callers"));
	if (error[0] != '\0')
		printf("request   failed: %s\n", error);
	else if (ctl_text(answer, "said")[0] != '\0')
		printf("request   %s\n", ctl_text(answer, "said"));
	else
		printf("request   status %s, connected after %s ms, first byte %s ms, all of %s "
		       "bytes %s ms\n",
			ctl_text(answer, "status"), ctl_text(answer, "connect_ms"),
			ctl_text(answer, "first_byte_ms"), ctl_text(answer, "bytes"),
			ctl_text(answer, "total_ms"));
	show_route(tree_get(answer, "answered"));
	show_answered(tree_get(answer, "answered"));
	if (ctl_count(tree_get(answer, "endpoints")) > 0) {
		puts("");
		show_members(answer, "endpoints", false, headers, members);
	}
	return error[0] == '\0' && ctl_number(answer, "status") < 500 ? 0 : 1;
}

int
ctl_show_streams(const struct tree_node *answer, const char *argument)
{
	static const char *const headers[] = {"NODE", "STREAM", "TARGET", "PROTOCOL", "STATE",
		"AGE S", "BYTES IN", "BYTES OUT", "WINDOW IN", "WINDOW OUT", "WAITING IN",
		"WAITING OUT", NULL},
				 *const members[] = {"node", "stream", "target", "protocol",
					 "state", "age_s", "bytes_in", "bytes_out", "window_in",
					 "window_out", "waiting_in", "waiting_out", NULL};

	(void)argument;
	return show_members(answer, "streams", true, headers, members);
}

int
ctl_show_bundle(const struct tree_node *answer, const char *argument)
{
	static const char *const headers[] = {"MEMBER", "BYTES", "PROBLEM", NULL},
				 *const members[] = {"member", "bytes", "problem", NULL};
	bool to_stdout = argument != NULL && strcmp(argument, "-") == 0;

	if (!to_stdout) {
		show_members(answer, "members", false, headers, members);
		puts("");
	}
	fprintf(to_stdout ? stderr : stdout,
		"%s: %s bytes, %s secrets taken out. Names and addresses of nodes, services and "
		"pods "
		"are in it: look at it before you give it away.\n",
		ctl_text(answer, "file"), ctl_text(answer, "bytes"), ctl_text(answer, "removed"));
	return 0;
}

/* The exit status is the result: 0 allowed, 1 not allowed. */
int
ctl_show_access(const struct tree_node *answer, const char *argument)
{
	static const char *const headers[] = {"ENDPOINT", "NODE", "ALLOWED", "WHY", NULL},
				 *const members[] = {"endpoint", "node", "allowed", "why", NULL};
	const char *rule = ctl_text(answer, "rule"), *reason = ctl_text(answer, "reason");
	bool allowed = ctl_true(answer, "allowed");

	(void)argument;
	printf("from      %s\n", ctl_text(answer, "from"));
	printf("to        %s%s%s\n", ctl_text(answer, "to"),
		ctl_text(answer, "target")[0] != '\0' ? ": " : "", ctl_text(answer, "target"));
	printf("%s\n", allowed ? "allowed" : "DENIED");
	if (rule[0] != '\0')
		printf("rule      %s\n", rule);
	if (reason[0] != '\0' && strcmp(reason, rule) != 0)
		printf("reason    %s\n", reason);
	if (ctl_count(tree_get(answer, "ways")) > 0) {
		puts("");
		show_members(answer, "ways", false, headers, members);
	}
	return allowed ? 0 : 1;
}
