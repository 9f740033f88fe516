#include "tests/unit/hub/routing/routes_bed.h"

#include <stdio.h>
#include <string.h>

/* What names and addresses at the ingress lead to. */

static void
nodes(void **state)
{
	(void)state;
	assert_string_equal(bed_find("edge-1", 10250), "edge-1 edge-1:10250");
	assert_int_equal(bed_ways.target.kind, TARGET_NODE);
	assert_string_equal(bed_find("EDGE-1.", 10250), "edge-1 edge-1:10250");
	assert_string_equal(bed_find("edge-1.edge.example", 22), "edge-1 edge-1:22");
	assert_string_equal(bed_find("box-1", 22), "edge-1 edge-1:22");
	assert_string_equal(bed_find("10.1.0.2", 22), "edge-2 edge-2:22");
	assert_string_equal(bed_find("master", 22), " 10.0.0.1:22");
	assert_memory_equal(bed_find("nobody", 22), "404 nobody is neither", 21);
	assert_memory_equal(bed_find("nobody.edge.example", 22), "404 ", 4);
	assert_memory_equal(bed_find("edge-1", 0), "400 ", 4);
	/* It has joined, and its Node object is not there (manifests). */
	bed_edges = ",edge-9,";
	assert_string_equal(bed_find("edge-9", 22), "edge-9 edge-9:22");
}

static void
an_address_of_two_is_nobodys(void **state)
{
	(void)state;
	bed_find("192.168.1.20", 10250);
	assert_memory_equal(bed_find("192.168.1.20", 10250), "421 192.168.1.20 belongs to 2:", 30);
	assert_non_null(strstr(bed_ways.reason, "node edge-1"));
	assert_non_null(strstr(bed_ways.reason, "node edge-2"));
}

static void
services(void **state)
{
	(void)state;
	bed_say("web",
		SERVICE("web",
			"clusterIP: 10.96.0.7, ports: [{name: http, port: 80, targetPort: 8080}]")
			SLICE("web-1", "web", PORTS,
				AT("172.17.0.2", "edge-1") ", " AT("172.17.0.2", "edge-2") ", " AT(
					"10.244.0.9", "master")));
	for (int i = 0; i < 3; i++) {
		const char *text = bed_find("web.default", 80);

		assert_non_null(strstr(text, "edge-1 172.17.0.2:8080"));
		assert_non_null(strstr(text, "edge-2 172.17.0.2:8080"));
		assert_non_null(strstr(text, " 10.244.0.9:8080"));
	}
	assert_string_equal(bed_ways.service, "default/web");
	assert_int_equal(bed_ways.target.kind, TARGET_SERVICE);
	assert_int_equal(routes_find(bed_finder, "web.default.svc", 80, &bed_ways), 0);
	assert_int_equal(
		routes_find(bed_finder, "Web.Default.svc.Cluster.Local", 80, &bed_ways), 0);
	assert_int_equal(routes_find(bed_finder, "10.96.0.7", 80, &bed_ways), 0);
	assert_int_equal(bed_ways.target.kind, TARGET_SERVICE);
	assert_memory_equal(
		bed_find("web.default", 81), "404 the service default/web has no TCP port 81", 40);
	assert_memory_equal(bed_find("web.shop", 80), "404 ", 4);
	/* Those with a tunnel come first. */
	bed_tunnels = ",edge-2,";
	for (int i = 0; i < 3; i++)
		assert_non_null(strstr(bed_find("web.default", 80), ", edge-1 "));
	bed_say("web", SERVICE("web", "ports: [{name: http, port: 80, targetPort: 8080}]"));
	assert_memory_equal(bed_find("web.default", 80), "503 ", 4);
}

#define AT_WITH(ip, node, conditions)                                                              \
	"{addresses: [" ip "], nodeName: " node ", conditions: {" conditions "}}"
#define READY AT_WITH("172.17.0.2", "edge-1", "ready: true")
#define LEAVING AT_WITH("172.17.0.3", "edge-1", "ready: false, serving: true, terminating: true")
#define BROKEN AT_WITH("172.17.0.4", "edge-1", "ready: false, serving: false")

/* Those that leave only while no other one is ready; the others never. */
static void
endpoints_that_are_ready(void **state)
{
	static const char *const slices[][2] = {
		{SLICE("web-1", "web", PORTS, BROKEN ", " LEAVING ", " READY),
			"edge-1 172.17.0.2:8080"},
		{SLICE("web-1", "web", PORTS, BROKEN ", " LEAVING), "edge-1 172.17.0.3:8080"},
		{SLICE("web-1", "web", PORTS, BROKEN),
			"503 the service default/web has no endpoint at port 80"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(slices); i++) {
		auto_free char *yaml = xasprintf("%s%s",
			SERVICE("web", "ports: [{name: http, port: 80, targetPort: 8080}]"),
			slices[i][0]);

		bed_say("web", yaml);
		for (int k = 0; k < 3; k++)
			assert_memory_equal(
				bed_find("web.default", 80), slices[i][1], strlen(slices[i][1]));
	}
}

/* In any case, with a final dot, and with the domain behind a dot alone. */
static void
names_as_they_are_written(void **state)
{
	static const char *const good[] = {"ZA.Default", "za.default.", "za.default.svc",
		"za.default.SVC.", "za.default.svc.CLUSTER.local."},
				 *const bad[] = {"za.default-svc", "za.defaultsvc",
					 "za.default.svc.cluster.locale",
					 "za.default.svc-cluster.local", "edge-1-edge.example",
					 ".edge.example", ".svc", "za..svc", "edge.example"};

	(void)state;
	bed_say("za",
		SERVICE("za", "ports: [{name: http, port: 80, targetPort: 8080}]")
			SLICE("za-1", "za", PORTS, AT("172.17.0.2", "edge-1")));
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		assert_string_equal(bed_find(good[i], 80), "edge-1 172.17.0.2:8080");
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_memory_equal(bed_find(bad[i], 80), "404 ", 4);
}

/* The hub dials both addresses of an endpoint that it dials itself, one after the other; a node
 * gets the first one. */
static void
endpoints_of_two_families(void **state)
{
	(void)state;
	bed_say("web",
		SERVICE("web",
			"ipFamilies: [IPv6, IPv4], ports: [{name: http, port: 80, targetPort: "
			"8080}], selector: {app: web}")
			RUNNING_AT("a", "master", "10.244.0.9", ", {ip: fd01::9}"));
	assert_string_equal(bed_find("web.default", 80), " [fd01::9]:8080,  10.244.0.9:8080");
	bed_say("web",
		SERVICE("web",
			"ipFamilies: [IPv6, IPv4], ports: [{name: http, port: 80, targetPort: "
			"8080}], selector: {app: web}")
			RUNNING_AT("a", "edge-1", "172.17.0.2", ", {ip: fd01::9}"));
	assert_string_equal(bed_find("web.default", 80), "edge-1 [fd01::9]:8080");
}

/* The same number may be a port of both. */
static void
ports_of_udp(void **state)
{
	(void)state;
	bed_say("dns",
		SERVICE("dns",
			"ports: [{name: t, port: 53, targetPort: 5300}, "
			"{name: u, port: 53, targetPort: 5301, protocol: UDP}]") SLICE("dns-1",
			"dns", "{name: t, port: 5300}, {name: u, port: 5301, protocol: UDP}",
			AT("172.17.0.2", "edge-1")));
	assert_string_equal(bed_find("dns.default", 53), "edge-1 172.17.0.2:5300");
	assert_string_equal(
		bed_find_as(&(struct routes_wish){"dns.default", 53, ROUTES_SERVICES, true}),
		"edge-1 172.17.0.2:5301");
	assert_string_equal(bed_find_as(&(struct routes_wish){"dns.default", 54, ROUTES_ANY, true}),
		"404 the service default/dns has no UDP port 54");
	assert_string_equal(bed_find_as(&(struct routes_wish){"edge-1", 53, ROUTES_NODES, true}),
		"edge-1 edge-1:53");
}

/* Names of nodes may have dots. Who has the certificate of such a name must not get the calls of
 * the Service, in none of its forms. */
static void
a_service_comes_before_a_node(void **state)
{
	static const char *const names[] = {"web.default", "web.default.svc",
		"web.default.svc.cluster.local", "web.edge.example"};

	(void)state;
	bed_edges = bed_tunnels =
		",edge-1,web,web.default,web.default.svc,web.default.svc.cluster.local,";
	for (size_t i = 0; i < ARRAY_LEN(names) - 1; i++) {
		struct routes_wish wish = {.host = names[i], .port = 80, .names = ROUTES_SERVICES};
		auto_free char *node = xasprintf("%s %s:80", names[i], names[i]);

		bed_say("web", "");
		bed_services_known = false; /* the Service may be there all the same */
		assert_memory_equal(bed_find(names[i], 80), "503 the hub has not read its", 28);
		bed_services_known = true;
		assert_string_equal(bed_find(names[i], 80), node);
		assert_memory_equal(bed_find_as(&wish), "404 there is no Service ", 24);
		bed_say("web",
			SERVICE("web", "ports: [{name: http, port: 80, targetPort: 8080}]")
				SLICE("web-1", "web", PORTS, AT("172.17.0.2", "edge-1")));
		assert_string_equal(bed_find(names[i], 80), "edge-1 172.17.0.2:8080");
		assert_string_equal(bed_find_as(&wish), "edge-1 172.17.0.2:8080");
		wish.names = ROUTES_NODES;
		assert_string_equal(bed_find_as(&wish), node);
		assert_string_equal(routes_service(bed_finder, names[i]), "default/web");
	}
	assert_string_equal(bed_find("web.default.edge.example", 80), "web.default web.default:80");
	assert_string_equal(bed_find(names[3], 80), "web web:80");
	assert_int_equal(routes_find_at(bed_finder, "web.default", "127.0.0.1:80", &bed_ways), 0);
	assert_string_equal(bed_ways.list[0].node, "web.default");
	assert_null(routes_service(bed_finder, "web.shop"));
	/* Addresses. */
	assert_memory_equal(
		bed_find_as(&(struct routes_wish){"10.0.0.1", 22, ROUTES_SERVICES, false}),
		"404 there is no Service ", 24);
	assert_string_equal(bed_find_as(&(struct routes_wish){"10.0.0.1", 22, ROUTES_NODES, false}),
		" 10.0.0.1:22");
}

static void
calls_are_spread(void **state)
{
	unsigned first[2] = {0};

	(void)state;
	bed_say("web",
		SERVICE("web", "ports: [{name: http, port: 80, targetPort: 8080}]") SLICE("web-1",
			"web", PORTS, AT("172.17.0.2", "edge-1") ", " AT("172.17.0.3", "edge-2")));
	for (int i = 0; i < 100; i++) {
		assert_int_equal(routes_find(bed_finder, "web.default", 80, &bed_ways), 0);
		first[bed_ways.list[0].node[5] - '1']++;
	}
	assert_int_equal(first[0], 50);
	assert_int_equal(first[1], 50);
}

static void
addresses_of_the_cloud(void **state)
{
	(void)state;
	assert_string_equal(bed_find("203.0.113.7", 443), " 203.0.113.7:443");
	assert_int_equal(bed_ways.target.kind, TARGET_CLOUD);
	assert_string_equal(bed_find("2001:db8::7", 443), " [2001:db8::7]:443");
	assert_memory_equal(bed_find("127.0.0.1", 22), "403 ", 4);
	assert_memory_equal(bed_find("::1", 22), "403 ", 4);
}

/* What listens on the hub's loopback is nobody's, whatever objects say of themselves. */
static void
loopback_is_never_dialled(void **state)
{
	(void)state;
	bed_say("liars",
		NODE("liar", "", IP("127.0.0.1")) NODE("liar6", "", IP("'::1'"))
			RUNNING("lie", "master", "127.0.0.2"));
	assert_memory_equal(bed_find("liar", 40001), "403 127.0.0.1:40001 is the hub itself", 37);
	assert_memory_equal(bed_find("liar6", 40001), "403 [::1]:40001 is the hub itself", 33);
	assert_memory_equal(bed_find("127.0.0.1", 40001), "403 ", 4);
	assert_memory_equal(bed_find("127.0.0.2", 40001), "403 ", 4);
	/* At a node at the edge it is the node's own affair. */
	bed_edges = bed_tunnels = ",edge-1,edge-2,liar,";
	assert_string_equal(bed_find("liar", 40001), "liar liar:40001");
}

static void
yurts_destination(void **state)
{
	(void)state;
	assert_int_equal(routes_find_at(bed_finder, "edge-1", "127.0.0.1:10255", &bed_ways), 0);
	assert_string_equal(bed_ways.list[0].authority, "127.0.0.1:10255");
	assert_string_equal(bed_ways.list[0].node, "edge-1");
	assert_int_equal(bed_ways.target.port, 10255);
	assert_int_equal(routes_find_at(bed_finder, "edge-1", "10255", &bed_ways), 400);
	assert_int_equal(routes_find_at(bed_finder, "nobody", "127.0.0.1:10255", &bed_ways), 404);
	assert_int_equal(routes_find_at(bed_finder, "master", "127.0.0.1:10255", &bed_ways), 503);
}

/* A right to the node is none to its pods; other nodes have pods with the same address. */
static void
yurts_destination_may_be_a_pod(void **state)
{
	(void)state;
	bed_say("pods",
		RUNNING("w-1", "edge-1", "172.17.0.5") RUNNING("w-2", "edge-2", "172.17.0.6"));
	for (int mapped = 0; mapped < 2; mapped++) {
		assert_int_equal(
			routes_find_at(bed_finder, "edge-1",
				mapped ? "[::ffff:172.17.0.5]:8080" : "172.17.0.5:8080", &bed_ways),
			0);
		assert_int_equal(bed_ways.target.kind, TARGET_POD);
		assert_string_equal(bed_ways.target.ns, "default");
		assert_string_equal(bed_ways.target.name, "w-1");
		assert_int_equal(bed_ways.target.port, 8080);
		assert_string_equal(bed_ways.list[0].node, "edge-1");
	}
	assert_int_equal(routes_find_at(bed_finder, "edge-1", "172.17.0.6:8080", &bed_ways), 0);
	assert_int_equal(bed_ways.target.kind, TARGET_NODE);
}

/* Nobody takes a service's callers by saying that its ClusterIP is an address of one's own. */
static void
a_cluster_ip_is_the_services(void **state)
{
	(void)state;
	bed_say("web",
		SERVICE("web", "clusterIP: 10.96.0.7, ports: [{name: http, port: 80}]")
			NODE("liar", "", IP("10.96.0.7")) RUNNING("w-1", "edge-1", "10.96.0.7"));
	assert_memory_equal(bed_find("10.96.0.7", 80), "503 the service default/web", 27);
	bed_say("web", NODE("liar", "", IP("10.96.0.7")));
	assert_string_equal(bed_find("10.96.0.7", 80), " 10.96.0.7:80");
	assert_int_equal(bed_ways.target.kind, TARGET_NODE);
}

/* An address of the edge may be anybody's in the hub's own network. */
static void
nothing_is_dialled_before_the_edge_is_known(void **state)
{
	(void)state;
	bed_say("web",
		SERVICE("web", "ports: [{name: http, port: 80, targetPort: 8080}]")
			SLICE("web-1", "web", PORTS, AT("10.244.0.9", "master")));
	assert_string_equal(bed_find("web.default", 80), " 10.244.0.9:8080");
	bed_known = false;
	bed_edges = "";
	assert_memory_equal(bed_find("edge-2", 22), "503 the hub's authority", 23);
	assert_memory_equal(bed_find("10.1.0.2", 22), "503 the hub's authority", 23);
	assert_memory_equal(bed_find("web.default", 80), "503 the hub's authority", 23);
	assert_string_equal(bed_find("203.0.113.7", 443), " 203.0.113.7:443");
}

/* Before that, an address may be anybody's: of a node elsewhere, or of a pod, which takes a rule of
 * its own. */
static void
no_address_is_free_before_the_objects_are_read(void **state)
{
	static const char unread[] = "503 the hub has not read its objects";
	struct routes_wish wish = {"203.0.113.7", 443, ROUTES_NODES, false};

	(void)state;
	bed_services_known = false;
	assert_memory_equal(bed_find("203.0.113.7", 443), unread, sizeof unread - 1);
	assert_memory_equal(bed_find_as(&wish), unread, sizeof unread - 1);
	wish.names = ROUTES_SERVICES;
	assert_memory_equal(bed_find_as(&wish), unread, sizeof unread - 1);
	/* The Service that has it may be still to come. */
	assert_memory_equal(bed_find("10.1.0.2", 22), unread, sizeof unread - 1);
	/* A rule names it. */
	assert_memory_equal(bed_find("10.0.0.1", 10251), unread, sizeof unread - 1);
	bed_say("nodes", NODE("edge-1", "", IP("192.168.1.20")));
	assert_string_equal(bed_find("10.0.0.1", 10250), " 10.0.0.1:10250");
	assert_memory_equal(bed_find("127.0.0.1", 22), "403 ", 4);
	bed_say("web",
		SERVICE("web",
			"clusterIP: 10.96.0.7, ports: [{name: http, port: 80, targetPort: 8080}]")
			SLICE("web-1", "web", PORTS, AT("172.17.0.2", "edge-1")));
	assert_string_equal(bed_find("10.96.0.7", 80), "edge-1 172.17.0.2:8080");
	/* As a node sees it. */
	assert_int_equal(routes_find_at(bed_finder, "edge-1", "172.17.0.5:8080", &bed_ways), 503);
	assert_memory_equal(bed_ways.reason, unread + 4, sizeof unread - 5);
	assert_int_equal(routes_find_at(bed_finder, "edge-1", "127.0.0.1:10255", &bed_ways), 0);
	assert_int_equal(routes_find_at(bed_finder, "edge-1", "[::1]:10255", &bed_ways), 0);
	bed_say("pods", RUNNING("w-1", "edge-1", "172.17.0.5"));
	assert_int_equal(routes_find_at(bed_finder, "edge-1", "172.17.0.5:8080", &bed_ways), 0);
	assert_int_equal(bed_ways.target.kind, TARGET_POD);
	bed_services_known = true;
	assert_string_equal(bed_find("203.0.113.7", 443), " 203.0.113.7:443");
}

/* An EndpointSlice may name a pod that has no address, and say one for it. */
static void
a_pods_address_is_what_the_pod_says(void **state)
{
	(void)state;
	bed_say("web",
		SERVICE("web", "ports: [{name: http, port: 80, targetPort: 8080}]") SLICE("web-1",
			"web", PORTS,
			"{addresses: [10.0.0.99], targetRef: {kind: Pod, name: waiting}}, "
			"{addresses: [10.0.0.98], nodeName: master, targetRef: {kind: Pod, name: "
			"there}}") "---\napiVersion: v1\nkind: Pod\nmetadata: {name: "
				   "waiting}\nstatus: "
				   "{phase: Pending}\n"
				   "---\napiVersion: v1\nkind: Pod\nmetadata: {name: there}\nspec: "
				   "{nodeName: master}\nstatus: {phase: Pending}\n");
	assert_int_equal(bed_find_endpoint("edge-1", "default/web", "", "10.0.0.99:8080"), 404);
	assert_non_null(strstr(bed_ways.reason, "has no address"));
	assert_int_equal(
		bed_find_endpoint("edge-1", "default/web", "master", "10.0.0.98:8080"), 404);
	assert_non_null(strstr(bed_ways.reason, "has no address"));
}

static unsigned
find_datagrams(const char *service, const char *at)
{
	const struct routes_endpoint wanted = {"edge-1", service, "edge-1", at, true};

	return routes_find_endpoint(bed_finder, &wanted, &bed_ways);
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
	bed_say("web",
		SERVICE("web",
			"selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}]")
			SERVICE("log",
				"selector: {app: web}, ports: [{name: log, port: 514, protocol: "
				"UDP}]") RUNNING("w-1", "edge-1", "172.17.0.2") RUNNING("w-2",
				"edge-2", "172.17.0.3") RUNNING("w-3", "master", "10.244.0.9")
				RUNNING("w-6", "edge-2", "'2001:DB8::6'"));
	assert_int_equal(
		bed_find_endpoint("edge-1", "default/web", "edge-2", "[2001:db8::6]:8080"), 0);
	assert_string_equal(bed_ways.list[0].node, "edge-2");
	assert_string_equal(bed_ways.list[0].authority, "[2001:DB8::6]:8080");
	assert_int_equal(
		bed_find_endpoint("edge-1", "default/web", "edge-2", "172.17.0.3:8080"), 0);
	assert_int_equal(bed_ways.n, 1);
	assert_string_equal(bed_ways.list[0].node, "edge-2");
	assert_string_equal(bed_ways.list[0].authority, "172.17.0.3:8080");
	assert_string_equal(bed_ways.service, "default/web");
	assert_int_equal(bed_ways.target.kind, TARGET_SERVICE);
	assert_int_equal(bed_ways.target.port, 80);
	assert_int_equal(
		bed_find_endpoint("edge-1", "default/web", "master", "10.244.0.9:8080"), 0);
	assert_string_equal(bed_ways.list[0].node, ""); /* the hub dials it */
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		assert_int_equal(bed_find_endpoint("edge-1", wrong[i].service, wrong[i].node,
					 wrong[i].endpoint),
			wrong[i].status);
		assert_int_equal(bed_ways.n, 0);
	}
	assert_int_equal(find_datagrams("default/log", "172.17.0.2:514"), 0);
	assert_string_equal(bed_ways.list[0].node, "edge-1");
	assert_int_equal(bed_ways.target.port, 514);
	assert_true(bed_ways.udp);
	assert_int_equal(find_datagrams("default/web", "172.17.0.2:8080"), 404);
}

/* edgeway.io/nodes: what a node is not told of is no way for it. */
static void
only_what_the_asker_knows(void **state)
{
	(void)state;
	bed_say("nodes",
		NODE("edge-1", "kind: till", IP("192.168.1.20"))
			NODE("edge-2", "", IP("10.1.0.2")));
	bed_say("web",
		"---\napiVersion: v1\nkind: Service\nmetadata: {name: web, annotations: "
		"{edgeway.io/nodes: \"kind=till\"}}\nspec: {selector: {app: web}, ports: [{name: "
		"http, port: 80, targetPort: 8080}]}\n" RUNNING("w-2", "edge-2", "172.17.0.3"));
	assert_int_equal(
		bed_find_endpoint("edge-1", "default/web", "edge-2", "172.17.0.3:8080"), 0);
	assert_int_equal(
		bed_find_endpoint("edge-2", "default/web", "edge-2", "172.17.0.3:8080"), 404);
	assert_string_equal(bed_ways.reason, "default/web is no service"); /* it is not to know */
	assert_int_equal(
		bed_find_endpoint("nobody", "default/web", "edge-2", "172.17.0.3:8080"), 404);
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
	routes_for(bed_finder, &who);
	status = bed_find_endpoint(node, "default/web", "edge-2", "172.17.0.3:8080");
	routes_for(bed_finder, NULL);
	return status;
}

static unsigned
ask_as(const struct caller *caller)
{
	struct routes_caller who;
	unsigned status;

	routes_caller_of(&who, caller, false);
	routes_for(bed_finder, &who);
	status = routes_find(bed_finder, "web.default", 80, &bed_ways);
	routes_for(bed_finder, NULL);
	return status;
}

static unsigned
ask_at_ingress(const char *address, const char *cert)
{
	struct caller caller = {0};

	assert_int_equal(addr_parse(&caller.addr, address, 1, NULL), 0);
	snprintf(caller.cert, sizeof caller.cert, "%s", cert);
	return ask_as(&caller);
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
	bed_say("nodes",
		NODE("edge-1", "site: berlin", IP("192.168.1.20"))
			NODE("edge-2", "", IP("10.1.0.2")));
	bed_say("callers",
		CALLER("shop", "a", "edge-1", "172.17.0.9")
			CALLER("ops", "b", "edge-2", "172.17.0.9"));
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		auto_free char *objects =
			xasprintf("---\napiVersion: v1\nkind: Service\nmetadata: {name: web, "
				  "annotations: {edgeway.io/allow-from: '%s'}}\nspec: {selector: "
				  "{app: web}, ports: "
				  "[{name: http, port: 80, targetPort: 8080}]}\n%s",
				cases[i].rule, RUNNING("w-2", "edge-2", "172.17.0.3"));

		bed_say("web", objects);
		if (ask_endpoint("edge-1", true) != cases[i].one ||
			ask_endpoint("edge-2", true) != cases[i].two ||
			ask_at_ingress("10.9.9.9", "") != cases[i].from_ten ||
			ask_at_ingress("192.0.2.9", "ops") != cases[i].from_ops)
			fail_msg("%s", cases[i].rule);
		/* Its agent would let every pod through. */
		assert_int_equal(ask_endpoint("edge-1", false), 403);
		assert_int_equal(ask_endpoint("edge-2", false), 403);
	}
	assert_non_null(strstr(bed_ways.reason, "upgrade it"));
	bed_say("web",
		SERVICE("web",
			"selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}]")
			RUNNING("w-2", "edge-2", "172.17.0.3"));
	assert_int_equal(ask_endpoint("edge-1", false), 0);
	assert_int_equal(ask_at_ingress("192.0.2.9", ""), 0);
}

static void
callers_at_the_ingress_by_name(void **state)
{
	static const struct caller by_token = {.token = "ops"}, by_cert = {.cert = "ops"},
				   here = {.local = true},
				   by_socket = {.addr.sa.sa_family = AF_UNIX}, nobody = {0};
	static const struct {
		const char *rule;
		unsigned token, cert, local;
	} cases[] = {
		{"callers=token:ops", 0, 403, 403},
		{"callers=cert:ops", 403, 0, 403},
		{"callers=local", 403, 403, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_free char *objects = xasprintf(
			"---\napiVersion: v1\nkind: Service\nmetadata: {name: web, "
			"annotations: {edgeway.io/allow-from: '%s'}}\nspec: {selector: "
			"{app: web}, ports: [{name: http, port: 80, targetPort: 8080}]}\n%s",
			cases[i].rule, RUNNING("w-2", "edge-2", "172.17.0.3"));

		bed_say("web", objects);
		assert_int_equal(ask_as(&by_token), cases[i].token);
		assert_int_equal(ask_as(&by_cert), cases[i].cert);
		assert_int_equal(ask_as(&here), cases[i].local);
		assert_int_equal(ask_as(&by_socket), cases[i].local);
		assert_int_equal(ask_as(&nobody), 403);
	}
}

static void
policies_leave_out_endpoints(void **state)
{
	(void)state;
	bed_say("callers",
		CALLER("shop", "a", "edge-1", "172.17.0.9")
			CALLER("ops", "b", "edge-2", "172.17.0.9"));
	bed_say("web",
		SERVICE("web",
			"selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}]")
			RUNNING("w-2", "edge-2", "172.17.0.3")
				RUNNING("w-1", "edge-1", "172.17.0.4"));
	bed_say("policies",
		"---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: "
		"p}\nspec: {podSelector: "
		"{matchLabels: {app: web}}, ingress: [{from: [{namespaceSelector: {matchLabels: "
		"{kubernetes.io/metadata.name: shop}}}]}]}\n");
	assert_int_equal(ask_endpoint("edge-1", true), 0);
	assert_int_equal(ask_endpoint("edge-2", true), 403);
	assert_int_equal(ask_at_ingress("10.9.9.9", ""), 403);
	bed_say("policies",
		"---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: p}\n"
		"spec: {podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8}}]}]}\n");
	assert_int_equal(ask_at_ingress("10.9.9.9", ""), 0);
	assert_int_equal(ask_at_ingress("11.9.9.9", ""), 403);
}

#define T(f) cmocka_unit_test_setup_teardown(f, bed_setup, bed_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(nodes),
		T(an_address_of_two_is_nobodys),
		T(services),
		T(ports_of_udp),
		T(a_service_comes_before_a_node),
		T(calls_are_spread),
		T(addresses_of_the_cloud),
		T(loopback_is_never_dialled),
		T(yurts_destination),
		T(yurts_destination_may_be_a_pod),
		T(a_cluster_ip_is_the_services),
		T(nothing_is_dialled_before_the_edge_is_known),
		T(no_address_is_free_before_the_objects_are_read),
		T(a_pods_address_is_what_the_pod_says),
		T(one_endpoint),
		T(only_what_the_asker_knows),
		T(endpoints_that_are_ready),
		T(names_as_they_are_written),
		T(endpoints_of_two_families),
		T(services_that_are_not_for_everybody),
		T(callers_at_the_ingress_by_name),
		T(policies_leave_out_endpoints),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
