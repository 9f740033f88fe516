/* Pods by their own address: names, views and restrictions; the ranges of such addresses. */
#include "tests/unit/model/kube_kit.h"

#include <stdio.h>
#include <string.h>

#include "model/check.h"
#include "model/pod_name.h"
#include "model/pod_ranges.h"

#define POD(name, node, ip, rest)                                                                  \
	"---\napiVersion: v1\nkind: Pod\nmetadata: {name: " name ", labels: {app: " name "}}\n"    \
	"spec: {nodeName: " node                                                                   \
	", containers: [{ports: [{name: http, containerPort: 8080}]}]" rest                        \
	"}\nstatus: {phase: Running, podIP: " ip ", hostIP: 192.0.2.1}\n"

/* The view of the pod, "gone", or "none": no change of it is due. */
static const char *
change_of(const char *name)
{
	static char text[16384];
	struct cluster_change change;

	snprintf(text, sizeof text, "none");
	while (cluster_next_change(kit_cluster, &change)) {
		if (strcmp(change.name, name) == 0)
			snprintf(text, sizeof text, "%s",
				change.json != NULL ? change.json : "gone");
		cluster_change_fini(&change);
	}
	return text;
}

static void
names_are_those_of_addresses(void **state)
{
	static const char *const good[] = {"172-17-0-5._pod", "fd00--5._pod", "--1._pod"};
	static const char *const bad[] = {"172-17-0-05._pod", "172-17-0._pod", "web._pod", "._pod",
		"172-17-0-5.pod", "172.17.0.5._pod", "0-0-0-0-0-0-0-1._pod", "172-17-0-5",
		"a.172-17-0-5._pod"};
	char ip[INET6_ADDRSTRLEN], name[POD_NAME_MAX];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		assert_true(pod_name_is(good[i], strlen(good[i])));
		assert_true(check_service(good[i], strlen(good[i])));
		assert_true(pod_name_address(good[i], ip));
		assert_true(pod_name_of(name, ip));
		assert_string_equal(name, good[i]);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_false(pod_name_is(bad[i], strlen(bad[i])));
	assert_true(pod_name_ip("172-17-0-5", 10, ip));
	assert_string_equal(ip, "172.17.0.5");
	assert_false(pod_name_ip("172.17.0.5", 10, ip));
}

static void
a_view_while_it_is_wanted(void **state)
{
	(void)state;
	kit_say(kit_cluster, "a.yaml", POD("a", "n1", "172.17.0.2", ""));
	assert_string_equal(change_of("172-17-0-2._pod"), "none");
	cluster_pod_want(kit_cluster, "default", "172.17.0.3", 0, 1); /* no such pod */
	assert_int_equal(cluster_pods_wanted(kit_cluster), 0);
	cluster_pod_want(kit_cluster, "default", "172.17.0.2", 0, 1);
	assert_string_equal(change_of("172-17-0-2._pod"),
		"{\"ns\":\"default\",\"name\":\"172-17-0-2._pod\",\"headless\":true,\"ports\":["
		"{\"port\":8080,\"mode\":\"http\",\"extra\":true,\"endpoints\":["
		"{\"node\":\"n1\",\"pod\":\"a\",\"flags\":3,\"podIP\":\"172.17.0.2\",\"podPort\":"
		"8080,"
		"\"hostIP\":\"192.0.2.1\"}]}]}");
	cluster_pod_want(kit_cluster, "default", "172.17.0.2", 9090, 1);
	assert_non_null(strstr(change_of("172-17-0-2._pod"), "\"port\":9090,\"mode\":\"tcp\""));
	kit_say(kit_cluster, "a.yaml", "");
	assert_string_equal(change_of("172-17-0-2._pod"), "gone");
	assert_int_equal(cluster_pods_wanted(kit_cluster), 0);
}

static void
ports_are_bounded(void **state)
{
	const char *view;

	(void)state;
	kit_say(kit_cluster, "a.yaml", POD("a", "n1", "172.17.0.2", ""));
	for (uint16_t port = 1; port <= CLUSTER_POD_PORTS_MAX + 1; port++)
		cluster_pod_want(kit_cluster, "default", "172.17.0.2", port, 1);
	view = change_of("172-17-0-2._pod");
	assert_null(strstr(view, "\"port\":1,"));
	assert_non_null(strstr(view, "\"port\":2,"));
	assert_non_null(strstr(view, "\"port\":33,"));
}

/* One node's scan of ports, and one client's on it, take away their own. */
static void
ports_are_shared(void **state)
{
	const uint64_t quiet = cluster_pod_asker("n1", 1), loud = cluster_pod_asker("n2", 1),
		       beside = cluster_pod_asker("n2", 2);
	const char *view;

	(void)state;
	kit_say(kit_cluster, "a.yaml", POD("a", "n1", "172.17.0.2", ""));
	cluster_pod_want(kit_cluster, "default", "172.17.0.2", 7001, quiet);
	cluster_pod_want(kit_cluster, "default", "172.17.0.2", 7002, beside);
	for (uint16_t port = 9000; port < 9200; port++)
		cluster_pod_want(kit_cluster, "default", "172.17.0.2", port, loud);
	view = change_of("172-17-0-2._pod");
	assert_non_null(strstr(view, "\"port\":7001,"));
	assert_non_null(strstr(view, "\"port\":7002,"));
	assert_non_null(strstr(view, "\"port\":9199,"));
	assert_null(strstr(view, "\"port\":9169,"));
	/* Two may want the same port: it stays for the one who does not scan. */
	cluster_pod_want(kit_cluster, "default", "172.17.0.2", 9199, quiet);
	for (uint16_t port = 9000; port < 9100; port++)
		cluster_pod_want(kit_cluster, "default", "172.17.0.2", port, loud);
	assert_non_null(strstr(change_of("172-17-0-2._pod"), "\"port\":9199,"));
}

static void
given_back(void **state)
{
	(void)state;
	kit_say(kit_cluster, "a.yaml", POD("a", "n1", "172.17.0.2", ""));
	cluster_pod_want(kit_cluster, "default", "172.17.0.2", 7001, 1);
	kit_drop_changes(kit_cluster);
	cluster_pod_unwant(kit_cluster, "default", "172-17-0-2._pod");
	cluster_pod_unwant(kit_cluster, "default", "172-17-0-3._pod");
	assert_int_equal(cluster_pods_wanted(kit_cluster), 0);
	assert_string_equal(change_of("172-17-0-2._pod"), "gone");
	cluster_pod_want(kit_cluster, "default", "172.17.0.2", 0, 1);
	assert_null(strstr(change_of("172-17-0-2._pod"), "\"port\":7001,"));
}

/* What the mesh does not serve keeps its rules, and policies are the pod's own. */
static void
excluded_services_restrict_it(void **state)
{
	const char *view;

	(void)state;
	kit_say(kit_cluster, "a.yaml", POD("a", "n1", "172.17.0.2", ""));
	cluster_pod_want(kit_cluster, "default", "172.17.0.2", 0, 1);
	kit_drop_changes(kit_cluster);
	kit_say(kit_cluster, "s.yaml",
		"apiVersion: v1\nkind: Service\nmetadata: {name: s, labels: {edgeway.io/mesh: "
		"'false'}, annotations: {edgeway.io/allow-from: namespaces=shop}}\n"
		"spec: {selector: {app: a}, ports: [{port: 80, targetPort: 8443}]}\n");
	view = change_of("172-17-0-2._pod");
	assert_non_null(strstr(view, "\"allowFrom\":\"namespaces=shop\""));
	kit_say(kit_cluster, "p.yaml",
		"apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: p}\n"
		"spec: {podSelector: {matchLabels: {app: a}}, policyTypes: [Ingress], ingress: "
		"[{from: [{podSelector: {matchLabels: {app: x}}}]}]}\n");
	view = change_of("172-17-0-2._pod");
	assert_non_null(strstr(view, "\"allowFrom\":\"namespaces=shop\""));
	assert_non_null(strstr(view, "\"gate\""));
}

/* A slice of the other family, as clusters with two have one, brings the restriction and takes it
 * away; the pod is wanted by the address that the slice does not have. */
static void
slices_of_the_other_family(void **state)
{
#define SIX(ref)                                                                                   \
	"---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n"                              \
	"metadata: {name: s-6, labels: {kubernetes.io/service-name: s}}\naddressType: IPv6\n"      \
	"ports: [{port: 8443}]\n"                                                                  \
	"endpoints: [{addresses: ['fd00::2'], nodeName: n1" ref "}]\n"
	static const char *const slices[] = {
		SIX(", targetRef: {kind: Pod, name: a, namespace: default}"), SIX("")};

	(void)state;
	kit_say(kit_cluster, "a.yaml",
		"---\napiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {app: a}}\n"
		"spec: {nodeName: n1, containers: [{ports: [{containerPort: 8080}]}]}\n"
		"status: {phase: Running, podIP: 172.17.0.2, hostIP: 192.0.2.1, "
		"podIPs: [{ip: 172.17.0.2}, {ip: 'fd00::2'}]}\n");
	kit_say(kit_cluster, "s.yaml",
		"apiVersion: v1\nkind: Service\nmetadata: {name: s, annotations: "
		"{edgeway.io/allow-from: namespaces=shop}}\nspec: {ports: [{port: 80}]}\n");
	cluster_pod_want(kit_cluster, "default", "172.17.0.2", 0, 1);
	kit_drop_changes(kit_cluster);
	for (size_t i = 0; i < ARRAY_LEN(slices); i++) {
		kit_say(kit_cluster, "six.yaml", slices[i]);
		assert_non_null(strstr(change_of("172-17-0-2._pod"), "namespaces=shop"));
		kit_say(kit_cluster, "six.yaml", "");
		assert_null(strstr(change_of("172-17-0-2._pod"), "allowFrom"));
	}
}

static void
its_services_restrict_it(void **state)
{
	(void)state;
	kit_say(kit_cluster, "a.yaml", POD("a", "n1", "172.17.0.2", ""));
	cluster_pod_want(kit_cluster, "default", "172.17.0.2", 0, 1);
	assert_null(strstr(change_of("172-17-0-2._pod"), "allowFrom"));
#define WEB(name, who)                                                                             \
	"---\napiVersion: v1\nkind: Service\nmetadata: {name: " name                               \
	", annotations: {edgeway.io/allow-from: '" who "', edgeway.io/encrypt: always}}\n"         \
	"spec: {selector: {app: a}, ports: [{port: 80, targetPort: 8443}]}\n"
	kit_say(kit_cluster, "s.yaml", WEB("s", "namespaces=shop"));
	{
		const char *view = change_of("172-17-0-2._pod");

		assert_non_null(strstr(view, "\"allowFrom\":\"namespaces=shop\""));
		assert_non_null(strstr(view, "\"encrypt\":\"always\""));
		assert_non_null(strstr(view, "\"port\":8443,"));
	}
	kit_say(kit_cluster, "t.yaml", WEB("t", "namespaces=ops"));
	assert_non_null(strstr(change_of("172-17-0-2._pod"), "\"allowFrom\":\"none\""));
	assert_non_null(strstr(cluster_reason(kit_cluster, "default", "172-17-0-2._pod"),
		"different edgeway.io/allow-from"));
	kit_say(kit_cluster, "t.yaml", WEB("t", "namespaces=shop"));
	assert_non_null(strstr(change_of("172-17-0-2._pod"), "\"allowFrom\":\"namespaces=shop\""));
	kit_say(kit_cluster, "t.yaml",
		"apiVersion: v1\nkind: Service\nmetadata: {name: t, annotations: "
		"{edgeway.io/nodes: 'site in (hq)'}}\n"
		"spec: {selector: {app: a}, ports: [{port: 80}]}\n");
	assert_non_null(strstr(change_of("172-17-0-2._pod"), "\"allowFrom\":\"none\""));
	assert_non_null(strstr(cluster_reason(kit_cluster, "default", "172-17-0-2._pod"),
		"behind a Service with edgeway.io/nodes"));
	kit_say(kit_cluster, "t.yaml", "");
	kit_say(kit_cluster, "s.yaml", "");
	assert_null(strstr(change_of("172-17-0-2._pod"), "allowFrom"));
}

static void
two_pods_with_one_address(void **state)
{
	struct cluster_place place;

	(void)state;
	kit_say(kit_cluster, "a.yaml", POD("a", "n1", "172.17.0.2", ""));
	cluster_pod_want(kit_cluster, "default", "172.17.0.2", 0, 1);
	kit_drop_changes(kit_cluster);
	kit_say(kit_cluster, "b.yaml", POD("b", "n2", "172.17.0.2", ""));
	assert_null(strstr(change_of("172-17-0-2._pod"), "endpoints"));
	assert_non_null(strstr(cluster_reason(kit_cluster, "default", "172-17-0-2._pod"),
		"2 pods of the namespace have the address 172.17.0.2 ("));
	assert_int_equal(cluster_pod_find(kit_cluster, "default", "172.17.0.2", "", &place),
		CLUSTER_POD_MANY);
	assert_int_equal(
		cluster_pod_find(kit_cluster, "", "172.17.0.2", "n2", &place), CLUSTER_POD_ONE);
	assert_string_equal(place.pod, "b");
}

static void
hostnames_come_first(void **state)
{
	struct cluster_place place;
	char *name;

	(void)state;
	kit_say(kit_cluster, "a.yaml",
		POD("a", "n1", "172.17.0.2", ", hostname: db-0, subdomain: db")
			POD("c", "n1", "172.17.0.3", ""));
	kit_say(kit_cluster, "s.yaml",
		SERVICE("db", "clusterIP: None, selector: {app: a}, ports: [{port: 8080}]"));
	kit_drop_changes(kit_cluster);
	assert_int_equal(
		cluster_pod_find(kit_cluster, "", "172.17.0.2", "n1", &place), CLUSTER_POD_ONE);
	name = cluster_pod_dns_name(kit_cluster, &place, "172.17.0.2");
	assert_string_equal(name, "db-0.db.default.svc");
	free(name);
	assert_int_equal(
		cluster_pod_find(kit_cluster, "", "172.17.0.3", "n1", &place), CLUSTER_POD_ONE);
	name = cluster_pod_dns_name(kit_cluster, &place, "172.17.0.3");
	assert_string_equal(name, "172-17-0-3.default.pod");
	free(name);
}

#define RANGED(name, cidr)                                                                         \
	"---\napiVersion: v1\nkind: Node\nmetadata: {name: " name "}\nspec: {podCIDR: " cidr "}\n"

static void
ranges_that_no_two_nodes_share(void **state)
{
	(void)state;
	kit_say(kit_cluster, "n.yaml",
		RANGED("a", "10.244.0.0/24") RANGED("b", "10.244.1.0/24")
			RANGED("c", "10.245.0.0/24"));
	assert_string_equal(cluster_pod_ranges(kit_cluster),
		"{\"ranges\":[\"10.244.0.0-10.244.1.255\",\"10.245.0.0-10.245.0.255\"]}");
	kit_say(kit_cluster, "m.yaml",
		RANGED("d", "10.244.1.128/25") RANGED("e", "172.17.0.0/16")
			RANGED("f", "172.17.0.0/16") RANGED("g", "169.254.0.0/24")
				RANGED("h", "10.0.0.0/8") RANGED("i", "8.8.8.0/24"));
	assert_string_equal(cluster_pod_ranges(kit_cluster),
		"{\"ranges\":[\"10.244.0.0-10.244.0.255\",\"10.245.0.0-10.245.0.255\"]}");
}

static void
ranges_are_checked(void **state)
{
	static const char *const bad[] = {"{\"ranges\":[\"127.0.0.0-127.0.0.255\"]}",
		"{\"ranges\":[\"10.0.0.0-200.0.0.0\"]}", "{\"ranges\":[\"10.0.0.9-10.0.0.1\"]}",
		"{\"ranges\":[\"10.0.0.0\"]}", "{\"ranges\":[\"::1-::2\"]}", "{\"ranges\":[7]}",
		"{\"ranges\":[\"0.0.0.0-255.255.255.255\"]}",
		"{\"ranges\":[\"10.8.0.0-10.8.0.9\",\"1.0.0.0-126.255.255.255\"]}", "[]", ""};
	static const char good[] = "{\"ranges\":[\"10.9.0.0-10.9.0.255\",\"10.8.0.0-10.8.99.255\","
				   "\"10.9.1.0-10.9.1.7\"]}";
	struct pod_ranges r = {0};
	struct err err;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_true(pod_ranges_parse(&r, bad[i], strlen(bad[i]), &err) < 0);
	assert_int_equal(pod_ranges_parse(&r, good, strlen(good), &err), 0);
	assert_int_equal(r.n, 2);
	pod_ranges_subtract(&r, 0x0a080100, 0x0a0801ff); /* 10.8.1.0/24 */
	pod_ranges_subtract(&r, 0x0a090000, 0x0a0900ff);
	assert_int_equal(r.n, 3);
	assert_int_equal(r.list[0].last, 0x0a0800ff);
	assert_int_equal(r.list[1].first, 0x0a080200);
	assert_int_equal(r.list[2].first, 0x0a090100);
	pod_ranges_subtract(&r, 0, UINT32_MAX);
	assert_int_equal(r.n, 0);
	pod_ranges_fini(&r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_those_of_addresses),
		cmocka_unit_test_setup_teardown(a_view_while_it_is_wanted, kit_setup, kit_teardown),
		cmocka_unit_test_setup_teardown(ports_are_bounded, kit_setup, kit_teardown),
		cmocka_unit_test_setup_teardown(ports_are_shared, kit_setup, kit_teardown),
		cmocka_unit_test_setup_teardown(given_back, kit_setup, kit_teardown),
		cmocka_unit_test_setup_teardown(
			excluded_services_restrict_it, kit_setup, kit_teardown),
		cmocka_unit_test_setup_teardown(
			slices_of_the_other_family, kit_setup, kit_teardown),
		cmocka_unit_test_setup_teardown(its_services_restrict_it, kit_setup, kit_teardown),
		cmocka_unit_test_setup_teardown(two_pods_with_one_address, kit_setup, kit_teardown),
		cmocka_unit_test_setup_teardown(hostnames_come_first, kit_setup, kit_teardown),
		cmocka_unit_test_setup_teardown(
			ranges_that_no_two_nodes_share, kit_setup, kit_teardown),
		cmocka_unit_test(ranges_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
