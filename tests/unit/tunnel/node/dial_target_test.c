/* What a request of the hub means on this node: the words of EndpointSlices do not make the node's
 * own ports a service's. */
#include "tunnel/node/dial_target.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "model/check.h"
#include "model/view.h"

/* 192.0.2.12 and the bridge 172.17.0.1 are the node's. */
static struct ground ground;
static struct address_list *own;
static struct snapshot *snapshot;
static struct reachable_nets *vicinity;
static struct tunnel_acl *allow;

static void
add_own(struct own_address *to, const char *ip, unsigned bits, bool bridge)
{
	struct ground_net *net = &ground.nets[ground.n_nets++];

	assert_true(ip_parse(ip, &to->ip));
	assert_int_equal(addr_parse(&net->addr, ip, 1, NULL), 0);
	net->bits = bits;
	net->bridge = bridge;
}

static void
add_service(const char *name, const char *mode, const char *endpoints)
{
	const struct self self = {.node = "edge-2", .site = "", .zone = "", .forward = true};
	auto_free char *json =
		xasprintf("{\"ns\":\"default\",\"name\":\"%s\",\"ports\":[{\"port\":80,"
			  "\"mode\":\"%s\",\"endpoints\":[%s]}]}",
			name, mode, endpoints);
	struct snapshot *before = snapshot;
	struct err err = {0};
	struct change c = {.ns = "default", .name = name};
	struct view *v;

	if (view_parse(&v, json, strlen(json), &err) < 0)
		fail_msg("%s", err.text);
	c.service = service_build(v, &self, 1, 2);
	snapshot = snapshot_next(before, &c, 1);
	snapshot_unref(&before);
	view_free(&v);
}

#define GIVEN(node, ip, port)                                                                      \
	"{\"node\":\"" node "\",\"flags\":3,\"givenIP\":\"" ip "\",\"givenPort\":" port "}"
#define POD(node, ip, port, host, host_port)                                                       \
	"{\"node\":\"" node "\",\"pod\":\"p\",\"flags\":3,\"podIP\":\"" ip "\",\"podPort\":" port  \
	",\"hostIP\":\"" host "\",\"hostPort\":" host_port "}"

static int
setup(void **state)
{
	static const char *const reach[] = {"edge-3", "192.168.1.0/24:9100", NULL};
	static const char *const rules[] = {"node", "pods", "services"};
	struct own_address list[3] = {0};

	(void)state;
	ground = (struct ground){.node = "edge-2"};
	add_own(&list[0], "192.0.2.12", 24, false);
	add_own(&list[1], "172.17.0.1", 16, true);
	add_own(&list[2], "127.0.0.1", 8, false);
	own = address_list_new(list, ARRAY_LEN(list));
	snapshot = snapshot_new(true);
	add_service("slice", "tcp",
		GIVEN("edge-2", "172.17.0.1", "2375") "," GIVEN(
			"edge-2", "192.0.2.12", "22") "," GIVEN("edge-2", "172.17.0.9",
			"80") "," GIVEN("edge-3", "192.0.2.13", "22"));
	add_service("datagrams", "udp", GIVEN("edge-2", "192.0.2.12", "161"));
	add_service("exporter", "tcp",
		POD("edge-2", "192.0.2.12", "9200", "192.0.2.12", "9200") "," POD(
			"edge-3", "172.17.0.7", "8080", "192.0.2.13", "30080"));
	ground.own = own;
	ground.snapshot = snapshot;
	assert_int_equal(reachable_nets_new(reach, &vicinity, NULL), 0);
	ground.vicinity = vicinity;
	assert_int_equal(tunnel_acl_new(rules, ARRAY_LEN(rules), &allow, NULL), 0);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	tunnel_acl_free(&allow);
	reachable_nets_free(&vicinity);
	snapshot_unref(&snapshot);
	address_list_unref(&own);
	return 0;
}

/* "kind allowed", "kind denied", or the status. */
static const char *
ask(const char *authority, const char *service, const char *meant, bool udp)
{
	static char text[64];
	struct dial_target to;
	const char *reason = NULL, *why;
	unsigned status = dial_target_find(&ground,
		&(struct dial_target_request){
			.authority = authority, .service = service, .meant = meant, .udp = udp},
		&to, &reason);

	if (status != 0)
		snprintf(text, sizeof text, "%u", status);
	else
		snprintf(text, sizeof text, "%s %s", tunnel_acl_kind_name(to.kind),
			tunnel_acl_check(allow, to.kind, &to.addrs[0], &why) ? "allowed"
									     : "denied");
	return text;
}

static void
a_slice_does_not_open_the_nodes_ports(void **state)
{
	(void)state;
	assert_string_equal(ask("192.0.2.12:22", "", "", false), "node denied");
	assert_string_equal(ask("192.0.2.12:22", "default/slice", "", false), "node denied");
	assert_string_equal(
		ask("[::ffff:192.0.2.12]:22", "default/slice", "", false), "node denied");
	assert_string_equal(ask("172.17.0.1:2375", "default/slice", "", false), "node denied");
	assert_string_equal(ask("192.0.2.12:161", "default/datagrams", "", true), "node denied");
	assert_string_equal(ask("172.17.0.9:80", "default/slice", "", false), "service allowed");
	assert_string_equal(ask("192.0.2.12:10250", "default/slice", "", false), "node allowed");
}

static void
a_pod_of_the_hosts_network_is_a_services(void **state)
{
	(void)state;
	assert_string_equal(
		ask("192.0.2.12:9200", "default/exporter", "", false), "service allowed");
	assert_string_equal(ask("192.0.2.12:9200", "", "", false), "node denied");
	assert_string_equal(ask("192.0.2.12:9201", "default/exporter", "", false), "node denied");
	assert_string_equal(ask("192.0.2.12:9200", "default/exporter", "", true), "node denied");
}

/* A pod's port on a neighbour's host is opened with the neighbour; what a slice says of the
 * neighbour is not. */
static void
nor_ports_of_a_neighbour(void **state)
{
	(void)state;
	assert_string_equal(
		ask("192.0.2.13:30080", "default/exporter", "edge-3", false), "service allowed");
	assert_string_equal(ask("192.0.2.13:22", "default/slice", "edge-3", false), "403");
	assert_string_equal(ask("192.0.2.13:10250", "", "edge-3", false), "beside allowed");
	assert_string_equal(ask("192.0.2.12:22", "default/slice", "*", false), "node denied");
	assert_string_equal(ask("192.0.2.12:22", "default/slice", "edge-3", false), "404");
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_slice_does_not_open_the_nodes_ports),
		T(a_pod_of_the_hosts_network_is_a_services),
		T(nor_ports_of_a_neighbour),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
