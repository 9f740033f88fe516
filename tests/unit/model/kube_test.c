#include "tests/unit/model/kube_kit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void
read_text(struct kube_batch *b, const char *text)
{
	kit_read(b, "m.yaml", text);
}

static void
read_data(struct kube_batch *b, const char *name)
{
	kit_read_data(b, name);
	if (b->n_complaints > 0)
		fail_msg("%s", b->complaints[0]);
}

static const struct kube_object *
named(const struct kube_batch *b, const char *name)
{
	for (size_t i = 0; i < b->n; i++)
		if (strcmp(b->objects[i]->name, name) == 0)
			return b->objects[i];
	fail_msg("no object %s", name);
	return NULL;
}

static void
services_of_a_real_server(void **state)
{
	struct kube_batch b;
	const struct kube_service *s;

	(void)state;
	read_data(&b, "services.json");
	assert_int_equal(b.n, 13);
	s = &named(&b, "edge-nginx")->service;
	assert_true(s->headless);
	assert_string_equal(s->cluster_ip, "");
	assert_int_equal(s->ports[0].port, 18080);
	assert_int_equal(s->ports[0].target, 80);
	assert_int_equal(s->selector.n, 2);
	s = &named(&b, "dns")->service;
	assert_int_equal(s->n_ports, 3);
	assert_int_equal(s->ports[0].protocol, KUBE_UDP);
	assert_string_equal(s->ports[0].target_name, "dns");
	assert_int_equal(s->ports[0].target, 0);
	s = &named(&b, "dual")->service;
	assert_string_equal(s->cluster_ip, "10.96.191.192");
	s = &named(&b, "outside")->service;
	assert_string_equal(s->external_name, "db.example.com");
	assert_int_equal(s->n_ports, 0);
	s = &named(&b, "sticky")->service;
	assert_int_equal(s->lb.affinity_s, 600);
	assert_string_equal(s->ports[0].name, "");
	assert_true(named(&b, "db")->service.publish_not_ready);
	assert_string_equal(named(&b, "manual")->service.ports[0].app_protocol, "https");
	assert_int_equal(named(&b, "manual")->service.selector.n, 0);
	assert_string_equal(named(&b, "manual")->ns, "default");
	kube_batch_fini(&b);
}

static void
pods_of_a_real_server(void **state)
{
	struct kube_batch b;
	const struct kube_pod *p;

	(void)state;
	read_data(&b, "pods.json");
	p = &named(&b, "nginx-edge-1")->pod;
	assert_string_equal(p->node, "edge-1");
	assert_string_equal(p->pod_ip, "10.244.1.5");
	assert_string_equal(p->host_ip, "192.0.2.21");
	assert_true(p->ready);
	assert_false(p->deleting || p->ended || p->host_network);
	assert_int_equal(p->n_ports, 1);
	assert_string_equal(p->ports[0].name, "http-0");
	assert_int_equal(p->ports[0].port, 80);
	assert_int_equal(p->ports[0].host_port, 8080);
	assert_true(named(&b, "agent-edge-1")->pod.host_network);
	assert_false(named(&b, "agent-edge-2")->pod.ready);
	assert_true(named(&b, "batch-done")->pod.ended);
	assert_string_equal(named(&b, "db-0")->pod.hostname, "db-0");
	assert_string_equal(named(&b, "db-0")->pod.subdomain, "db");
	kube_batch_fini(&b);
	read_data(&b, "life-pods.json");
	assert_int_equal(b.n, 10);
	assert_string_equal(b.objects[0]->pod.pod_ip, "");
	assert_true(b.objects[9]->pod.deleting);
	kube_batch_fini(&b);
}

static void
slices_endpoints_and_nodes_of_a_real_server(void **state)
{
	struct kube_batch b;
	const struct kube_endpoints *e;

	(void)state;
	read_data(&b, "endpointslices.json");
	e = &named(&b, "manual-1")->endpoints;
	assert_string_equal(e->service, "manual");
	assert_int_equal(e->subsets[0].n_endpoints, 2);
	/* "conditions": {} */
	assert_int_equal(e->subsets[0].endpoints[1].flags, ENDPOINT_READY | ENDPOINT_SERVING);
	assert_string_equal(e->subsets[0].endpoints[1].zone, "edge-b");
	assert_string_equal(e->subsets[0].endpoints[1].pod, "");
	assert_int_equal(e->subsets[0].ports[0].port, 8443);
	kube_batch_fini(&b);
	read_data(&b, "life-slices.json");
	assert_int_equal(b.objects[4]->endpoints.subsets[0].endpoints[0].flags,
		ENDPOINT_SERVING | ENDPOINT_TERMINATING);
	assert_string_equal(b.objects[4]->endpoints.subsets[0].endpoints[0].pod, "life");
	/* "endpoints": null, "ports": null */
	assert_int_equal(b.objects[6]->endpoints.subsets[0].n_endpoints, 0);
	kube_batch_fini(&b);
	read_data(&b, "endpoints.json");
	assert_string_equal(named(&b, "nginx")->endpoints.service, "nginx");
	assert_int_equal(named(&b, "nginx")->endpoints.n_subsets, 2);
	kube_batch_fini(&b);
	read_data(&b, "nodes.json");
	assert_string_equal(named(&b, "edge-2")->node.site, "edge-b");
	assert_string_equal(named(&b, "edge-2")->ns, "");
	assert_false(named(&b, "edge-2")->node.is_public);
	kube_batch_fini(&b);
}

static void
sidecars_count_and_other_init_containers_do_not(void **state)
{
	struct kube_batch b;

	(void)state;
	read_text(&b,
		"apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: null}\nspec:\n"
		"  containers: null\n  initContainers:\n"
		"  - {name: a, ports: [{containerPort: 1}]}\n"
		"  - {name: b, restartPolicy: Always, ports: [{containerPort: 2, hostPort: 22,"
		" hostIP: 0.0.0.0}, {containerPort: 3, hostPort: 33, hostIP: 127.0.0.1,"
		" protocol: UDP}]}\n");
	assert_int_equal(b.n, 1);
	assert_int_equal(b.objects[0]->pod.n_ports, 2);
	assert_int_equal(b.objects[0]->pod.ports[0].port, 2);
	assert_string_equal(b.objects[0]->pod.ports[0].host_ip, "");
	assert_string_equal(b.objects[0]->pod.ports[1].host_ip, "127.0.0.1");
	assert_false(b.objects[0]->pod.ready);
	kube_batch_fini(&b);
}

static void
absent_conditions_have_their_meaning(void **state)
{
	static const struct {
		const char *conditions;
		uint8_t flags;
	} cases[] = {
		{"null", 3},
		{"{}", 3},
		{"{ready: null, serving: null}", 3},
		{"{ready: true}", 3},
		{"{ready: false}", 0},
		{"{ready: false, serving: true}", 2},
		{"{ready: true, serving: false}", 1},
		{"{ready: false, terminating: true}", 4},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_free char *text = xasprintf(
			"apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: "
			"s}\n"
			"addressType: IPv4\nendpoints: [{addresses: [10.0.0.1], conditions: %s}]\n",
			cases[i].conditions);
		struct kube_batch b;

		read_text(&b, text);
		assert_int_equal(b.n, 1);
		assert_string_equal(b.objects[0]->endpoints.service, "");
		assert_int_equal(
			b.objects[0]->endpoints.subsets[0].endpoints[0].flags, cases[i].flags);
		kube_batch_fini(&b);
	}
}

/* Names cannot be dialled. */
static void
slices_of_names_are_as_if_not_there(void **state)
{
	struct kube_batch b;

	(void)state;
	read_text(&b,
		"apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n"
		"metadata: {name: s-1, labels: {kubernetes.io/service-name: s}}\n"
		"addressType: FQDN\nendpoints: [{addresses: [db.example.com]}]\n");
	assert_int_equal(b.n, 1);
	assert_int_equal(b.n_wrong, 0);
	assert_string_equal(b.objects[0]->endpoints.service, "");
	assert_int_equal(b.objects[0]->endpoints.n_subsets, 0);
	kube_batch_fini(&b);
}

static void
nodes_say_where_they_are(void **state)
{
	struct kube_batch b;

	(void)state;
	read_text(&b,
		"apiVersion: v1\nkind: Node\nmetadata:\n  name: n\n  labels:\n"
		"    edgeway.io/site: plant-7\n    topology.kubernetes.io/zone: z\n"
		"    edgeway.io/public: \"true\"\nstatus:\n  addresses:\n"
		"  - {type: InternalIP, address: 10.0.0.1}\n"
		"  - {type: ExternalIP, address: \"2001:db8::9\"}\n"
		"  - {type: ExternalIP, address: 198.51.100.9}\n");
	assert_string_equal(b.objects[0]->node.site, "plant-7");
	assert_string_equal(b.objects[0]->node.zone, "z");
	assert_true(b.objects[0]->node.is_public);
	assert_string_equal(b.objects[0]->node.public_ip, "198.51.100.9");
	kube_batch_fini(&b);
}

static void
other_kinds_are_skipped_and_good_ones_load(void **state)
{
	struct kube_batch b;

	(void)state;
	read_text(&b,
		"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\n---\n"
		"apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata: {name: k}\n---\n"
		"apiVersion: v1\nkind: Service\nmetadata:\n  name: Bad_Name\n---\n"
		"apiVersion: v1\nkind: List\nitems:\n"
		"- {apiVersion: v1, kind: Service, metadata: {name: one}}\n"
		"- {apiVersion: v1, kind: Service, metadata: {name: two, namespace: x},"
		" spec: {ports: [{port: 0}]}}\n"
		"- {apiVersion: v1, kind: Node, metadata: {name: three}}\n---\n"
		"apiVersion: v1\nkind: PodList\nitems: null\n---\n"
		"- 1\n");
	assert_int_equal(b.n, 2);
	assert_string_equal(b.objects[0]->name, "one");
	assert_string_equal(b.objects[1]->name, "three");
	assert_int_equal(b.n_skipped, 2);
	assert_int_equal(b.n_wrong, 3);
	assert_int_equal(b.n_complaints, 3);
	assert_string_equal(b.complaints[0], "m.yaml:12: name: 'Bad_Name' is not allowed here");
	assert_string_equal(b.complaints[1], "m.yaml:18: port: a port from 1 to 65535 expected");
	assert_non_null(strstr(b.complaints[2], "m.yaml:25: "));
	kube_batch_fini(&b);
}

static void
misspelt_kinds_are_told(void **state)
{
	static const struct {
		const char *head, *want; /* NULL: skipped */
	} cases[] = {
		{"apiVersion: v1\nkind: Servce\n",
			"m.yaml:2: kind 'Servce' is not known: is Service meant?"},
		{"apiVersion: v1\nkind: pod\n", "m.yaml:2: kind 'pod' is not known: is Pod meant?"},
		{"apiVersion: discovery.k8s.io/v1\nkind: EndpointSlices\n",
			"m.yaml:2: kind 'EndpointSlices' is not known: is EndpointSlice meant?"},
		{"kind: Service\napiVersion: v2\n",
			"m.yaml:2: apiVersion 'v2' of a Service is not known: write v1"},
		{"apiVersion: discovery.k8s.i/v1\nkind: EndpointSlice\n",
			("m.yaml:1: apiVersion 'discovery.k8s.i/v1' of a EndpointSlice is not "
			 "known: write discovery.k8s.io/v1")},
		{"apiVersion: serving.knative.dev/v1\nkind: Service\n", NULL},
		{"apiVersion: batch/v1\nkind: Job\n", NULL},
		{"apiVersion: v1\nkind: Secret\n", NULL},
		{"apiVersion: example.org/v1\nkind: Services\n", NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_free char *text = xasprintf("%smetadata: {name: a}\n", cases[i].head);
		struct kube_batch b;

		read_text(&b, text);
		assert_int_equal(b.n, 0);
		assert_int_equal(b.n_wrong, cases[i].want != NULL);
		assert_int_equal(b.n_skipped, cases[i].want == NULL);
		if (cases[i].want != NULL)
			assert_string_equal(b.complaints[0], cases[i].want);
		kube_batch_fini(&b);
	}
}

#define A_SERVICE "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec:\n"
#define POD "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
#define A_SLICE                                                                                    \
	"apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n"                                   \
	"metadata: {name: s-1, labels: {kubernetes.io/service-name: s}}\n"

static void
refuses_with_file_line_and_reason(void **state)
{
	static const struct {
		const char *text, *complaint;
	} cases[] = {
		{"kind: Service\nmetadata: {name: s}\n", "m.yaml:1: Service without apiVersion"},
		{"metadata: {name: s}\n", "m.yaml:1: a Kubernetes object with kind"},
		{"apiVersion: v1\nkind: Service\nmetadata:\n  namespace: x\n",
			"without metadata.name"},
		{A_SERVICE "  type: Magic\n", "m.yaml:5: type: 'Magic'"},
		{A_SERVICE "  clusterIP: 10.0.0.300\n", "m.yaml:5: clusterIP: '10.0.0.300'"},
		{A_SERVICE "  ports:\n  - port: 80\n    protocol: http\n",
			"m.yaml:7: protocol: 'http'"},
		{A_SERVICE "  ports:\n  - port: 65536\n", "m.yaml:6: port: a port from"},
		{A_SERVICE "  ports:\n  - name: a\n", "m.yaml:6: port: missing"},
		{A_SERVICE "  ports:\n  - {port: 80, targetPort: 0}\n",
			"m.yaml:6: targetPort: a port"},
		{A_SERVICE "  ports:\n  - {port: 80, targetPort: \"80\"}\n",
			"m.yaml:6: targetPort: a port"},
		{A_SERVICE "  ports:\n  - {port: 80}\n  - {port: 81}\n",
			"m.yaml:7: several ports need a name"},
		{A_SERVICE "  ports:\n  - {port: 80, name: a}\n  - {port: 80, name: b}\n",
			"m.yaml:7: port 80 twice"},
		{A_SERVICE "  ports: \"80\"\n", "m.yaml:5: ports: a list expected"},
		{A_SERVICE "  ports: {port: 80}\n", "m.yaml:5: ports: a list expected"},
		{A_SERVICE "  sessionAffinity: Cookie\n", "m.yaml:5: sessionAffinity"},
		{A_SERVICE "  sessionAffinity: ClientIP\n"
			   "  sessionAffinityConfig: {clientIP: {timeoutSeconds: 86401}}\n",
			"m.yaml:6: timeoutSeconds"},
		{A_SERVICE "  type: ExternalName\n  externalName: a_b\n", "m.yaml:6: externalName"},
		{A_SERVICE "  selector: [a]\n", "m.yaml:5: a map of labels"},
		{POD "spec:\n  containers:\n  - ports:\n    - {containerPort: 80, hostPort: -1}\n",
			"m.yaml:7: hostPort"},
		{POD "spec:\n  nodeName: A\n", "m.yaml:5: nodeName"},
		{POD "status: {podIP: here}\n", "m.yaml:4: podIP: 'here'"},
		{A_SLICE "addressType: IPv4\nendpoints:\n- addresses: [127.0.0.1]\n",
			"m.yaml:6: 127.0.0.1 is"},
		{A_SLICE "addressType: IPv4\nendpoints:\n- addresses: [169.254.1.1]\n",
			"link-local"},
		{A_SLICE "addressType: IPv4\nendpoints:\n- addresses: [x.example]\n",
			"is no IP address"},
		{A_SLICE "addressType: IPv4\nendpoints:\n- addresses: null\n",
			"m.yaml:6: '' is no IP"},
		{A_SLICE "addressType: IPv4\nendpoints: {addresses: [10.0.0.1]}\n",
			"m.yaml:5: endpoints: a list expected"},
		{POD "spec: {containers: main}\n", "m.yaml:4: containers: a list expected"},
		{"apiVersion: v1\nkind: List\nitems: {a: 1}\n", "items: a list expected"},
		{A_SLICE "endpoints: null\n", "addressType: IPv4, IPv6"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct kube_batch b;

		read_text(&b, cases[i].text);
		if (b.n != 0 || b.n_wrong != 1 || b.n_complaints != 1)
			fail_msg("%s: not refused", cases[i].text);
		if (strstr(b.complaints[0], cases[i].complaint) == NULL)
			fail_msg("'%s' is not '%s'", b.complaints[0], cases[i].complaint);
		kube_batch_fini(&b);
	}
}

static void
an_unknown_policy_is_told_but_keeps_the_service(void **state)
{
	struct kube_batch b;

	(void)state;
	read_text(&b,
		"apiVersion: v1\nkind: Service\nmetadata:\n  name: s\n  annotations:\n"
		"    edgeway.io/lb-policy: fastest\n---\n"
		"apiVersion: v1\nkind: Service\nmetadata:\n  name: t\n  annotations:\n"
		"    edgeway.io/lb-policy: ewma\n");
	assert_int_equal(b.n, 2);
	assert_int_equal(b.n_wrong, 0);
	assert_int_equal(b.n_complaints, 1);
	assert_non_null(strstr(b.complaints[0], "m.yaml:6: edgeway.io/lb-policy: 'fastest'"));
	assert_int_equal(b.objects[0]->service.lb.policy, LB_DEFAULT);
	assert_int_equal(b.objects[1]->service.lb.policy, LB_EWMA);
	kube_batch_fini(&b);
}

static void
annotations_that_are_no_map_are_told(void **state)
{
	struct kube_batch b;

	(void)state;
	read_text(&b,
		"apiVersion: v1\nkind: Service\nmetadata:\n  name: s\n  annotations:\n"
		"  - edgeway.io/lb-policy\n");
	assert_int_equal(b.n, 1);
	assert_int_equal(b.n_complaints, 1);
	assert_string_equal(
		b.complaints[0], "m.yaml:5: metadata.annotations: a map expected; none is read");
	kube_batch_fini(&b);
}

#define ANNOTATED(name, lines)                                                                     \
	"apiVersion: v1\nkind: Service\nmetadata:\n  name: " name "\n  annotations:\n" lines

static void
annotations_of_balancing(void **state)
{
	struct kube_batch b;
	const struct kube_service *s;

	(void)state;
	read_text(&b,
		ANNOTATED("s",
			"    edgeway.io/hash-on: cookie:session\n"
			"    edgeway.io/retries: \"0\"\n"
			"    edgeway.io/connect-timeout: 250ms\n"
			"    edgeway.io/request-timeout: 3s\n"
			"    edgeway.io/idle-timeout: 2m\n"
			"    edgeway.io/health-interval: 5s\n"
			"    edgeway.io/health-path: /healthz?full=1\n"
			"    edgeway.io/max-connections: 64\n"
			"    edgeway.io/slow-start: 30s\n"
			"    edgeway.io/hash-balance: 125\n"
			"    edgeway.io/outlier-5xx: 5\n"
			"    edgeway.io/outlier-time: 30s\n"
			"    edgeway.io/retry-on: \"503, 502\"\n"
			"    edgeway.io/encrypt: site\n"
			"    edgeway.io/datapath: kernel\n") "spec:\n  internalTrafficPolicy: "
							     "Local\n"
							     "  trafficDistribution: "
							     "PreferClose\n");
	assert_int_equal(b.n_complaints, 0);
	s = &named(&b, "s")->service;
	assert_int_equal(s->lb.policy, LB_CONSISTENT_HASH);
	assert_int_equal(s->lb.hash_on, HASH_ON_COOKIE);
	assert_string_equal(s->hash_key, "session");
	assert_int_equal(s->lb.retries, 0);
	assert_int_equal(s->lb.connect_ms, 250);
	assert_int_equal(s->lb.request_ms, 3000);
	assert_int_equal(s->lb.idle_ms, 120000);
	assert_int_equal(s->lb.health_interval_ms, 5000);
	assert_string_equal(s->health_path, "/healthz?full=1");
	assert_int_equal(s->lb.max_connections, 64);
	assert_int_equal(s->lb.slow_start_ms, 30000);
	assert_int_equal(s->lb.hash_balance, 125);
	assert_int_equal(s->lb.outlier_5xx, 5);
	assert_int_equal(s->lb.outlier_ms, 30000);
	assert_int_equal(s->lb.retry_on, RETRY_ON_502 | RETRY_ON_503);
	assert_int_equal(s->lb.datapath, DATAPATH_KERNEL);
	assert_int_equal(s->lb.encrypt, ENCRYPT_SITE);
	assert_true(s->local_only);
	assert_int_equal(s->distribution, DISTRIBUTE_ZONE);
	kube_batch_fini(&b);
	read_text(&b,
		ANNOTATED("t",
			"    edgeway.io/hash-on: source-ip\n    edgeway.io/lb-policy: "
			"consistent-hash\n") "spec: {trafficDistribution: "
					     "PreferSameNode}\n---\n" ANNOTATED("u",
						     "    edgeway.io/datapath: proxy\n    "
						     "edgeway.io/request-timeout: 0\n") "spec: "
											"{internal"
											"TrafficPo"
											"licy: "
											"Cluster}"
											"\n");
	assert_int_equal(b.n_complaints, 0);
	s = &named(&b, "t")->service;
	assert_int_equal(s->lb.hash_on, HASH_ON_SOURCE_IP);
	assert_int_equal(s->lb.retries, RETRIES_DEFAULT);
	assert_int_equal(s->lb.request_ms, REQUEST_MS_DEFAULT);
	assert_int_equal(named(&b, "u")->service.lb.request_ms, 0); /* no limit */
	assert_int_equal(s->distribution, DISTRIBUTE_NODE);
	assert_false(named(&b, "u")->service.local_only);
	assert_int_equal(named(&b, "u")->service.lb.datapath, DATAPATH_PROXY);
	assert_int_equal(named(&b, "u")->service.lb.policy, LB_DEFAULT);
	kube_batch_fini(&b);
}

static void
a_slip_in_an_annotation_is_told_and_the_default_serves(void **state)
{
	static const struct {
		const char *line, *complaint;
	} cases[] = {
		{"hash-on: header:a b", "expected source-ip, header:NAME or cookie:NAME"},
		{"hash-on: \"header:\"", "expected source-ip"},
		{"hash-on: query:a", "expected source-ip"},
		{"hash-on: [a]", "expected source-ip"},
		{"retries: 11", "expected a whole number from 0 to 10, not \"11\"; the node's own"},
		{"retries: -1", "expected a whole number"},
		{"connect-timeout: 3", "expected a time with its unit"},
		{"request-timeout: soon", "expected a time such as 300ms"},
		{"request-timeout: {a: 1}", "expected a single value"},
		{"idle-timeout: 25h", "expected a time from"},
		{"health-interval: 1ms", "expected a time from"},
		{"health-path: healthz", "begins with /"},
		{"health-path: \"/a b\"", "visible ASCII"},
		{"max-connections: 0", "expected a whole number from 1 to 1000000"},
		{"slow-start: 1h", "expected a time from"},
		{"hash-balance: 100", "expected a whole number from 101 to 1000"},
		{"outlier-5xx: 0", "expected a whole number from 1 to 1000"},
		{"outlier-time: 5", "expected a time with its unit"},
		{"retry-on: 404", "expected some of 500, 502, 503, 504 and unavailable"},
		{"retry-on: \"503,\"", "expected some of"},
		{"datapath: fast", "expected one of proxy|kernel"},
		{"encrypt: yes", "none of off, site and always; always is used"},
		{"lb-polcy: random", "no such annotation"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_free char *text =
			xasprintf(ANNOTATED("s", "    edgeway.io/%s\n"), cases[i].line);
		auto_free char *place =
			xasprintf("m.yaml:6: edgeway.io/%.*s: ", (int)strcspn(cases[i].line, ":"),
				cases[i].line);
		const struct kube_service *s;
		struct kube_batch b;

		read_text(&b, text);
		if (b.n != 1 || b.n_wrong != 0 || b.n_complaints != 1)
			fail_msg("%s: %zu objects, %zu complaints", text, b.n, b.n_complaints);
		if (strstr(b.complaints[0], place) != b.complaints[0] ||
			strstr(b.complaints[0], cases[i].complaint) == NULL)
			fail_msg("'%s' is not '%s...%s'", b.complaints[0], place,
				cases[i].complaint);
		s = &b.objects[0]->service;
		assert_int_equal(s->lb.policy, LB_DEFAULT);
		assert_int_equal(s->lb.retries, RETRIES_DEFAULT);
		assert_int_equal(s->lb.request_ms, REQUEST_MS_DEFAULT);
		assert_int_equal(s->lb.connect_ms | s->lb.idle_ms | s->lb.health_interval_ms |
				s->lb.max_connections,
			0);
		assert_string_equal(s->health_path, "");
		assert_string_equal(s->hash_key, "");
		kube_batch_fini(&b);
	}
}

static void
several_slips_are_all_told(void **state)
{
	struct kube_batch b;

	(void)state;
	read_text(&b,
		ANNOTATED("s",
			"    edgeway.io/retries: x\n    edgeway.io/datapath: y\n") "spec: "
										   "{trafficDistrib"
										   "ution: "
										   "PreferMoon}\n");
	assert_int_equal(b.n_complaints, 1);
	assert_non_null(strstr(b.complaints[0], "m.yaml:6: edgeway.io/retries"));
	assert_non_null(strstr(b.complaints[0], "; m.yaml:7: edgeway.io/datapath"));
	assert_non_null(strstr(b.complaints[0], "; m.yaml:8: trafficDistribution: 'PreferMoon'"));
	kube_batch_fini(&b);
	/* What makes the object wrong is said alone. */
	read_text(&b,
		ANNOTATED("s",
			"    edgeway.io/retries: x\n") "spec: {internalTrafficPolicy: Here}\n");
	assert_int_equal(b.n_wrong, 1);
	assert_string_equal(
		b.complaints[0], "m.yaml:7: internalTrafficPolicy: Cluster or Local expected");
	kube_batch_fini(&b);
	/* A policy that does not hash makes hash-on useless. */
	read_text(&b,
		ANNOTATED("s",
			"    edgeway.io/hash-on: source-ip\n    edgeway.io/lb-policy: ewma\n"));
	assert_non_null(strstr(b.complaints[0], "of no use"));
	assert_int_equal(b.objects[0]->service.lb.policy, LB_EWMA);
	kube_batch_fini(&b);
}

static void
hints_of_a_slice(void **state)
{
	const struct kube_endpoint *e;
	struct kube_batch b;

	(void)state;
	read_text(&b,
		A_SLICE
		"addressType: IPv4\nendpoints:\n"
		"- {addresses: [10.0.0.1], hints: {forZones: [{name: b}, {name: a}, {name: b}],"
		" forNodes: [{name: n.x}]}}\n"
		"- {addresses: [10.0.0.2], hints: null}\n");
	assert_int_equal(b.n_complaints, 0);
	e = b.objects[0]->endpoints.subsets[0].endpoints;
	assert_int_equal(e[0].hint_zones.n, 2);
	assert_string_equal(e[0].hint_zones.list[0], "a");
	assert_string_equal(e[0].hint_nodes.list[0], "n.x");
	assert_int_equal(e[1].hint_zones.n, 0);
	kube_batch_fini(&b);
	read_text(&b,
		A_SLICE
		"addressType: IPv4\nendpoints:\n- {addresses: [10.0.0.1], hints: {forZones: ["
		"{name: a}, {name: b}, {name: c}, {name: d}, {name: e}, {name: f}, {name: g},"
		" {name: h}, {name: i}]}}\n");
	assert_int_equal(b.n_wrong, 1);
	assert_non_null(strstr(b.complaints[0], "m.yaml:6: hints.forZones: at most 8"));
	kube_batch_fini(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(services_of_a_real_server),
		cmocka_unit_test(pods_of_a_real_server),
		cmocka_unit_test(slices_endpoints_and_nodes_of_a_real_server),
		cmocka_unit_test(sidecars_count_and_other_init_containers_do_not),
		cmocka_unit_test(absent_conditions_have_their_meaning),
		cmocka_unit_test(slices_of_names_are_as_if_not_there),
		cmocka_unit_test(nodes_say_where_they_are),
		cmocka_unit_test(other_kinds_are_skipped_and_good_ones_load),
		cmocka_unit_test(misspelt_kinds_are_told),
		cmocka_unit_test(refuses_with_file_line_and_reason),
		cmocka_unit_test(annotations_of_balancing),
		cmocka_unit_test(a_slip_in_an_annotation_is_told_and_the_default_serves),
		cmocka_unit_test(several_slips_are_all_told),
		cmocka_unit_test(hints_of_a_slice),
		cmocka_unit_test(an_unknown_policy_is_told_but_keeps_the_service),
		cmocka_unit_test(annotations_that_are_no_map_are_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
