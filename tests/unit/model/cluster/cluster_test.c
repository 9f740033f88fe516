#include "tests/unit/model/kube_kit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define POD(name, node, rest, status)                                                              \
	"---\napiVersion: v1\nkind: Pod\nmetadata: {name: " name ", labels: {app: web, pod: " name \
	"}}\n"                                                                                     \
	"spec: {nodeName: " node ", " rest "}\nstatus: {phase: Running, " status "}\n"
#define IPS(pod, host) "podIP: " pod ", hostIP: " host

static void
say_data(struct cluster *c, const char *name)
{
	struct kube_batch b;

	kit_read_data(&b, name);
	cluster_replace(c, name, &b);
	kube_batch_fini(&b);
}

/* The one change that is due, as JSON ("gone" for a deletion); the text lives until the next
 * call. */
static const char *
only_change(struct cluster *c)
{
	static char text[4096];
	struct cluster_change change;

	if (!cluster_next_change(c, &change))
		return "none";
	snprintf(text, sizeof text, "%s", change.json != NULL ? change.json : "gone");
	if (change.json != NULL) {
		assert_int_equal(strlen(change.json), change.json_len);
		assert_true(view_digest(change.json, change.json_len) == change.digest);
	}
	cluster_change_fini(&change);
	assert_int_equal(kit_drop_changes(c), 0);
	return text;
}

#define WEB                                                                                        \
	"selector: {app: web}, clusterIP: 10.96.0.1, ports: [{name: http, port: 80, targetPort: "  \
	"www}]"

static void
named_port_is_resolved_in_each_pod(void **state)
{
	(void)state;
	kit_say(kit_cluster, "a.yaml",
		SERVICE("s", WEB) POD("a", "n1",
			"containers: [{ports: [{name: www, containerPort: 8080, hostPort: "
			"30080}]}]",
			IPS("172.17.0.2", "192.0.2.1")) POD("b", "n2",
			"containers: [{ports: [{name: www, containerPort: 9090}]}]",
			IPS("172.17.0.2", "192.0.2.2"))
			POD("c", "n2", "containers: [{ports: [{name: other, containerPort: 1}]}]",
				IPS("172.17.0.3", "192.0.2.2")));
	assert_string_equal(only_change(kit_cluster),
		"{\"ns\":\"default\",\"name\":\"s\",\"clusterIP\":\"10.96.0.1\",\"ports\":["
		"{\"name\":\"http\",\"port\":80,\"mode\":\"http\",\"endpoints\":["
		"{\"node\":\"n1\",\"pod\":\"a\",\"flags\":3,\"podIP\":\"172.17.0.2\",\"podPort\":"
		"8080,"
		"\"hostIP\":\"192.0.2.1\",\"hostPort\":30080},"
		"{\"node\":\"n2\",\"pod\":\"b\",\"flags\":3,\"podIP\":\"172.17.0.2\",\"podPort\":"
		"9090,\"hostIP\":\"192.0.2.2\"}]}]}");
	assert_true(cluster_reason(kit_cluster, "default", "s")[0] != '\0');
	assert_int_equal(cluster_count(kit_cluster, KUBE_POD), 3);
}

static const char *
endpoints_of(struct cluster *c)
{
	static char text[4096];
	const char *json = only_change(c), *at = strstr(json, "\"endpoints\":");

	snprintf(text, sizeof text, "%s", at != NULL ? at + strlen("\"endpoints\":") : json);
	return text;
}

#define NUMBER "selector: {app: web}, ports: [{port: 80, targetPort: 8080}]"

static void
each_way_to_reach_a_pod(void **state)
{
	static const struct {
		const char *pod, *way;
	} cases[] = {
		{POD("a", "n", "hostNetwork: true", IPS("192.0.2.1", "192.0.2.1")),
			"\"hostIP\":\"192.0.2.1\",\"hostPort\":8080,\"hostNetwork\":true}"},
		/* It looks like the host's, and is none. */
		{POD("a", "n", "containers: [{ports: [{containerPort: 8080, hostPort: 8080}]}]",
			 IPS("192.0.2.1", "192.0.2.1")),
			"\"hostIP\":\"192.0.2.1\",\"hostPort\":8080,\"hostNetwork\":false}"},
		{POD("a", "n", "containers: [{ports: [{containerPort: 8080, hostPort: 1}]}]",
			 IPS("172.17.0.2", "192.0.2.1")),
			"\"hostIP\":\"192.0.2.1\",\"hostPort\":1"},
		{POD("a", "n",
			 "containers: [{ports: [{containerPort: 8080, hostPort: 1, hostIP: "
			 "10.9.9.9}]}]",
			 IPS("172.17.0.2", "192.0.2.1")),
			"\"hostIP\":\"10.9.9.9\",\"hostPort\":1"},
		{POD("a", "n",
			 "initContainers: [{restartPolicy: Always, ports: [{containerPort: 8080, "
			 "hostPort: 2}]}]",
			 IPS("172.17.0.2", "192.0.2.1")),
			"\"hostIP\":\"192.0.2.1\",\"hostPort\":2"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		kit_say(kit_cluster, "s.yaml", SERVICE("s", NUMBER));
		kit_say(kit_cluster, "p.yaml", cases[i].pod);
		assert_non_null(strstr(endpoints_of(kit_cluster), cases[i].way));
		assert_string_equal(cluster_reason(kit_cluster, "default", "s"), "");
		cluster_replace(kit_cluster, "p.yaml", NULL);
		assert_string_equal(endpoints_of(kit_cluster), "[]}]}");
		assert_string_equal(cluster_reason(kit_cluster, "default", "s"),
			"port 80: no pod with an address");
	}
	/* A hostPort of the other protocol is none. */
	kit_say(kit_cluster, "p.yaml",
		POD("a", "n",
			"containers: [{ports: [{containerPort: 8080, hostPort: 1, protocol: "
			"UDP}]}]",
			IPS("172.17.0.2", "192.0.2.1")));
	assert_string_equal(endpoints_of(kit_cluster),
		"[{\"node\":\"n\",\"pod\":\"a\",\"flags\":3,\"podIP\":\"172.17.0.2\",\"podPort\":"
		"8080,\"hostIP\":\"192.0.2.1\"}]}]}");
	assert_string_equal(cluster_behind(kit_cluster, "default", "s").text,
		"port 80: pod a has no hostPort for container port 8080: only its own node can "
		"dial it, others go by its agent or the hub");
}

#define BARE(rest) SLICE("s-1", "s", "{port: 8080}", "{" rest "}")
#define HOST_PORT(ip) "containers: [{ports: [{containerPort: 8080, hostPort: 1, hostIP: " ip "}]}]"

/* What nodes will not dial is told with the service, and once as a note for the log. */
static void
refused_addresses_are_told(void **state)
{
	static const struct {
		const char *objects, *what; /* NULL: nothing is to be said */
	} cases[] = {
		{BARE("addresses: [100.100.100.200]"),
			"100.100.100.200 of an endpoint without a pod, since it is a cloud's "
			"metadata"},
		{BARE("addresses: [0.1.2.3]"), "since it is an unspecified address"},
		{BARE("addresses: [255.255.255.255]"), "since it is a reserved address"},
		{BARE("addresses: [192.0.2.9]"), NULL},
		{BARE("addresses: [192.0.2.9], nodeName: n"), "since it is the node's own"},
		{BARE("addresses: [192.0.2.8], nodeName: n"), NULL},
		{POD("a", "n", HOST_PORT("169.254.169.254"), IPS("172.17.0.2", "192.0.2.1")),
			"169.254.169.254 of pod a, since it is a cloud's metadata address"},
		{POD("a", "n", HOST_PORT("127.0.0.1"), IPS("172.17.0.2", "192.0.2.1")), NULL},
		{POD("a", "n", HOST_PORT("0.0.0.0"), IPS("172.17.0.2", "169.254.169.254")),
			"169.254.169.254 of pod a, since it is a cloud's metadata address"},
		{POD("a", "n", "hostNetwork: true", IPS("192.0.2.9", "192.0.2.9")), NULL},
		{POD("a", "n", HOST_PORT("0.0.0.0"), IPS("192.0.2.9", "192.0.2.9")),
			"192.0.2.9 of pod a, since it is the node's own"},
	};

	(void)state;
	kit_say(kit_cluster, "n.yaml",
		"apiVersion: v1\nkind: Node\nmetadata: {name: n}\n"
		"status: {addresses: [{type: InternalIP, address: 192.0.2.9}]}\n");
	kit_say(kit_cluster, "s.yaml", SERVICE("s", NUMBER));
	kit_drop_changes(kit_cluster);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		bool refused = cases[i].what != NULL;
		auto_free char *note = NULL;
		const char *reason;

		kit_say(kit_cluster, "x.yaml", cases[i].objects);
		kit_drop_changes(kit_cluster);
		reason = cluster_reason(kit_cluster, "default", "s");
		note = cluster_next_note(kit_cluster);
		if ((cluster_problem(kit_cluster, "default", "s") == CLUSTER_REFUSED) != refused ||
			(refused && strstr(reason, cases[i].what) == NULL))
			fail_msg("case %zu: \"%s\"", i, reason);
		assert_int_equal(cluster_count_refused(kit_cluster), refused);
		assert_true((note != NULL) == refused);
		assert_true(note == NULL || strstr(note, reason) == note);
		assert_true(note == NULL || strstr(note, " service=default/s") != NULL);
		/* Joined again it is no news. */
		kit_say(kit_cluster, "s.yaml", SERVICE("s", NUMBER));
		kit_drop_changes(kit_cluster);
		assert_null(cluster_next_note(kit_cluster));
		cluster_replace(kit_cluster, "x.yaml", NULL);
		kit_drop_changes(kit_cluster);
		assert_int_equal(cluster_count_refused(kit_cluster), 0);
	}
}

static void
conditions_of_pods(void **state)
{
	static const struct {
		const char *status, *flags;
	} cases[] = {
		{"status: {phase: Running, podIP: 10.0.0.1, conditions: [{type: Ready, status: "
		 "\"True\"}]}",
			"\"flags\":3"},
		{"status: {phase: Running, podIP: 10.0.0.1, conditions: [{type: Ready, status: "
		 "\"False\"}]}",
			"\"flags\":0"},
		{"status: {phase: Running, podIP: 10.0.0.1}", "\"flags\":3"},
		{"status: {phase: Pending, podIP: 10.0.0.1}", "\"flags\":0"},
	};

	(void)state;
	kit_say(kit_cluster, "s.yaml", SERVICE("s", NUMBER));
	kit_drop_changes(kit_cluster);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_free char *pod = xasprintf(
			"apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: {app: web}}\n%s\n",
			cases[i].status);
		auto_free char *leaving =
			xasprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: p, "
				  "labels: {app: web}, deletionTimestamp: "
				  "\"2026-11-21T00:00:00Z\"}\n%s\n",
				cases[i].status);

		kit_say(kit_cluster, "p.yaml", pod);
		assert_non_null(strstr(endpoints_of(kit_cluster), cases[i].flags));
		kit_say(kit_cluster, "p.yaml", leaving);
		assert_non_null(strstr(endpoints_of(kit_cluster),
			strcmp(cases[i].flags, "\"flags\":3") == 0 ? "\"flags\":6"
								   : "\"flags\":4"));
	}
	kit_say(kit_cluster, "p.yaml",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: {app: web}}\n"
		"status: {phase: Failed, podIP: 10.0.0.1}\n");
	assert_string_equal(endpoints_of(kit_cluster), "[]}]}");
	kit_say(kit_cluster, "p.yaml",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: {app: web}}\n"
		"status: {phase: Pending, podIP: 10.0.0.1}\n");
	assert_non_null(strstr(endpoints_of(kit_cluster), "\"flags\":0"));
	kit_say(kit_cluster, "s.yaml", SERVICE("s", "publishNotReadyAddresses: true, " NUMBER));
	assert_non_null(strstr(endpoints_of(kit_cluster), "\"flags\":1"));
}

static void
slices_before_endpoints_before_selector(void **state)
{
	(void)state;
	kit_say(kit_cluster, "s.yaml",
		SERVICE("s", NUMBER) POD("a", "n", "containers: []", IPS("10.0.0.1", "192.0.2.1")));
	assert_non_null(strstr(endpoints_of(kit_cluster), "\"podIP\":\"10.0.0.1\""));
	kit_say(kit_cluster, "e.yaml",
		"apiVersion: v1\nkind: Endpoints\nmetadata: {name: s}\nsubsets:\n"
		"- {addresses: [{ip: 10.0.0.2}], notReadyAddresses: [{ip: 10.0.0.3}], ports: "
		"[{port: 7}]}\n");
	assert_string_equal(endpoints_of(kit_cluster),
		"[{\"flags\":3,\"givenIP\":\"10.0.0.2\",\"givenPort\":7},"
		"{\"flags\":0,\"givenIP\":\"10.0.0.3\",\"givenPort\":7}]}]}");
	kit_say(kit_cluster, "l.yaml", SLICE("s-1", "s", "{port: 8}", "{addresses: [10.0.0.4]}"));
	assert_string_equal(endpoints_of(kit_cluster),
		"[{\"flags\":3,\"givenIP\":\"10.0.0.4\",\"givenPort\":8}]}]}");
	/* A slice of the wrong port is still who decides. */
	kit_say(kit_cluster, "l.yaml",
		SLICE("s-1", "s", "{port: 8, name: x}", "{addresses: [10.0.0.4]}"));
	assert_string_equal(endpoints_of(kit_cluster), "[]}]}");
	assert_non_null(strstr(cluster_reason(kit_cluster, "default", "s"), "no port named ''"));
	cluster_replace(kit_cluster, "l.yaml", NULL);
	assert_non_null(strstr(endpoints_of(kit_cluster), "10.0.0.2"));
	cluster_replace(kit_cluster, "e.yaml", NULL);
	assert_non_null(strstr(endpoints_of(kit_cluster), "\"podIP\":\"10.0.0.1\""));
}

static void
slices_are_joined_to_pods(void **state)
{
	(void)state;
	kit_say(kit_cluster, "l.yaml",
		SERVICE("s", NUMBER) SLICE("s-1", "s", "{port: 8080}",
			"{addresses: [172.17.0.2], nodeName: n1, targetRef: {kind: Pod, name: a}},"
			"{addresses: [172.17.0.2], nodeName: n2}"));
	assert_string_equal(endpoints_of(kit_cluster),
		"[{\"node\":\"n2\",\"flags\":3,\"givenIP\":\"172.17.0.2\",\"givenPort\":8080}]}]}");
	kit_say(kit_cluster, "a.yaml",
		POD("a", "n1", "containers: [{ports: [{containerPort: 8080, hostPort: 5}]}]",
			IPS("172.17.0.2", "192.0.2.1")));
	assert_non_null(strstr(endpoints_of(kit_cluster), "\"pod\":\"a\""));
	/* Found by node and address; the same address on another node is another pod. */
	kit_say(kit_cluster, "b.yaml",
		POD("b", "n2", "containers: [{ports: [{containerPort: 8080, hostPort: 6}]}]",
			IPS("172.17.0.2", "192.0.2.2")));
	assert_string_equal(endpoints_of(kit_cluster),
		"[{\"node\":\"n1\",\"pod\":\"a\",\"flags\":3,\"podIP\":\"172.17.0.2\",\"podPort\":"
		"8080,"
		"\"hostIP\":\"192.0.2.1\",\"hostPort\":5},"
		"{\"node\":\"n2\",\"pod\":\"b\",\"flags\":3,\"podIP\":\"172.17.0.2\",\"podPort\":"
		"8080,"
		"\"hostIP\":\"192.0.2.2\",\"hostPort\":6}]}]}");
}

/* A Pod that was evicted or force-deleted goes before its slice says so. Its address is another
 * pod's on other nodes. */
static void
the_endpoint_of_a_pod_that_is_gone_is_left_out(void **state)
{
	(void)state;
	kit_say(kit_cluster, "l.yaml",
		SERVICE("s", NUMBER) SLICE("s-1", "s", "{port: 8080}",
			"{addresses: [172.17.0.2], nodeName: n1, targetRef: {kind: Pod, name: b}},"
			"{addresses: [172.17.0.3], nodeName: n1, targetRef: {kind: Pod, name: "
			"a}}"));
	assert_string_equal(endpoints_of(kit_cluster), "[]}]}");
	assert_string_equal(cluster_reason(kit_cluster, "default", "s"),
		"port 80: no pod with an address; its endpoints name pods that do not exist, such "
		"as a");
	kit_say(kit_cluster, "p.yaml",
		POD("a", "n1", "containers: []", IPS("172.17.0.3", "192.0.2.1"))
			POD("b", "n1", "containers: []", IPS("172.17.0.2", "192.0.2.1")));
	assert_non_null(strstr(endpoints_of(kit_cluster), "172.17.0.2"));
	kit_say(kit_cluster, "p.yaml",
		POD("a", "n1", "containers: []", IPS("172.17.0.3", "192.0.2.1")));
	assert_string_equal(endpoints_of(kit_cluster),
		"[{\"node\":\"n1\",\"pod\":\"a\",\"flags\":3,\"podIP\":\"172.17.0.3\",\"podPort\":"
		"8080,\"hostIP\":\"192.0.2.1\"}]}]}");
}

static void
doubles_over_slices_are_one_and_the_better_stays(void **state)
{
	(void)state;
	kit_say(kit_cluster, "l.yaml",
		SERVICE("s", NUMBER) SLICE("s-1", "s", "{port: 8080}",
			"{addresses: [10.0.0.1], conditions: {ready: false}}")
			SLICE("s-2", "s", "{port: 8080}", "{addresses: [10.0.0.1]}")
				SLICE("s-3", "s", "{port: 8081}", "{addresses: [10.0.0.1]}"));
	assert_string_equal(endpoints_of(kit_cluster),
		"[{\"flags\":3,\"givenIP\":\"10.0.0.1\",\"givenPort\":8080},"
		"{\"flags\":3,\"givenIP\":\"10.0.0.1\",\"givenPort\":8081}]}]}");
}

static void
sites_and_public_addresses_come_from_nodes(void **state)
{
	const char *site, *zone;

	(void)state;
	kit_say(kit_cluster, "s.yaml",
		SERVICE("s", NUMBER) POD("a", "n1",
			"containers: [{ports: [{containerPort: 8080, hostPort: 5}]}]",
			IPS("172.17.0.2", "10.1.1.1")));
	kit_drop_changes(kit_cluster);
	kit_say(kit_cluster, "n.yaml",
		NODE("n1", "edgeway.io/site: s1, topology.kubernetes.io/zone: z1",
			"{type: ExternalIP, address: 198.51.100.9}"));
	assert_non_null(
		strstr(endpoints_of(kit_cluster), "\"site\":\"s1\",\"zone\":\"z1\",\"pod\""));
	kit_say(kit_cluster, "n.yaml",
		NODE("n1", "topology.kubernetes.io/zone: z1, edgeway.io/public: \"true\"",
			"{type: ExternalIP, address: 198.51.100.9}"));
	assert_string_equal(endpoints_of(kit_cluster),
		"[{\"node\":\"n1\",\"site\":\"z1\",\"zone\":\"z1\",\"public\":true,\"pod\":\"a\","
		"\"flags\":3,"
		"\"podIP\":\"172.17.0.2\",\"podPort\":8080,\"hostIP\":\"10.1.1.1\",\"hostPort\":5,"
		"\"publicIP\":\"198.51.100.9\"}]}]}");
	/* What does not matter here wakes nobody. */
	kit_say(kit_cluster, "n.yaml",
		NODE("n1", "topology.kubernetes.io/zone: z1, edgeway.io/public: \"true\", x: y",
			"{type: ExternalIP, address: 198.51.100.9}"));
	assert_false(cluster_dirty(kit_cluster));
	assert_int_equal(cluster_node(kit_cluster, "n1", &site, &zone), 0);
	assert_string_equal(site, "z1");
	assert_int_equal(cluster_node(kit_cluster, "n2", &site, &zone), -ENOENT);
	assert_string_equal(site, "");
}

static void
protocol_of_a_port(void **state)
{
	static const struct {
		const char *port, *mode;
	} cases[] = {
		{"name: http", "http"},
		{"name: http-admin", "http"},
		{"name: http8080", "http"},
		{"name: http1-x", "http"},
		{"name: ws", "http"},
		{"name: ws-chat", "http"},
		{"name: https", "tcp"},
		{"name: https-1", "tcp"},
		{"name: http2", "http"},
		{"name: http2-x", "http"},
		{"name: h2c", "http"},
		{"name: http3", "tcp"},
		{"name: httpd", "tcp"},
		{"name: grpc", "http"},
		{"name: grpc-admin", "http"},
		{"name: grpcs", "tcp"},
		{"name: \"\"", "tcp"},
		{"name: tcp-http", "tcp"},
		{"name: wss", "tcp"},
		{"name: http, appProtocol: kubernetes.io/h2c", "http"},
		{"name: x, appProtocol: grpc", "http"},
		{"name: x, appProtocol: http2", "http"},
		{"name: http, appProtocol: https", "tcp"},
		{"name: x, appProtocol: http", "http"},
		{"name: x, appProtocol: kubernetes.io/ws", "http"},
		{"name: http, protocol: UDP", "udp"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_free char *yaml =
			xasprintf(SERVICE("s", "ports: [{port: 1, %s}]"), cases[i].port);
		auto_free char *want = xasprintf("\"mode\":\"%s\"", cases[i].mode);
		struct cluster *c = cluster_new();

		kit_say(c, "s.yaml", yaml);
		if (strstr(only_change(c), want) == NULL)
			fail_msg("%s is not %s", cases[i].port, cases[i].mode);
		cluster_free(&c);
	}
	kit_say(kit_cluster, "s.yaml", SERVICE("s", "ports: [{port: 1, protocol: SCTP}]"));
	assert_string_equal(
		only_change(kit_cluster), "{\"ns\":\"default\",\"name\":\"s\",\"ports\":[]}");
}

static void
services_that_are_not_ours_have_no_view(void **state)
{
	(void)state;
	kit_say(kit_cluster, "s.yaml",
		"apiVersion: v1\nkind: Service\nmetadata: {name: a, labels: {edgeway.io/mesh: "
		"\"false\"}}\n"
		"---\napiVersion: v1\nkind: Service\nmetadata: {name: b, labels: "
		"{service.kubernetes.io/service-proxy-name: other}}\n");
	assert_string_equal(only_change(kit_cluster), "none");
	kit_say(kit_cluster, "s.yaml",
		"apiVersion: v1\nkind: Service\nmetadata: {name: a}\n"
		"spec: {type: ExternalName, externalName: db.example.com.}\n");
	assert_string_equal(only_change(kit_cluster),
		"{\"ns\":\"default\",\"name\":\"a\",\"externalName\":\"db.example.com\",\"ports\":["
		"]}");
	kit_say(kit_cluster, "s.yaml",
		"apiVersion: v1\nkind: Service\nmetadata: {name: a, annotations: {edgeway.io/mesh: "
		"\"false\"}}\n");
	assert_string_equal(only_change(kit_cluster), "gone");
}

static void
only_affected_services_are_looked_at(void **state)
{
	(void)state;
	kit_say(kit_cluster, "s.yaml", SERVICE("s", NUMBER));
	kit_say(kit_cluster, "t.yaml", SERVICE("t", "selector: {app: other}, ports: [{port: 1}]"));
	assert_int_equal(kit_drop_changes(kit_cluster), 2);
	kit_say(kit_cluster, "p.yaml", POD("a", "n", "containers: []", "podIP: 10.0.0.1"));
	assert_int_equal(kit_drop_changes(kit_cluster), 1);
	/* Said again without a difference. */
	kit_say(kit_cluster, "p.yaml", POD("a", "n", "containers: []", "podIP: 10.0.0.1"));
	assert_int_equal(kit_drop_changes(kit_cluster), 0);
	kit_say(kit_cluster, "q.yaml",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: z, labels: {app: nobody}}\n");
	assert_false(cluster_dirty(kit_cluster));
	cluster_replace(kit_cluster, "s.yaml", NULL);
	assert_string_equal(only_change(kit_cluster), "gone");
	assert_false(cluster_dirty(kit_cluster));
}

static void
two_sources_for_one_object(void **state)
{
	(void)state;
	kit_say(kit_cluster, "b.yaml", SERVICE("s", "ports: [{port: 2}]"));
	assert_non_null(strstr(only_change(kit_cluster), "\"port\":2"));
	kit_say(kit_cluster, "a.yaml", SERVICE("s", "ports: [{port: 1}]"));
	assert_non_null(strstr(only_change(kit_cluster), "\"port\":1"));
	kit_say(kit_cluster, "b.yaml", SERVICE("s", "ports: [{port: 3}]"));
	assert_string_equal(only_change(kit_cluster), "none");
	assert_false(cluster_remove(kit_cluster, "c.yaml", KUBE_SERVICE, "default", "s"));
	assert_true(cluster_remove(kit_cluster, "a.yaml", KUBE_SERVICE, "default", "s"));
	assert_non_null(strstr(only_change(kit_cluster), "\"port\":3"));
	assert_int_equal(cluster_count(kit_cluster, KUBE_SERVICE), 1);
	assert_true(cluster_remove(kit_cluster, "b.yaml", KUBE_SERVICE, "default", "s"));
	assert_string_equal(only_change(kit_cluster), "gone");
	assert_int_equal(cluster_count(kit_cluster, KUBE_SERVICE), 0);
}

static void
a_refused_object_keeps_its_last_good_form(void **state)
{
	struct kube_batch b;
	struct tree *t;
	static const char half[] =
		SERVICE("s", "ports: [{port: 0}]") SERVICE("u", "ports: [{port: 9}]");

	(void)state;
	kit_say(kit_cluster, "a.yaml", SERVICE("s", "ports: [{port: 1}]"));
	kit_drop_changes(kit_cluster);
	assert_int_equal(tree_parse(&t, "a.yaml", half, strlen(half), NULL), 0);
	kube_read(&b, t);
	tree_free(&t);
	assert_int_equal(b.n_wrong, 1);
	cluster_replace(kit_cluster, "a.yaml", &b);
	kube_batch_fini(&b);
	assert_non_null(strstr(only_change(kit_cluster), "\"name\":\"u\""));
	assert_int_equal(cluster_count(kit_cluster, KUBE_SERVICE), 2);
}

/* --- a real server's objects ---------------------------------------------------------------- */

struct told {
	char *name, *json;
};

static struct told *
collect(struct cluster *c, size_t *n)
{
	struct told *list = xcalloc(256, sizeof *list);
	struct cluster_change change;

	for (*n = 0; cluster_next_change(c, &change);) {
		assert_true(*n < 256);
		if (change.view != NULL)
			list[(*n)++] =
				(struct told){take_ptr(&change.name), take_ptr(&change.json)};
		cluster_change_fini(&change);
	}
	return list;
}

static const char *
json_of(const struct told *list, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(list[i].name, name) == 0)
			return list[i].json;
	return NULL;
}

static void
free_told(struct told *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(list[i].name);
		free(list[i].json);
	}
	free(list);
}

/* The EndpointSlice controller and our own join of selector and pods must agree. */
static void
selector_gives_what_the_slice_controller_gave(void **state)
{
	struct cluster *by_selector = cluster_new();
	struct told *a, *b;
	size_t n_a, n_b;

	(void)state;
	say_data(kit_cluster, "services.json");
	say_data(kit_cluster, "pods.json");
	say_data(kit_cluster, "nodes.json");
	say_data(kit_cluster, "endpointslices.json");
	say_data(by_selector, "nodes.json");
	say_data(by_selector, "pods.json");
	say_data(by_selector, "services.json");
	a = collect(kit_cluster, &n_a);
	b = collect(by_selector, &n_b);
	assert_int_equal(n_a, 14); /* 13 services and the name db-0.db */
	assert_int_equal(n_b, 14);
	for (size_t i = 0; i < n_a; i++) {
		/* Two have no selector, and the hints of `near` are the controller's. */
		if (strcmp(a[i].name, "manual") != 0 && strcmp(a[i].name, "kubernetes") != 0 &&
			strcmp(a[i].name, "near") != 0)
			assert_string_equal(a[i].json, json_of(b, n_b, a[i].name));
	}
	assert_string_equal(json_of(a, n_a, "nginx"),
		"{\"ns\":\"default\",\"name\":\"nginx\",\"clusterIP\":\"10.96.51.67\",\"ports\":[{"
		"\"name\":"
		"\"http\",\"port\":80,\"mode\":\"http\",\"endpoints\":[{\"node\":\"edge-1\","
		"\"site\":\"edge-a\","
		"\"zone\":\"edge-a\",\"pod\":\"nginx-edge-1\",\"flags\":3,\"podIP\":\"10.244.1.5\","
		"\"podPort\":80,\"hostIP\":\"192.0.2.21\",\"hostPort\":8080},{\"node\":\"edge-2\","
		"\"site\":"
		"\"edge-b\",\"zone\":\"edge-b\",\"pod\":\"nginx-edge-2\",\"flags\":3,\"podIP\":"
		"\"10.244.2.5\","
		"\"podPort\":8000,\"hostIP\":\"192.0.2.22\"}]}]}");
	assert_non_null(strstr(json_of(b, n_b, "near"), "\"distribution\":\"node\""));
	assert_non_null(strstr(
		json_of(a, n_a, "near"), "\"hintZones\":[\"edge-b\"],\"hintNodes\":[\"edge-2\"]"));
	assert_non_null(strstr(json_of(a, n_a, "db"), "\"hostname\":\"db-0\",\"flags\":1"));
	assert_non_null(strstr(
		json_of(a, n_a, "manual"), "\"givenIP\":\"198.51.100.7\",\"givenPort\":8443"));
	free_told(a, n_a);
	free_told(b, n_b);
	cluster_free(&by_selector);
}

static void
annotations_are_in_the_view(void **state)
{
	(void)state;
	kit_say(kit_cluster, "s.yaml",
		"apiVersion: v1\nkind: Service\nmetadata: {name: s, annotations: "
		"{edgeway.io/hash-on: "
		"\"header:X-User\", edgeway.io/retries: 2, edgeway.io/health-path: /ok}}\n"
		"spec: {internalTrafficPolicy: Local, sessionAffinity: ClientIP}\n");
	assert_string_equal(only_change(kit_cluster),
		"{\"ns\":\"default\",\"name\":\"s\",\"policy\":\"consistent-hash\",\"affinity\":"
		"10800,"
		"\"hashOn\":\"header:X-User\",\"retries\":2,\"healthPath\":\"/"
		"ok\",\"localOnly\":true,"
		"\"ports\":[]}");
}

static void
endpoints_give_the_same_as_slices(void **state)
{
	struct cluster *old = cluster_new();
	struct told *a, *b;
	size_t n_a, n_b;

	(void)state;
	say_data(kit_cluster, "services.json");
	say_data(kit_cluster, "pods.json");
	say_data(kit_cluster, "endpointslices.json");
	say_data(old, "services.json");
	say_data(old, "pods.json");
	say_data(old, "endpoints.json");
	a = collect(kit_cluster, &n_a);
	b = collect(old, &n_b);
	assert_string_equal(json_of(a, n_a, "kubernetes"), json_of(b, n_b, "kubernetes"));
	for (size_t i = 0; i < n_a; i++)
		assert_non_null(json_of(b, n_b, a[i].name));
	free_told(a, n_a);
	free_told(b, n_b);
	cluster_free(&old);
}

/* From no address over ready, not ready and terminating to gone. */
static void
life_of_a_pod(void **state)
{
	static const char *const flags[] = {"\"flags\":0", "\"flags\":3", "\"flags\":0",
		"\"flags\":3", "\"flags\":6", "\"flags\":4", "\"endpoints\":[]"};
	struct kube_batch b;

	(void)state;
	kit_say(kit_cluster, "s.yaml",
		SERVICE("life", "selector: {app: life}, ports: [{name: http, port: 80}]")
			POD("life", "edge-1", "containers: []", IPS("10.244.1.77", "192.0.2.1")));
	kit_drop_changes(kit_cluster);
	kit_read_data(&b, "life-slices.json");
	assert_int_equal(b.n, ARRAY_LEN(flags));
	for (size_t i = 0; i < b.n; i++) {
		cluster_put(kit_cluster, "", &b.objects[i]);
		assert_non_null(strstr(only_change(kit_cluster), flags[i]));
	}
	kube_batch_fini(&b);
}

static char *
many_endpoints(unsigned n)
{
	auto_buf struct buf text;

	buf_init(&text, BUF_UNLIMITED);
	buf_adds(&text, "apiVersion: v1\nkind: Service\nmetadata: {name: big}\nspec: {ports: [");
	for (unsigned i = 0; i < 10; i++)
		buf_printf(&text, "%s{name: p%u, port: %u}", i > 0 ? ", " : "", i, 80 + i);
	buf_adds(&text,
		"]}\n---\napiVersion: v1\nkind: Endpoints\nmetadata: {name: big}\nsubsets: "
		"[{ports: [");
	for (unsigned i = 0; i < 10; i++)
		buf_printf(&text, "%s{name: p%u, port: %u}", i > 0 ? ", " : "", i, 8000 + i);
	buf_adds(&text, "], addresses: [");
	for (unsigned i = 0; i < n; i++)
		buf_printf(&text, "%s{ip: 10.1.%u.%u}", i > 0 ? ", " : "", i / 250, 1 + i % 250);
	buf_adds(&text, "]}]\n");
	return buf_take_str(&text);
}

static void
note_is(const char *what)
{
	auto_free char *note = cluster_next_note(kit_cluster);

	if (note == NULL || strncmp(note, what, strlen(what)) != 0)
		fail_msg("\"%s\", not \"%s\"", note != NULL ? note : "nothing", what);
	assert_null(cluster_next_note(kit_cluster));
}

/* What is just within the limits every node can read; beyond them it is not told, and what was told
 * before stays. */
static void
limits_of_a_view(void **state)
{
	auto_free char *least = many_endpoints(1), *most = many_endpoints(4995),
		       *beyond = many_endpoints(5000), *far = many_endpoints(6000);
	struct cluster_change change;
	struct view *v;
	struct err err = {0};

	(void)state;
	kit_say(kit_cluster, "big", beyond);
	assert_int_equal(kit_drop_changes(kit_cluster), 0);
	assert_true(cluster_beyond(kit_cluster, "default", "big"));
	assert_string_equal(cluster_reason(kit_cluster, "default", "big"),
		"beyond what a node takes: its 50000 endpoints at 10 ports need a message of "
		"200054 JSON values, at most 199936 are "
		"allowed");
	note_is("a service is refused, nodes keep what they know of it; split it");
	kit_say(kit_cluster, "big", most);
	assert_true(cluster_next_change(kit_cluster, &change));
	if (view_parse(&v, change.json, change.json_len, &err) < 0)
		fail_msg("%s", err.text);
	view_free(&v);
	cluster_change_fini(&change);
	assert_false(cluster_beyond(kit_cluster, "default", "big"));
	note_is("a service is within the limits again service=default/big");
	/* 5000 at each port are kept, of more than are told. */
	kit_say(kit_cluster, "big", far);
	assert_int_equal(kit_drop_changes(kit_cluster), 0);
	assert_true(cluster_beyond(kit_cluster, "default", "big"));
	note_is("a service is refused");
	kit_say(kit_cluster, "big", beyond);
	assert_int_equal(kit_drop_changes(kit_cluster), 0);
	assert_null(cluster_next_note(kit_cluster));
	/* As it was told last: no change. */
	kit_say(kit_cluster, "big", most);
	assert_int_equal(kit_drop_changes(kit_cluster), 0);
	assert_false(cluster_beyond(kit_cluster, "default", "big"));
	free(cluster_next_note(kit_cluster));
	kit_say(kit_cluster, "big", least);
	assert_int_equal(kit_drop_changes(kit_cluster), 1);
	kit_say(kit_cluster, "big", beyond);
	cluster_replace(kit_cluster, "big", NULL);
	assert_string_equal(only_change(kit_cluster), "gone");
}

#define T(name) cmocka_unit_test_setup_teardown(name, kit_setup, kit_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(named_port_is_resolved_in_each_pod),
		T(each_way_to_reach_a_pod),
		T(refused_addresses_are_told),
		T(conditions_of_pods),
		T(slices_before_endpoints_before_selector),
		T(slices_are_joined_to_pods),
		T(the_endpoint_of_a_pod_that_is_gone_is_left_out),
		T(doubles_over_slices_are_one_and_the_better_stays),
		T(sites_and_public_addresses_come_from_nodes),
		T(protocol_of_a_port),
		T(services_that_are_not_ours_have_no_view),
		T(only_affected_services_are_looked_at),
		T(two_sources_for_one_object),
		T(a_refused_object_keeps_its_last_good_form),
		T(selector_gives_what_the_slice_controller_gave),
		T(annotations_are_in_the_view),
		T(endpoints_give_the_same_as_slices),
		T(life_of_a_pod),
		T(limits_of_a_view),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
