/* Services and pods with addresses of both families. */
#include "tests/unit/model/kube_kit.h"

#include <stdio.h>
#include <string.h>

#include "model/local_callers.h"

#define POD(name, node, rest, status)                                                              \
	"---\napiVersion: v1\nkind: Pod\nmetadata: {name: " name ", labels: {app: web}}\n"         \
	"spec: {nodeName: " node ", " rest "}\nstatus: {phase: Running, " status "}\n"
#define POD_IPS "podIP: 10.0.0.1, podIPs: [{ip: 10.0.0.1}, {ip: fd01::1}]"
#define HOST_IPS "hostIP: 192.0.2.1, hostIPs: [{ip: 192.0.2.1}, {ip: fd02::1}]"
#define PORTS "containers: [{ports: [{containerPort: 8080, hostPort: 1}]}]"
#define NUMBER "ports: [{port: 80, targetPort: 8080}]"
#define SELECTS "selector: {app: web}, " NUMBER
#define OF_POD(ip) "{addresses: [\"" ip "\"], nodeName: n, targetRef: {kind: Pod, name: a}}"

#define BOTH                                                                                       \
	"\"podIP\":\"10.0.0.1\",\"otherPodIP\":\"fd01::1\",\"podPort\":8080,"                      \
	"\"hostIP\":\"192.0.2.1\",\"otherHostIP\":\"fd02::1\",\"hostPort\":1"
#define IPV6_FIRST                                                                                 \
	"\"podIP\":\"fd01::1\",\"otherPodIP\":\"10.0.0.1\",\"podPort\":8080,"                      \
	"\"hostIP\":\"fd02::1\",\"otherHostIP\":\"192.0.2.1\",\"hostPort\":1"
#define ENDPOINT(addresses) "[{\"node\":\"n\",\"pod\":\"a\",\"flags\":3," addresses "}]}]}"
#define ONLY_IPV4 "\"podIP\":\"10.0.0.1\",\"podPort\":8080,\"hostIP\":\"192.0.2.1\",\"hostPort\":1"
#define ONLY_IPV6 "\"podIP\":\"fd01::1\",\"podPort\":8080,\"hostIP\":\"fd02::1\",\"hostPort\":1"

static const char *
dual_view(const char *yaml)
{
	static char text[4096];
	struct cluster_change change;

	cluster_replace(kit_cluster, "a.yaml", NULL);
	kit_drop_changes(kit_cluster);
	kit_say(kit_cluster, "a.yaml", yaml);
	assert_true(cluster_next_change(kit_cluster, &change));
	snprintf(text, sizeof text, "%s", change.json);
	cluster_change_fini(&change);
	assert_int_equal(kit_drop_changes(kit_cluster), 0);
	return text;
}

static const char *
dual_endpoints(const char *yaml)
{
	return strstr(dual_view(yaml), "\"endpoints\":") + strlen("\"endpoints\":");
}

static void
the_services_families_decide(void **state)
{
	static const struct {
		const char *families, *endpoints;
	} cases[] = {
		{"ipFamilies: [IPv4, IPv6]", ENDPOINT(BOTH)},
		{"ipFamilies: [IPv6, IPv4]", ENDPOINT(IPV6_FIRST)},
		{"ipFamilyPolicy: PreferDualStack", ENDPOINT(BOTH)},
		{"clusterIP: 10.9.0.1, clusterIPs: [10.9.0.1, \"fd09::1\"]", ENDPOINT(BOTH)},
		{"clusterIP: \"fd09::1\", clusterIPs: [\"fd09::1\", 10.9.0.1]",
			ENDPOINT(IPV6_FIRST)},
		{"clusterIP: None, ipFamilies: [IPv4, IPv6]", ENDPOINT(BOTH)},
		{"ipFamilies: [IPv4], ipFamilyPolicy: PreferDualStack", ENDPOINT(ONLY_IPV4)},
		{"ipFamilies: [IPv4]", ENDPOINT(ONLY_IPV4)},
		{"type: ClusterIP", ENDPOINT(ONLY_IPV4)},
		{"ipFamilies: [IPv6]", ENDPOINT(ONLY_IPV6)},
		{"clusterIP: \"fd09::1\"", ENDPOINT(ONLY_IPV6)},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_free char *yaml = xasprintf("%sspec: {selector: {app: web}, %s, %s}\n%s",
			"---\napiVersion: v1\nkind: Service\nmetadata: {name: s}\n",
			cases[i].families, NUMBER, POD("a", "n", PORTS, POD_IPS ", " HOST_IPS));
		const char *found = dual_endpoints(yaml);

		assert_memory_equal(found, cases[i].endpoints, strlen(cases[i].endpoints) - 3);
	}
}

/* Members and digest of a single-stack Service are those of a hub that knows one family. */
static void
nothing_changes_for_one_family(void **state)
{
	(void)state;
	assert_string_equal(dual_view(SERVICE("s",
				    "clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1], "
				    "ipFamilies: [IPv4], " SELECTS)
					    POD("a", "n", PORTS, POD_IPS ", " HOST_IPS)),
		"{\"ns\":\"default\",\"name\":\"s\",\"clusterIP\":\"10.96.0.1\",\"ports\":["
		"{\"port\":80,\"mode\":\"tcp\",\"endpoints\":" ENDPOINT(ONLY_IPV4));
}

/* The two slices of a dual-stack Service name the same pods: one endpoint. */
static void
two_slices_are_one_endpoint(void **state)
{
	const char *view;

	(void)state;
	view = dual_view(SERVICE("s",
		"clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1, \"fd09::1\"], "
		"ipFamilies: [IPv4, IPv6], " SELECTS) POD("a", "n", PORTS, POD_IPS ", " HOST_IPS)
			SLICE6("s-6", "s", "{port: 8080}", OF_POD("fd01::1"))
				SLICE("s-4", "s", "{port: 8080}", OF_POD("10.0.0.1")));
	assert_string_equal(view,
		"{\"ns\":\"default\",\"name\":\"s\",\"clusterIP\":\"10.96.0.1\",\"clusterIP6\":"
		"\"fd09::1\",\"ports\":[{\"port\":80,\"mode\":\"tcp\",\"endpoints\":" ENDPOINT(
			BOTH));
	/* By node and address alone, as Endpoints and hand-written slices name them. */
	assert_string_equal(
		dual_endpoints(SERVICE("s", "ipFamilies: [IPv6, IPv4], " SELECTS) POD(
			"a", "n", PORTS, POD_IPS ", " HOST_IPS) SLICE6("s-6", "s", "{port: 8080}",
			"{addresses: [\"fd01::1\"], nodeName: n}") SLICE("s-4", "s", "{port: 8080}",
			"{addresses: [10.0.0.1], nodeName: n}")),
		ENDPOINT(IPV6_FIRST));
	/* What only one slice names has one address. */
	assert_string_equal(dual_endpoints(SERVICE("s", "ipFamilies: [IPv4, IPv6], " SELECTS)
					    POD("a", "n", PORTS, POD_IPS ", " HOST_IPS) SLICE6(
						    "s-6", "s", "{port: 8080}", OF_POD("fd01::1"))),
		ENDPOINT(ONLY_IPV6));
}

/* Kubelets before 1.30 give no hostIPs; the Node has both. */
static void
the_node_knows_the_other_host_ip(void **state)
{
	(void)state;
	assert_string_equal(dual_endpoints(SERVICE("s", "ipFamilies: [IPv4, IPv6], " SELECTS) POD(
				    "a", "n", PORTS, POD_IPS ", hostIP: 192.0.2.1") NODE("n", "",
				    "{type: Hostname, address: \"fd02::9\"}, "
				    "{type: InternalIP, address: 192.0.2.1}, "
				    "{type: InternalIP, address: \"fd02::1\"}")),
		ENDPOINT(BOTH));
	assert_string_equal(dual_endpoints(SERVICE("s", "ipFamilies: [IPv4, IPv6], " SELECTS) POD(
				    "a", "n", "hostNetwork: true",
				    "podIP: 192.0.2.1, hostIP: 192.0.2.1, "
				    "podIPs: [{ip: 192.0.2.1}, {ip: fd02::1}]") NODE("n", "",
				    "{type: ExternalIP, address: 198.51.100.1}, "
				    "{type: ExternalIP, address: \"2001:db8::1\"}, "
				    "{type: InternalIP, address: 192.0.2.1}, "
				    "{type: InternalIP, address: \"fd02::1\"}")),
		ENDPOINT("\"podIP\":\"192.0.2.1\",\"otherPodIP\":\"fd02::1\",\"podPort\":8080,"
			 "\"hostIP\":\"192.0.2.1\",\"otherHostIP\":\"fd02::1\",\"hostPort\":8080,"
			 "\"hostNetwork\":true,\"publicIP\":\"198.51.100.1\",\"otherPublicIP\":"
			 "\"2001:db8::1\""));
	/* A node of one family: the pod's other family has no way from other nodes. */
	assert_string_equal(dual_endpoints(SERVICE("s", "ipFamilies: [IPv6, IPv4], " SELECTS)
					    POD("a", "n", PORTS, POD_IPS ", hostIP: 192.0.2.1")),
		ENDPOINT("\"podIP\":\"fd01::1\",\"otherPodIP\":\"10.0.0.1\",\"podPort\":8080,"
			 "\"hostIP\":\"192.0.2.1\",\"hostPort\":1"));
}

#define BARE(ip, rest) "{addresses: [\"" ip "\"]" rest "}"

static void
addresses_without_a_pod(void **state)
{
	(void)state;
	assert_string_equal(
		dual_endpoints(SERVICE("s", "ipFamilies: [IPv4, IPv6], " NUMBER) SLICE("s-4", "s",
			"{port: 8080}",
			BARE("10.0.0.1", ", hostname: a") "," BARE("10.0.0.2", "") "," BARE(
				"10.0.0.3", ", hostname: c") "," BARE("10.0.0.4", ", hostname: c"))
				SLICE6("s-6", "s", "{port: 8080}",
					BARE("fd01::1", ", hostname: a") "," BARE("fd01::2",
						"") "," BARE("fd01::3", ", hostname: c"))),
		"[{\"hostname\":\"a\",\"flags\":3,\"givenIP\":\"10.0.0.1\",\"otherGivenIP\":"
		"\"fd01::1\",\"givenPort\":8080},"
		"{\"flags\":3,\"givenIP\":\"10.0.0.2\",\"givenPort\":8080},"
		"{\"hostname\":\"c\",\"flags\":3,\"givenIP\":\"10.0.0.3\",\"givenPort\":8080},"
		"{\"hostname\":\"c\",\"flags\":3,\"givenIP\":\"10.0.0.4\",\"givenPort\":8080},"
		"{\"flags\":3,\"givenIP\":\"fd01::2\",\"givenPort\":8080},"
		"{\"hostname\":\"c\",\"flags\":3,\"givenIP\":\"fd01::3\",\"givenPort\":8080}]}]}");
}

static void
a_pod_is_found_at_either_address(void **state)
{
	struct cluster_place place;
	const char *ns, *name;
	auto_buf struct buf json;

	(void)state;
	buf_init(&json, BUF_UNLIMITED);
	dual_view(
		SERVICE("s", "clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1, \"fd09::1\"], " NUMBER)
			POD("a", "n", PORTS, POD_IPS ", " HOST_IPS));
	assert_int_equal(cluster_places(kit_cluster, "fd01:0::1", &place, 1), 1);
	assert_string_equal(place.pod, "a");
	assert_true(cluster_pod_at(kit_cluster, "n", "10.0.0.1", &place));
	assert_true(cluster_pod_at(kit_cluster, "n", "fd01::1", &place));
	assert_true(cluster_pod_has(kit_cluster, "default", "a", "fd01::1"));
	assert_false(cluster_pod_has(kit_cluster, "default", "a", "fd01::2"));
	assert_true(cluster_service_at(kit_cluster, "fd09::1", &ns, &name));
	cluster_callers(kit_cluster, "n", &json);
	assert_non_null(strstr(buf_str(&json),
		"\"ip\":\"10.0.0.1\",\"otherIP\":\"fd01::1\",\"labels\":{\"app\":\"web\"}"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			the_services_families_decide, kit_setup, kit_teardown),
		cmocka_unit_test_setup_teardown(
			nothing_changes_for_one_family, kit_setup, kit_teardown),
		cmocka_unit_test_setup_teardown(
			two_slices_are_one_endpoint, kit_setup, kit_teardown),
		cmocka_unit_test_setup_teardown(
			the_node_knows_the_other_host_ip, kit_setup, kit_teardown),
		cmocka_unit_test_setup_teardown(addresses_without_a_pod, kit_setup, kit_teardown),
		cmocka_unit_test_setup_teardown(
			a_pod_is_found_at_either_address, kit_setup, kit_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
