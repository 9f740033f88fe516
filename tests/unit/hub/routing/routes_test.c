#include "tests/unit/model/kube_kit.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "hub/routing/routes.h"

/* What names and addresses at the ingress lead to. */

#define IP(address) "{type: InternalIP, address: " address "}"
#define PORTS "{name: http, port: 8080}"
#define RUNNING_AT(name, node, ip, more)                                                           \
	"---\napiVersion: v1\nkind: Pod\nmetadata: {name: " name ", labels: {app: web}}\n"         \
	"spec: {nodeName: " node "}\n"                                                             \
	"status: {phase: Running, podIP: " ip ", podIPs: [{ip: " ip "}" more                       \
	"], conditions: [{type: Ready, status: 'True'}]}\n"
#define RUNNING(name, node, ip) RUNNING_AT(name, node, ip, "")
#define AT(ip, node) "{addresses: [" ip "], nodeName: " node "}"

static struct cluster *cluster;
static struct fanout *fanout;
static struct routes_finder *finder;
static const char *edges, *tunnels; /* names between commas */
static bool known;
static struct routes ways;
static struct loop *loop;
static struct addresses *addresses;
static struct self_guard *guard;
static struct tree *tree;
static struct acl *rules;
static const char *hubs, *replicas; /* addresses between commas */

static bool
listed(const char *list, const char *node)
{
	char name[80];

	snprintf(name, sizeof name, ",%s,", node);
	return strstr(list, name) != NULL;
}

static bool
at_edge(void *arg, const char *node)
{
	(void)arg;
	return listed(edges, node);
}

static bool
edge_known(void *arg)
{
	(void)arg;
	return known;
}

static bool
tunnelled(void *arg, const char *node)
{
	(void)arg;
	return listed(tunnels, node);
}

static bool
is_hubs(void *arg, const struct in6_addr *ip)
{
	char text[INET6_ADDRSTRLEN];

	(void)arg;
	return IN6_IS_ADDR_V4MAPPED(ip) &&
		listed(hubs, inet_ntop(AF_INET, &ip->s6_addr[12], text, sizeof text));
}

static bool
is_replicas(void *arg, const struct in6_addr *ip)
{
	char text[INET6_ADDRSTRLEN];

	(void)arg;
	return IN6_IS_ADDR_V4MAPPED(ip) &&
		listed(replicas, inet_ntop(AF_INET, &ip->s6_addr[12], text, sizeof text));
}

static const char *
refuses(void *arg, const char *node, const char *authority)
{
	(void)arg;
	return strcmp(node, "edge-2") == 0 && strstr(authority, ":10080") != NULL ? "no" : NULL;
}

static void
say(const char *source, const char *yaml)
{
	struct cluster_change change;

	kit_say(cluster, source, yaml);
	while (cluster_next_change(cluster, &change)) {
		if (change.view != NULL)
			fanout_set(fanout, &change);
		else
			fanout_remove(fanout, change.ns, change.name);
		cluster_change_fini(&change);
	}
}

static int
setup(void **state)
{
	struct routes_config config = {
		.cluster_domain = "cluster.local",
		.suffix = "edge.example",
		.at_edge = at_edge,
		.edge_known = edge_known,
		.tunnelled = tunnelled,
		.refuses = refuses,
	};
	static const char allows[] =
		"[{from: 127.0.0.1, to: ['*', 'cloud/10.0.0.1:10250']}, {from: 192.0.2.7, to: "
		"['default/*', 'edge-1:9100', 'master:9100']}]";
	struct addr listen = addr_ipv4(INADDR_ANY, 10080);

	(void)state;
	known = true;
	edges = tunnels = ",edge-1,edge-2,";
	config.cluster = cluster = cluster_new();
	config.fanout = fanout = fanout_new();
	hubs = replicas = "";
	assert_int_equal(loop_new(&loop, NULL), 0);
	addresses = addresses_new(loop, NULL, NULL);
	assert_int_equal(tree_parse(&tree, "test", allows, strlen(allows), NULL), 0);
	assert_int_equal(acl_new(tree_document(tree, 0), &rules, NULL), 0);
	guard = self_guard_new(&(struct self_guard_config){
		.addresses = addresses, .access = rules, .named = is_hubs, .replica = is_replicas});
	self_guard_listens(guard, &listen);
	config.access = rules;
	config.guard = guard;
	finder = routes_new(&config);
	say("nodes",
		NODE("edge-1", "", IP("192.168.1.20") ", {type: Hostname, address: box-1}")
			NODE("edge-2", "", IP("192.168.1.20") ", " IP("10.1.0.2"))
				NODE("master", "", IP("10.0.0.1")));
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	routes_free(&finder);
	self_guard_free(&guard);
	acl_free(&rules);
	tree_free(&tree);
	addresses_free(&addresses);
	loop_free(&loop);
	fanout_free(&fanout);
	cluster_free(&cluster);
	return 0;
}

/* "node authority" of each way, or status and reason. */
static const char *
find(const char *host, uint16_t port)
{
	static char text[1024];
	unsigned status = routes_find(finder, host, port, &ways);

	text[0] = '\0';
	if (status != 0)
		snprintf(text, sizeof text, "%u %s", status, ways.reason);
	for (size_t i = 0; i < ways.n; i++)
		snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s %s",
			i > 0 ? ", " : "", ways.list[i].node, ways.list[i].authority);
	return text;
}

static void
nodes(void **state)
{
	(void)state;
	assert_string_equal(find("edge-1", 10250), "edge-1 edge-1:10250");
	assert_int_equal(ways.target.kind, TARGET_NODE);
	assert_string_equal(find("EDGE-1.", 10250), "edge-1 edge-1:10250");
	assert_string_equal(find("edge-1.edge.example", 22), "edge-1 edge-1:22");
	assert_string_equal(find("box-1", 22), "edge-1 edge-1:22");
	assert_string_equal(find("10.1.0.2", 22), "edge-2 edge-2:22");
	assert_string_equal(find("master", 22), " 10.0.0.1:22");
	assert_memory_equal(find("nobody", 22), "404 nobody is neither", 21);
	assert_memory_equal(find("nobody.edge.example", 22), "404 ", 4);
	assert_memory_equal(find("edge-1", 0), "400 ", 4);
	/* It has joined, and its Node object is not there (manifests). */
	edges = ",edge-9,";
	assert_string_equal(find("edge-9", 22), "edge-9 edge-9:22");
}

static void
an_address_of_two_is_nobodys(void **state)
{
	(void)state;
	find("192.168.1.20", 10250);
	assert_memory_equal(find("192.168.1.20", 10250), "421 192.168.1.20 belongs to 2:", 30);
	assert_non_null(strstr(ways.reason, "node edge-1"));
	assert_non_null(strstr(ways.reason, "node edge-2"));
}

static void
services(void **state)
{
	(void)state;
	say("web",
		SERVICE("web",
			"clusterIP: 10.96.0.7, ports: [{name: http, port: 80, targetPort: 8080}]")
			SLICE("web-1", "web", PORTS,
				AT("172.17.0.2", "edge-1") ", " AT("172.17.0.2", "edge-2") ", " AT(
					"10.244.0.9", "master")));
	for (int i = 0; i < 3; i++) {
		const char *text = find("web.default", 80);

		assert_non_null(strstr(text, "edge-1 172.17.0.2:8080"));
		assert_non_null(strstr(text, "edge-2 172.17.0.2:8080"));
		assert_non_null(strstr(text, " 10.244.0.9:8080"));
	}
	assert_string_equal(ways.service, "default/web");
	assert_int_equal(ways.target.kind, TARGET_SERVICE);
	assert_int_equal(routes_find(finder, "web.default.svc", 80, &ways), 0);
	assert_int_equal(routes_find(finder, "Web.Default.svc.Cluster.Local", 80, &ways), 0);
	assert_int_equal(routes_find(finder, "10.96.0.7", 80, &ways), 0);
	assert_int_equal(ways.target.kind, TARGET_SERVICE);
	assert_memory_equal(
		find("web.default", 81), "404 the service default/web has no TCP port 81", 40);
	assert_memory_equal(find("web.shop", 80), "404 ", 4);
	/* Those with a tunnel come first. */
	tunnels = ",edge-2,";
	for (int i = 0; i < 3; i++)
		assert_non_null(strstr(find("web.default", 80), ", edge-1 "));
	say("web", SERVICE("web", "ports: [{name: http, port: 80, targetPort: 8080}]"));
	assert_memory_equal(find("web.default", 80), "503 ", 4);
}

/* The hub dials both addresses of an endpoint that it dials itself, one after the other; a node
 * gets the first one. */
static void
endpoints_of_two_families(void **state)
{
	(void)state;
	say("web",
		SERVICE("web",
			"ipFamilies: [IPv6, IPv4], ports: [{name: http, port: 80, targetPort: "
			"8080}], selector: {app: web}")
			RUNNING_AT("a", "master", "10.244.0.9", ", {ip: fd01::9}"));
	assert_string_equal(find("web.default", 80), " [fd01::9]:8080,  10.244.0.9:8080");
	say("web",
		SERVICE("web",
			"ipFamilies: [IPv6, IPv4], ports: [{name: http, port: 80, targetPort: "
			"8080}], selector: {app: web}")
			RUNNING_AT("a", "edge-1", "172.17.0.2", ", {ip: fd01::9}"));
	assert_string_equal(find("web.default", 80), "edge-1 [fd01::9]:8080");
}

/* The same number may be a port of both. */
static void
ports_of_udp(void **state)
{
	(void)state;
	say("dns",
		SERVICE("dns",
			"ports: [{name: t, port: 53, targetPort: 5300}, "
			"{name: u, port: 53, targetPort: 5301, protocol: UDP}]") SLICE("dns-1",
			"dns", "{name: t, port: 5300}, {name: u, port: 5301, protocol: UDP}",
			AT("172.17.0.2", "edge-1")));
	assert_string_equal(find("dns.default", 53), "edge-1 172.17.0.2:5300");
	assert_int_equal(routes_find_udp(finder, "dns.default", 53, &ways), 0);
	assert_string_equal(ways.list[0].authority, "172.17.0.2:5301");
	assert_int_equal(ways.n, 1);
	assert_int_equal(routes_find_udp(finder, "dns.default", 54, &ways), 404);
	assert_memory_equal(ways.reason, "the service default/dns has no UDP port 54", 42);
	assert_int_equal(routes_find_udp(finder, "edge-1", 53, &ways), 0);
	assert_string_equal(ways.list[0].authority, "edge-1:53");
}

static void
calls_are_spread(void **state)
{
	unsigned first[2] = {0};

	(void)state;
	say("web",
		SERVICE("web", "ports: [{name: http, port: 80, targetPort: 8080}]") SLICE("web-1",
			"web", PORTS, AT("172.17.0.2", "edge-1") ", " AT("172.17.0.3", "edge-2")));
	for (int i = 0; i < 100; i++) {
		assert_int_equal(routes_find(finder, "web.default", 80, &ways), 0);
		first[ways.list[0].node[5] - '1']++;
	}
	assert_int_equal(first[0], 50);
	assert_int_equal(first[1], 50);
}

static void
addresses_of_the_cloud(void **state)
{
	(void)state;
	assert_string_equal(find("203.0.113.7", 443), " 203.0.113.7:443");
	assert_int_equal(ways.target.kind, TARGET_CLOUD);
	assert_string_equal(find("2001:db8::7", 443), " [2001:db8::7]:443");
	assert_memory_equal(find("127.0.0.1", 22), "403 ", 4);
	assert_memory_equal(find("::1", 22), "403 ", 4);
}

/* What listens on the hub's loopback is nobody's, whatever objects say of themselves. */
static void
loopback_is_never_dialled(void **state)
{
	(void)state;
	say("liars",
		NODE("liar", "", IP("127.0.0.1")) NODE("liar6", "", IP("'::1'"))
			RUNNING("lie", "master", "127.0.0.2"));
	assert_memory_equal(find("liar", 40001), "403 127.0.0.1:40001 is the hub itself", 37);
	assert_memory_equal(find("liar6", 40001), "403 [::1]:40001 is the hub itself", 33);
	assert_memory_equal(find("127.0.0.1", 40001), "403 ", 4);
	assert_memory_equal(find("127.0.0.2", 40001), "403 ", 4);
	/* At a node at the edge it is the node's own affair. */
	edges = tunnels = ",edge-1,edge-2,liar,";
	assert_string_equal(find("liar", 40001), "liar liar:40001");
}

static void
yurts_destination(void **state)
{
	(void)state;
	assert_int_equal(routes_find_at(finder, "edge-1", "127.0.0.1:10255", &ways), 0);
	assert_string_equal(ways.list[0].authority, "127.0.0.1:10255");
	assert_string_equal(ways.list[0].node, "edge-1");
	assert_int_equal(ways.target.port, 10255);
	assert_int_equal(routes_find_at(finder, "edge-1", "10255", &ways), 400);
	assert_int_equal(routes_find_at(finder, "nobody", "127.0.0.1:10255", &ways), 404);
	assert_int_equal(routes_find_at(finder, "master", "127.0.0.1:10255", &ways), 503);
}

static unsigned
find_endpoint(const char *asker, const char *service, const char *node, const char *at)
{
	const struct routes_endpoint wanted = {asker, service, node, at, false};

	return routes_find_endpoint(finder, &wanted, &ways);
}

/* A right to the node is none to its pods; other nodes have pods with the same address. */
static void
yurts_destination_may_be_a_pod(void **state)
{
	(void)state;
	say("pods", RUNNING("w-1", "edge-1", "172.17.0.5") RUNNING("w-2", "edge-2", "172.17.0.6"));
	for (int mapped = 0; mapped < 2; mapped++) {
		assert_int_equal(
			routes_find_at(finder, "edge-1",
				mapped ? "[::ffff:172.17.0.5]:8080" : "172.17.0.5:8080", &ways),
			0);
		assert_int_equal(ways.target.kind, TARGET_POD);
		assert_string_equal(ways.target.ns, "default");
		assert_string_equal(ways.target.name, "w-1");
		assert_int_equal(ways.target.port, 8080);
		assert_string_equal(ways.list[0].node, "edge-1");
	}
	assert_int_equal(routes_find_at(finder, "edge-1", "172.17.0.6:8080", &ways), 0);
	assert_int_equal(ways.target.kind, TARGET_NODE);
}

/* Nobody takes a service's callers by saying that its ClusterIP is an address of one's own. */
static void
a_cluster_ip_is_the_services(void **state)
{
	(void)state;
	say("web",
		SERVICE("web", "clusterIP: 10.96.0.7, ports: [{name: http, port: 80}]")
			NODE("liar", "", IP("10.96.0.7")) RUNNING("w-1", "edge-1", "10.96.0.7"));
	assert_memory_equal(find("10.96.0.7", 80), "503 the service default/web", 27);
	say("web", NODE("liar", "", IP("10.96.0.7")));
	assert_string_equal(find("10.96.0.7", 80), " 10.96.0.7:80");
	assert_int_equal(ways.target.kind, TARGET_NODE);
}

/* An address of the edge may be anybody's in the hub's own network. */
static void
nothing_is_dialled_before_the_edge_is_known(void **state)
{
	(void)state;
	say("web",
		SERVICE("web", "ports: [{name: http, port: 80, targetPort: 8080}]")
			SLICE("web-1", "web", PORTS, AT("10.244.0.9", "master")));
	assert_string_equal(find("web.default", 80), " 10.244.0.9:8080");
	known = false;
	edges = "";
	assert_memory_equal(find("edge-2", 22), "503 the hub's authority", 23);
	assert_memory_equal(find("10.1.0.2", 22), "503 the hub's authority", 23);
	assert_memory_equal(find("web.default", 80), "503 the hub's authority", 23);
	assert_string_equal(find("203.0.113.7", 443), " 203.0.113.7:443");
}

/* An EndpointSlice may name a pod that has no address, and say one for it. */
static void
a_pods_address_is_what_the_pod_says(void **state)
{
	(void)state;
	say("web",
		SERVICE("web", "ports: [{name: http, port: 80, targetPort: 8080}]") SLICE("web-1",
			"web", PORTS,
			"{addresses: [10.0.0.99], targetRef: {kind: Pod, name: waiting}}, "
			"{addresses: [10.0.0.98], nodeName: master, targetRef: {kind: Pod, name: "
			"there}}") "---\napiVersion: v1\nkind: Pod\nmetadata: {name: "
				   "waiting}\nstatus: "
				   "{phase: Pending}\n"
				   "---\napiVersion: v1\nkind: Pod\nmetadata: {name: there}\nspec: "
				   "{nodeName: master}\nstatus: {phase: Pending}\n");
	assert_int_equal(find_endpoint("edge-1", "default/web", "", "10.0.0.99:8080"), 404);
	assert_non_null(strstr(ways.reason, "has no address"));
	assert_int_equal(find_endpoint("edge-1", "default/web", "master", "10.0.0.98:8080"), 404);
	assert_non_null(strstr(ways.reason, "has no address"));
}

static unsigned
find_datagrams(const char *service, const char *at)
{
	const struct routes_endpoint wanted = {"edge-1", service, "edge-1", at, true};

	return routes_find_endpoint(finder, &wanted, &ways);
}

/* The endpoint that a node asks for: the service must have it, there. */
static void
one_endpoint(void **state)
{
	static const struct {
		const char *service, *node, *endpoint;
		unsigned status;
	} wrong[] = {
		{"default/web", "edge-1", "172.17.0.3:8080", 404}, /* a pod's, but not there */
		{"default/web", "edge-1", "172.17.0.2:22", 404},
		{"default/web", "master", "172.17.0.2:8080", 404},
		{"default/web", "", "172.17.0.2:8080", 404},
		{"default/other", "edge-1", "172.17.0.2:8080", 404},
		{"", "edge-1", "172.17.0.2:8080", 404},
		{"default/log", "edge-1", "172.17.0.2:514", 404}, /* UDP */
	};

	(void)state;
	say("web",
		SERVICE("web",
			"selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}]")
			SERVICE("log",
				"selector: {app: web}, ports: [{name: log, port: 514, protocol: "
				"UDP}]") RUNNING("w-1", "edge-1", "172.17.0.2") RUNNING("w-2",
				"edge-2", "172.17.0.3") RUNNING("w-3", "master", "10.244.0.9")
				RUNNING("w-6", "edge-2", "'2001:DB8::6'"));
	assert_int_equal(find_endpoint("edge-1", "default/web", "edge-2", "[2001:db8::6]:8080"), 0);
	assert_string_equal(ways.list[0].node, "edge-2");
	assert_string_equal(ways.list[0].authority, "[2001:DB8::6]:8080");
	assert_int_equal(find_endpoint("edge-1", "default/web", "edge-2", "172.17.0.3:8080"), 0);
	assert_int_equal(ways.n, 1);
	assert_string_equal(ways.list[0].node, "edge-2");
	assert_string_equal(ways.list[0].authority, "172.17.0.3:8080");
	assert_string_equal(ways.service, "default/web");
	assert_int_equal(ways.target.kind, TARGET_SERVICE);
	assert_int_equal(ways.target.port, 80);
	assert_int_equal(find_endpoint("edge-1", "default/web", "master", "10.244.0.9:8080"), 0);
	assert_string_equal(ways.list[0].node, ""); /* the hub dials it */
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		assert_int_equal(
			find_endpoint("edge-1", wrong[i].service, wrong[i].node, wrong[i].endpoint),
			wrong[i].status);
		assert_int_equal(ways.n, 0);
	}
	assert_int_equal(find_datagrams("default/log", "172.17.0.2:514"), 0);
	assert_string_equal(ways.list[0].node, "edge-1");
	assert_int_equal(ways.target.port, 514);
	assert_true(ways.udp);
	assert_int_equal(find_datagrams("default/web", "172.17.0.2:8080"), 404);
}

/* edgeway.io/nodes: what a node is not told of is no way for it. */
static void
only_what_the_asker_knows(void **state)
{
	(void)state;
	say("nodes",
		NODE("edge-1", "kind: till", IP("192.168.1.20"))
			NODE("edge-2", "", IP("10.1.0.2")));
	say("web",
		"---\napiVersion: v1\nkind: Service\nmetadata: {name: web, annotations: "
		"{edgeway.io/nodes: \"kind=till\"}}\nspec: {selector: {app: web}, ports: [{name: "
		"http, port: 80, targetPort: 8080}]}\n" RUNNING("w-2", "edge-2", "172.17.0.3"));
	assert_int_equal(find_endpoint("edge-1", "default/web", "edge-2", "172.17.0.3:8080"), 0);
	assert_int_equal(find_endpoint("edge-2", "default/web", "edge-2", "172.17.0.3:8080"), 404);
	assert_string_equal(ways.reason, "default/web is no service"); /* it is not to know */
	assert_int_equal(find_endpoint("nobody", "default/web", "edge-2", "172.17.0.3:8080"), 404);
}

/* --- services that are not for everybody ---------------------------------------------------- */

#define CALLER(ns, name, node, ip)                                                                 \
	"---\napiVersion: v1\nkind: Pod\nmetadata: {name: " name ", namespace: " ns                \
	"}\nspec: {nodeName: " node "}\nstatus: {phase: Running, podIP: " ip "}\n"

static unsigned
ask_endpoint(const char *node, bool enforces)
{
	struct caller caller = {0};
	struct routes_caller who;
	unsigned status;

	snprintf(caller.node, sizeof caller.node, "%s", node);
	routes_caller_of(&who, &caller, enforces);
	routes_for(finder, &who);
	status = find_endpoint(node, "default/web", "edge-2", "172.17.0.3:8080");
	routes_for(finder, NULL);
	return status;
}

static unsigned
ask_at_ingress(const char *address, const char *cert)
{
	struct caller caller = {0};
	struct routes_caller who;
	unsigned status;

	assert_int_equal(addr_parse(&caller.addr, address, 1, NULL), 0);
	snprintf(caller.cert, sizeof caller.cert, "%s", cert);
	routes_caller_of(&who, &caller, false);
	routes_for(finder, &who);
	status = routes_find(finder, "web.default", 80, &ways);
	routes_for(finder, NULL);
	return status;
}

/* The hub judges which node asks, and callers at its own door; which pod it is the node judges. */
static void
services_that_are_not_for_everybody(void **state)
{
	static const struct {
		const char *rule;
		unsigned one, two, from_ten, from_ops;
	} cases[] = {
		{"namespaces=shop", 0, 403, 403, 403},
		{"namespaces=ops", 403, 0, 403, 403},
		{"nodes=site=berlin", 0, 403, 403, 403},
		{"namespaces=*; nodes=site=berlin", 0, 403, 403, 403},
		{"addresses=10.0.0.0/8", 0, 0, 0, 403},
		{"callers=cert:ops", 403, 403, 403, 0},
		{"none", 403, 403, 403, 403},
	};

	(void)state;
	say("nodes",
		NODE("edge-1", "site: berlin", IP("192.168.1.20"))
			NODE("edge-2", "", IP("10.1.0.2")));
	say("callers",
		CALLER("shop", "a", "edge-1", "172.17.0.9")
			CALLER("ops", "b", "edge-2", "172.17.0.9"));
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		auto_free char *objects =
			xasprintf("---\napiVersion: v1\nkind: Service\nmetadata: {name: web, "
				  "annotations: {edgeway.io/allow-from: '%s'}}\nspec: {selector: "
				  "{app: web}, ports: "
				  "[{name: http, port: 80, targetPort: 8080}]}\n%s",
				cases[i].rule, RUNNING("w-2", "edge-2", "172.17.0.3"));

		say("web", objects);
		if (ask_endpoint("edge-1", true) != cases[i].one ||
			ask_endpoint("edge-2", true) != cases[i].two ||
			ask_at_ingress("10.9.9.9", "") != cases[i].from_ten ||
			ask_at_ingress("192.0.2.9", "ops") != cases[i].from_ops)
			fail_msg("%s", cases[i].rule);
		/* Its agent would let every pod through. */
		assert_int_equal(ask_endpoint("edge-1", false), 403);
		assert_int_equal(ask_endpoint("edge-2", false), 403);
	}
	assert_non_null(strstr(ways.reason, "upgrade it"));
	say("web",
		SERVICE("web",
			"selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}]")
			RUNNING("w-2", "edge-2", "172.17.0.3"));
	assert_int_equal(ask_endpoint("edge-1", false), 0);
	assert_int_equal(ask_at_ingress("192.0.2.9", ""), 0);
}

static void
policies_leave_out_endpoints(void **state)
{
	(void)state;
	say("callers",
		CALLER("shop", "a", "edge-1", "172.17.0.9")
			CALLER("ops", "b", "edge-2", "172.17.0.9"));
	say("web",
		SERVICE("web",
			"selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}]")
			RUNNING("w-2", "edge-2", "172.17.0.3")
				RUNNING("w-1", "edge-1", "172.17.0.4"));
	say("policies",
		"---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: "
		"p}\nspec: {podSelector: "
		"{matchLabels: {app: web}}, ingress: [{from: [{namespaceSelector: {matchLabels: "
		"{kubernetes.io/metadata.name: shop}}}]}]}\n");
	assert_int_equal(ask_endpoint("edge-1", true), 0);
	assert_int_equal(ask_endpoint("edge-2", true), 403);
	assert_int_equal(ask_at_ingress("10.9.9.9", ""), 403);
	say("policies",
		"---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: p}\n"
		"spec: {podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8}}]}]}\n");
	assert_int_equal(ask_at_ingress("10.9.9.9", ""), 0);
	assert_int_equal(ask_at_ingress("11.9.9.9", ""), 403);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

/* --- who may -------------------------------------------------------------------------------- */

/* What is left of the ways that were found for this caller: how many; 0: ways.reason says why. */
static size_t
judge(const char *address)
{
	struct caller caller;
	struct addr peer;
	unsigned status;

	assert_int_equal(addr_parse(&peer, address, 1, NULL), 0);
	caller_datagram(&caller, &peer, 0, guard);
	status = routes_judge(finder, &caller, &ways);
	assert_int_equal(status, ways.n > 0 ? 0 : 403);
	return ways.n;
}

static size_t
may(const char *address, const char *host, uint16_t port)
{
	assert_int_equal(routes_find(finder, host, port, &ways), 0);
	return judge(address);
}

#define HOST_POD(name, node, ip)                                                                   \
	"---\napiVersion: v1\nkind: Pod\nmetadata: {name: " name ", labels: {app: exporter}}\n"    \
	"spec: {nodeName: " node                                                                   \
	", hostNetwork: true, containers: [{name: c, ports: [{containerPort: 9200}]}]}\n"          \
	"status: {phase: Running, hostIP: " ip ", podIP: " ip ", podIPs: [{ip: " ip                \
	"}], conditions: [{type: Ready, status: 'True'}]}\n"

/* Of any name by which it is asked for. */
static void
the_hub_is_not_dialled(void **state)
{
	(void)state;
	assert_int_equal(may("127.0.0.1", "master", 10080), 1);
	hubs = ",10.0.0.1,";
	assert_int_equal(may("127.0.0.1", "master", 10080), 0);
	assert_non_null(strstr(ways.reason, "10.0.0.1:10080: this is a listener of the hub"));
	assert_int_equal(may("127.0.0.1", "10.0.0.1", 10080), 0);
	assert_int_equal(may("127.0.0.1", "::ffff:10.0.0.1", 22), 0);
	assert_int_equal(may("127.0.0.1", "::10.0.0.1", 22), 0);
	assert_int_equal(may("127.0.0.1", "64:ff9b::a00:1", 22), 0);
	assert_non_null(strstr(ways.reason, "only a rule to cloud/ADDRESS:PORT"));
	assert_int_equal(may("127.0.0.1", "::127.0.0.1", 22), 0);
	assert_int_equal(may("127.0.0.1", "master", 10250), 1); /* a rule names it by itself */
	assert_int_equal(may("127.0.0.1", "203.0.113.7", 443), 1);
	say("web",
		SERVICE("web", "ports: [{name: http, port: 80, targetPort: 10080}]")
			SLICE("web-1", "web", "{name: http, port: 10080}",
				AT("10.0.0.1", "master") ", {addresses: [10.0.0.1]}, {addresses: "
							 "[10.0.0.9]}"));
	assert_int_equal(may("192.0.2.7", "web.default", 80), 1);
	assert_string_equal(ways.list[0].authority, "10.0.0.9:10080");
	hubs = ",10.0.0.1,10.0.0.9,";
	assert_int_equal(may("192.0.2.7", "web.default", 80), 0);
}

/* Its host may be a node as others are. */
static void
no_listener_of_a_replica_is_dialled(void **state)
{
	(void)state;
	replicas = ",10.0.0.1,";
	assert_int_equal(may("127.0.0.1", "master", 10080), 0);
	assert_non_null(strstr(ways.reason, "a listener of the hub or of a replica"));
	assert_int_equal(may("127.0.0.1", "master", 22), 1);
	/* The same through a node that is one's host. */
	assert_int_equal(may("127.0.0.1", "edge-2", 10080), 0);
	assert_int_equal(may("127.0.0.1", "edge-2", 10081), 1);
}

/* The rule for a Service opens no port of a node itself. */
static void
an_endpointslice_is_no_right_to_a_node(void **state)
{
	(void)state;
	say("web",
		SERVICE("web",
			"ports: [{name: ssh, port: 22}, {name: metrics, port: 91, targetPort: "
			"9100}]")
			SLICE("web-1", "web", "{name: ssh, port: 22}, {name: metrics, port: 9100}",
				AT("10.1.0.2", "edge-2") ", " AT(
					"192.168.1.20", "edge-1") ", {addresses: [10.0.0.1]}"));
	assert_int_equal(may("192.0.2.7", "web.default", 22), 0);
	assert_non_null(strstr(ways.reason, "a port of a node itself"));
	assert_int_equal(may("192.0.2.7", "web.default", 91), 2); /* edge-1 and master have rules */
	for (size_t i = 0; i < ways.n; i++)
		assert_string_not_equal(ways.list[i].node, "edge-2");
	assert_int_equal(may("127.0.0.1", "web.default", 22), 3);
	say("web",
		SERVICE("web", "ports: [{name: ssh, port: 22}]") SLICE("web-1", "web",
			"{name: ssh, port: 22}",
			"{addresses: [10.1.0.2], nodeName: edge-2, targetRef: {kind: Pod, name: "
			"waiting}}") "---\napiVersion: v1\nkind: Pod\nmetadata: {name: "
				     "waiting}\nspec: "
				     "{nodeName: edge-2}\nstatus: {phase: Pending}\n");
	assert_int_equal(may("192.0.2.7", "web.default", 22), 0);
}

/* Nor does it open a pod of another namespace, through a node's tunnel or where the hub dials. */
static void
an_endpointslice_is_no_right_to_others_pods(void **state)
{
	(void)state;
	say("db",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: db, namespace: prod}\n"
		"spec: {nodeName: edge-1}\nstatus: {phase: Running, podIP: 10.244.1.5, podIPs: "
		"[{ip: 10.244.1.5}]}\n---\n"
		"apiVersion: v1\nkind: Pod\nmetadata: {name: far, namespace: prod}\n"
		"spec: {nodeName: master}\nstatus: {phase: Running, podIP: 10.244.0.5, podIPs: "
		"[{ip: 10.244.0.5}]}\n");
	say("web",
		SERVICE("web", "ports: [{name: http, port: 80}]")
			SLICE("web-1", "web", "{name: http, port: 80}",
				AT("10.244.1.5", "edge-1") ", {addresses: [10.244.0.5]}"));
	assert_int_equal(may("192.0.2.7", "web.default", 80), 0);
	assert_non_null(strstr(ways.reason, "a pod of another namespace"));
	assert_int_equal(may("127.0.0.1", "web.default", 80), 2); /* a rule opens all to it */
	say("web",
		SERVICE("web", "ports: [{name: http, port: 80}]")
			SLICE("web-1", "web", "{name: http, port: 80}",
				AT("10.244.1.6", "edge-1") ", {addresses: [10.244.0.6]}"));
	assert_int_equal(may("192.0.2.7", "web.default", 80), 2); /* nobody's that we know */
}

/* But a pod of the node's network does, at the ports that it declares. */
static void
a_pod_of_the_hosts_network_serves(void **state)
{
	(void)state;
	say("exporter",
		SERVICE("exporter",
			"ports: [{name: metrics, port: 80, targetPort: 9200}, {name: ssh, port: "
			"22}], selector: {app: exporter}") HOST_POD("exporter-2", "edge-2",
			"10.1.0.2") HOST_POD("exporter-m", "master", "10.0.0.1"));
	assert_int_equal(may("192.0.2.7", "exporter.default", 80), 2);
	assert_int_equal(may("192.0.2.7", "exporter.default", 22), 0);
	assert_non_null(strstr(ways.reason, "a port of a node itself"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(nodes),
		T(an_address_of_two_is_nobodys),
		T(services),
		T(ports_of_udp),
		T(calls_are_spread),
		T(addresses_of_the_cloud),
		T(loopback_is_never_dialled),
		T(yurts_destination),
		T(yurts_destination_may_be_a_pod),
		T(a_cluster_ip_is_the_services),
		T(nothing_is_dialled_before_the_edge_is_known),
		T(a_pods_address_is_what_the_pod_says),
		T(one_endpoint),
		T(only_what_the_asker_knows),
		T(the_hub_is_not_dialled),
		T(no_listener_of_a_replica_is_dialled),
		T(endpoints_of_two_families),
		T(an_endpointslice_is_no_right_to_a_node),
		T(an_endpointslice_is_no_right_to_others_pods),
		T(a_pod_of_the_hosts_network_serves),
		T(services_that_are_not_for_everybody),
		T(policies_leave_out_endpoints),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
