#include "tests/unit/hub/routing/routes_bed.h"

#include <string.h>

/* Which of the routes that were found a caller may use. */

/* What is left of the ways that were found for this caller: how many; 0: ways.reason says why. */
static size_t
judge(const char *address)
{
	struct caller caller;
	struct addr peer;
	unsigned status;

	assert_int_equal(addr_parse(&peer, address, 1, NULL), 0);
	caller_datagram(&caller, &peer, 0, bed_guard);
	status = routes_judge(bed_finder, &caller, &bed_ways);
	assert_int_equal(status, bed_ways.n > 0 ? 0 : 403);
	return bed_ways.n;
}

static size_t
may(const char *address, const char *host, uint16_t port)
{
	assert_int_equal(routes_find(bed_finder, host, port, &bed_ways), 0);
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
	bed_hubs = ",10.0.0.1,";
	assert_int_equal(may("127.0.0.1", "master", 10080), 0);
	assert_non_null(strstr(bed_ways.reason, "10.0.0.1:10080: this is a listener of the hub"));
	assert_int_equal(may("127.0.0.1", "10.0.0.1", 10080), 0);
	assert_int_equal(may("127.0.0.1", "::ffff:10.0.0.1", 22), 0);
	assert_int_equal(may("127.0.0.1", "::10.0.0.1", 22), 0);
	assert_int_equal(may("127.0.0.1", "64:ff9b::a00:1", 22), 0);
	assert_non_null(strstr(bed_ways.reason, "only a rule to cloud/ADDRESS:PORT"));
	assert_int_equal(may("127.0.0.1", "::127.0.0.1", 22), 0);
	assert_int_equal(may("127.0.0.1", "master", 10250), 1); /* a rule names it by itself */
	assert_int_equal(may("127.0.0.1", "203.0.113.7", 443), 1);
	bed_say("web",
		SERVICE("web", "ports: [{name: http, port: 80, targetPort: 10080}]")
			SLICE("web-1", "web", "{name: http, port: 10080}",
				AT("10.0.0.1", "master") ", {addresses: [10.0.0.1]}, {addresses: "
							 "[10.0.0.9]}"));
	assert_int_equal(may("192.0.2.7", "web.default", 80), 1);
	assert_string_equal(bed_ways.list[0].authority, "10.0.0.9:10080");
	bed_hubs = ",10.0.0.1,10.0.0.9,";
	assert_int_equal(may("192.0.2.7", "web.default", 80), 0);
}

/* Its host may be a node as others are. */
static void
no_listener_of_a_replica_is_dialled(void **state)
{
	(void)state;
	bed_replicas = ",10.0.0.1,";
	assert_int_equal(may("127.0.0.1", "master", 10080), 0);
	assert_non_null(strstr(bed_ways.reason, "a listener of the hub or of a replica"));
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
	bed_say("web",
		SERVICE("web",
			"ports: [{name: ssh, port: 22}, {name: metrics, port: 91, targetPort: "
			"9100}]")
			SLICE("web-1", "web", "{name: ssh, port: 22}, {name: metrics, port: 9100}",
				AT("10.1.0.2", "edge-2") ", " AT(
					"192.168.1.20", "edge-1") ", {addresses: [10.0.0.1]}"));
	assert_int_equal(may("192.0.2.7", "web.default", 22), 0);
	assert_non_null(strstr(bed_ways.reason, "a port of a node itself"));
	assert_int_equal(may("192.0.2.7", "web.default", 91), 2); /* edge-1 and master have rules */
	for (size_t i = 0; i < bed_ways.n; i++)
		assert_string_not_equal(bed_ways.list[i].node, "edge-2");
	assert_int_equal(may("127.0.0.1", "web.default", 22), 3);
	bed_say("web",
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
	bed_say("db",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: db, namespace: prod}\n"
		"spec: {nodeName: edge-1}\nstatus: {phase: Running, podIP: 10.244.1.5, podIPs: "
		"[{ip: 10.244.1.5}]}\n---\n"
		"apiVersion: v1\nkind: Pod\nmetadata: {name: far, namespace: prod}\n"
		"spec: {nodeName: master}\nstatus: {phase: Running, podIP: 10.244.0.5, podIPs: "
		"[{ip: 10.244.0.5}]}\n");
	bed_say("web",
		SERVICE("web", "ports: [{name: http, port: 80}]")
			SLICE("web-1", "web", "{name: http, port: 80}",
				AT("10.244.1.5", "edge-1") ", {addresses: [10.244.0.5]}"));
	assert_int_equal(may("192.0.2.7", "web.default", 80), 0);
	assert_non_null(strstr(bed_ways.reason, "a pod of another namespace"));
	assert_int_equal(may("127.0.0.1", "web.default", 80), 2); /* a rule opens all to it */
	bed_say("web",
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
	bed_say("exporter",
		SERVICE("exporter",
			"ports: [{name: metrics, port: 80, targetPort: 9200}, {name: ssh, port: "
			"22}], selector: {app: exporter}") HOST_POD("exporter-2", "edge-2",
			"10.1.0.2") HOST_POD("exporter-m", "master", "10.0.0.1"));
	assert_int_equal(may("192.0.2.7", "exporter.default", 80), 2);
	assert_int_equal(may("192.0.2.7", "exporter.default", 22), 0);
	assert_non_null(strstr(bed_ways.reason, "a port of a node itself"));
}

/* --- a node as the caller ------------------------------------------------------------------- */

/* As judge(), of the service default/NAME, all of whose endpoints are meant. */
static size_t
node_may(const char *node, const char *host, uint16_t port)
{
	struct caller caller;
	struct routes_caller who;
	unsigned status;

	caller_node(&caller, node);
	routes_caller_of(&who, &caller, true);
	routes_for(bed_finder, &who);
	assert_int_equal(routes_find(bed_finder, host, port, &bed_ways), 0);
	status = routes_judge(bed_finder, &caller, &bed_ways);
	routes_for(bed_finder, NULL);
	assert_int_equal(status, bed_ways.n > 0 ? 0 : 403);
	return bed_ways.n;
}

/* Reserved ones here; a cloud's metadata and loopback no EndpointSlice may have. At a node it is
 * the node's own affair. */
static void
special_addresses_are_dialled_for_no_node(void **state)
{
	(void)state;
	bed_say("web",
		SERVICE("web", "ports: [{name: http, port: 80}]")
			SLICE("web-1", "web", "{name: http, port: 80}",
				"{addresses: [240.0.0.1]}, " AT("240.0.0.2", "edge-2")));
	assert_int_equal(node_may("edge-1", "web.default", 80), 1);
	assert_string_equal(bed_ways.list[0].node, "edge-2");
	assert_int_equal(may("192.0.2.7", "web.default", 80), 2);
	bed_say("web",
		SERVICE("web", "ports: [{name: http, port: 80}]")
			SLICE("web-1", "web", "{name: http, port: 80}",
				"{addresses: [240.0.0.1]}, {addresses: [10.0.0.9]}"));
	assert_int_equal(node_may("edge-1", "web.default", 80), 1);
	assert_string_equal(bed_ways.list[0].authority, "10.0.0.9:80");
}

static void
endpoints_without_a_pod_take_a_rule_of_their_own(void **state)
{
	(void)state;
	bed_say("db",
		SERVICE("db", "ports: [{name: sql, port: 5432}]")
			SLICE("db-1", "db", "{name: sql, port: 5432}", "{addresses: [10.0.0.9]}"));
	assert_int_equal(node_may("edge-1", "db.default", 5432), 1);
	assert_int_equal(bed_ways.target.kind, TARGET_CLOUD_SERVICE);
	assert_int_equal(node_may("edge-2", "db.default", 5432), 0);
	assert_string_equal(bed_ways.reason,
		"no rule of access gives a node endpoints of default/db that no Pod stands for: "
		"{from: 'node:edge-2', to: ['cloud/default/db:5432']}");
	assert_int_equal(may("192.0.2.7", "db.default", 5432), 1); /* no node */
	assert_int_equal(may("192.0.2.8", "db.default", 5432), 0);
	assert_string_equal(bed_ways.reason, "no rule of access opens this target to this caller");
	bed_say("web",
		SERVICE("web", "selector: {app: web}, ports: [{name: http, port: 80}]")
			RUNNING("w-1", "master", "10.244.0.9"));
	assert_int_equal(node_may("edge-2", "web.default", 80), 1);
	assert_int_equal(bed_ways.target.kind, TARGET_SERVICE);
}

/* Which it would need a rule for by itself; the API server's own endpoints are such ports. */
static void
a_node_gets_no_port_of_another_node(void **state)
{
	(void)state;
	bed_say("db",
		SERVICE("db", "ports: [{name: sql, port: 5432}]")
			SLICE("db-1", "db", "{name: sql, port: 5432}", "{addresses: [10.0.0.1]}"));
	assert_int_equal(node_may("edge-1", "db.default", 5432), 0);
	assert_non_null(strstr(bed_ways.reason, "a port of a node itself"));
	bed_say("db",
		SERVICE("kubernetes", "ports: [{name: https, port: 443, targetPort: 6443}]")
			SLICE("kubernetes", "kubernetes", "{name: https, port: 6443}",
				"{addresses: [10.0.0.1]}"));
	assert_int_equal(node_may("edge-1", "kubernetes.default", 443), 1);
	assert_string_equal(bed_ways.list[0].authority, "10.0.0.1:6443");
	assert_int_equal(may("192.0.2.7", "kubernetes.default", 443), 0); /* no node */
}

/* A pod that a selector has chosen is the Service's; an address that somebody wrote is not. */
static void
a_node_gets_no_pod_of_another_namespace(void **state)
{
	(void)state;
	bed_say("db",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: far, namespace: prod}\n"
		"spec: {nodeName: master}\nstatus: {phase: Running, podIP: 10.244.0.5, podIPs: "
		"[{ip: 10.244.0.5}]}\n");
	bed_say("web",
		SERVICE("web", "ports: [{name: http, port: 80}]") SLICE(
			"web-1", "web", "{name: http, port: 80}", "{addresses: [10.244.0.5]}"));
	assert_int_equal(node_may("edge-1", "web.default", 80), 0);
	assert_non_null(strstr(bed_ways.reason, "a pod of another namespace"));
}

/* What a node asks for is an endpoint, not a port of the Service. */
static void
an_endpoint_of_two_ports_is_that_of_the_open_one(void **state)
{
	static const struct {
		const char *asker;
		uint16_t port;
		unsigned status;
	} askers[] = {{"edge-1", 80, 0}, {"edge-2", 81, 0}, {"edge-3", 80, 403}};

	(void)state;
	bed_say("web",
		SERVICE("two",
			"selector: {app: web}, ports: [{name: a, port: 80, targetPort: 8080}, "
			"{name: b, port: 81, targetPort: 8080}, {name: c, port: 82, targetPort: "
			"8080}]") RUNNING("w-1", "edge-1", "172.17.0.2"));
	for (size_t i = 0; i < ARRAY_LEN(askers); i++) {
		struct caller caller;

		caller_node(&caller, askers[i].asker);
		assert_int_equal(bed_find_endpoint(askers[i].asker, "default/two", "edge-1",
					 "172.17.0.2:8080"),
			0);
		assert_int_equal(bed_ways.target.port, askers[i].port);
		assert_int_equal(routes_judge(bed_finder, &caller, &bed_ways), askers[i].status);
	}
}

#define T(f) cmocka_unit_test_setup_teardown(f, bed_setup, bed_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(the_hub_is_not_dialled),
		T(no_listener_of_a_replica_is_dialled),
		T(an_endpointslice_is_no_right_to_a_node),
		T(an_endpointslice_is_no_right_to_others_pods),
		T(a_pod_of_the_hosts_network_serves),
		T(special_addresses_are_dialled_for_no_node),
		T(endpoints_without_a_pod_take_a_rule_of_their_own),
		T(a_node_gets_no_port_of_another_node),
		T(a_node_gets_no_pod_of_another_namespace),
		T(an_endpoint_of_two_ports_is_that_of_the_open_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
