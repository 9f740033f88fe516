#include "tests/unit/model/kube_kit.h"

#include <stdio.h>
#include <string.h>

/* Names of single pods, and ports that a headless service has beyond its own. */

#define DB                                                                                         \
	"clusterIP: None, selector: {app: db}, ports: [{name: sql, port: 5432, targetPort: sql}, " \
	"{name: http-ui, port: 80, targetPort: 8080}]"
#define POD(name, host, ready, ports)                                                              \
	"---\napiVersion: v1\nkind: Pod\nmetadata: {name: " name ", labels: {app: db}}\n"          \
	"spec: {nodeName: n, " host "containers: [{ports: [" ports "]}]}\n"                        \
	"status: {phase: Running, podIP: 172.17.0.2, hostIP: 192.0.2.1, "                          \
	"conditions: [{type: Ready, status: \"" ready "\"}]}\n"
#define NAMED(name) "hostname: " name ", subdomain: db, "
#define SQL "{name: sql, containerPort: 5433, hostPort: 30001}"

static void
add_port(struct buf *out, const struct view_port *p)
{
	buf_printf(
		out, " %s%s:%u/%s", p->extra ? "+" : "", p->name, p->port, port_mode_name(p->mode));
	for (size_t i = 0; i < p->n_endpoints; i++) {
		const struct view_endpoint *e = &p->endpoints[i];

		buf_printf(out, "%s%s:%u%s", i == 0 ? "=" : ",",
			*e->pod != '\0' ? e->pod : e->given_ip,
			*e->pod != '\0' ? e->pod_port : e->given_port,
			(e->flags & ENDPOINT_READY) ? "" : "!");
	}
}

/* Every change that is due, a line each: "name port:... port:..." or "name gone". */
static const char *
changes(void)
{
	static char text[4096];
	struct cluster_change change;
	auto_buf struct buf out;

	buf_init(&out, BUF_UNLIMITED);
	while (cluster_next_change(kit_cluster, &change)) {
		buf_printf(&out, "%s", change.name);
		for (size_t i = 0; change.view != NULL && i < change.view->n_ports; i++)
			add_port(&out, &change.view->ports[i]);
		if (change.view == NULL)
			buf_adds(&out, " gone");
		else
			assert_string_equal(change.view->name, change.name);
		buf_adds(&out, "\n");
		cluster_change_fini(&change);
	}
	assert_false(cluster_dirty(kit_cluster));
	snprintf(text, sizeof text, "%s", buf_str(&out));
	return text;
}

#define BOTH                                                                                       \
	POD("db-0", NAMED("db-0"), "True",                                                         \
		SQL ", {containerPort: 9000}, {name: http-x, "                                     \
		    "containerPort: 9001}, {containerPort: 9000, "                                 \
		    "protocol: UDP}")                                                              \
	POD("db-1", NAMED("db-1"), "False", SQL)

static void
each_hostname_has_a_view(void **state)
{
	struct cluster_change change;
	bool seen = false;

	(void)state;
	kit_say(kit_cluster, "a.yaml", SERVICE("db", DB) BOTH);
	while (cluster_next_change(kit_cluster, &change)) {
		if (strcmp(change.name, "db-1.db") == 0) {
			seen = true;
			assert_true(view_digest(change.json, change.json_len) == change.digest);
			assert_string_equal(change.json,
				"{\"ns\":\"default\",\"name\":\"db-1.db\",\"headless\":true,"
				"\"ports\":["
				"{\"name\":\"http-ui\",\"port\":80,\"mode\":\"http\",\"endpoints\":"
				"["
				"{\"node\":\"n\",\"pod\":\"db-1\",\"hostname\":\"db-1\",\"flags\":"
				"0,"
				"\"podIP\":\"172.17.0.2\",\"podPort\":8080,\"hostIP\":\"192.0.2."
				"1\"}]},"
				"{\"name\":\"sql\",\"port\":5432,\"mode\":\"tcp\",\"endpoints\":["
				"{\"node\":\"n\",\"pod\":\"db-1\",\"hostname\":\"db-1\",\"flags\":"
				"0,"
				"\"podIP\":\"172.17.0.2\",\"podPort\":5433,\"hostIP\":\"192.0.2."
				"1\","
				"\"hostPort\":30001}]},"
				"{\"port\":5433,\"mode\":\"tcp\",\"extra\":true,\"endpoints\":["
				"{\"node\":\"n\",\"pod\":\"db-1\",\"hostname\":\"db-1\",\"flags\":"
				"0,"
				"\"podIP\":\"172.17.0.2\",\"podPort\":5433,\"hostIP\":\"192.0.2."
				"1\","
				"\"hostPort\":30001}]},"
				"{\"port\":8080,\"mode\":\"http\",\"extra\":true,\"endpoints\":["
				"{\"node\":\"n\",\"pod\":\"db-1\",\"hostname\":\"db-1\",\"flags\":"
				"0,"
				"\"podIP\":\"172.17.0.2\",\"podPort\":8080,\"hostIP\":\"192.0.2."
				"1\"}]}]}");
		}
		cluster_change_fini(&change);
	}
	assert_true(seen);
	assert_string_equal(cluster_behind(kit_cluster, "default", "db-1.db").text,
		"port 80: pod db-1 has no hostPort for container port 8080: only its own node can "
		"dial it, others go by its agent or the hub");
	/* Nodes are kept for the service alone: each of thousands of hostnames would have them
	 * again. */
	assert_int_equal(cluster_behind(kit_cluster, "default", "db-1.db").n_nodes, 0);
	assert_int_equal(cluster_behind(kit_cluster, "default", "db").n_nodes, 1);
	assert_string_equal(cluster_behind(kit_cluster, "default", "db").nodes, "n");
	assert_string_equal(cluster_reason(kit_cluster, "default", "db-1.db"), "");
	assert_string_equal(cluster_behind(kit_cluster, "default", "db-2.db").text, "");
}

static void
ports_of_the_service_its_targets_and_what_the_pod_declares(void **state)
{
	(void)state;
	kit_say(kit_cluster, "a.yaml", SERVICE("db", DB) BOTH);
	assert_string_equal(changes(),
		"db sql:5432/tcp=db-0:5433,db-1:5433! http-ui:80/http=db-0:8080,db-1:8080! "
		"+:5433/tcp=db-0:5433,db-1:5433! +:8080/http=db-0:8080,db-1:8080!\n"
		"db-0.db sql:5432/tcp=db-0:5433 http-ui:80/http=db-0:8080 +:5433/tcp=db-0:5433 "
		"+:8080/http=db-0:8080 +:9000/tcp=db-0:9000 +:9001/http=db-0:9001 "
		"+:9000/udp=db-0:9000\n"
		"db-1.db sql:5432/tcp=db-1:5433! http-ui:80/http=db-1:8080! +:5433/tcp=db-1:5433! "
		"+:8080/http=db-1:8080!\n");
}

static void
a_port_of_the_service_wins(void **state)
{
	(void)state;
	kit_say(kit_cluster, "a.yaml",
		SERVICE("db",
			"clusterIP: None, selector: {app: db}, ports: [{name: a, port: 80, "
			"targetPort: 81}, {name: b, port: 81, targetPort: 82}]")
			POD("db-0", NAMED("db-0"), "True", "{containerPort: 80}"));
	assert_string_equal(changes(),
		"db a:80/tcp=db-0:81 b:81/tcp=db-0:82 +:82/tcp=db-0:82\n"
		"db-0.db a:80/tcp=db-0:81 b:81/tcp=db-0:82 +:82/tcp=db-0:82\n");
}

static void
targets_that_differ_are_ambiguous(void **state)
{
	(void)state;
	kit_say(kit_cluster, "a.yaml",
		SERVICE("db",
			"clusterIP: None, selector: {app: db}, ports: [{port: 80, targetPort: "
			"sql}]") POD("a", "", "True", "{name: sql, containerPort: 1}")
			POD("b", "", "True", "{name: sql, containerPort: 2}"));
	assert_string_equal(changes(), "db :80/tcp=a:1,b:2\n");
	/* Not for a service with an address of its own. */
	kit_say(kit_cluster, "a.yaml",
		SERVICE("db", "selector: {app: db}, ports: [{port: 80, targetPort: 8080}]")
			POD("a", NAMED("a"), "True", ""));
	assert_string_equal(changes(), "db :80/tcp=a:8080\n");
}

static void
names_go_with_pod_hostname_service_and_headlessness(void **state)
{
	(void)state;
	kit_say(kit_cluster, "s.yaml",
		SERVICE("db", "clusterIP: None, selector: {app: db}, ports: [{port: 80}]"));
	kit_say(kit_cluster, "p.yaml", POD("x", NAMED("db-0"), "True", ""));
	assert_string_equal(changes(), "db :80/tcp=x:80\ndb-0.db :80/tcp=x:80\n");
	assert_string_equal(changes(), "");
	kit_say(kit_cluster, "p.yaml", POD("x", NAMED("db-7"), "True", ""));
	assert_string_equal(changes(), "db :80/tcp=x:80\ndb-0.db gone\ndb-7.db :80/tcp=x:80\n");
	kit_say(kit_cluster, "p.yaml", POD("x", "hostname: db-7, subdomain: other, ", "True", ""));
	assert_string_equal(changes(), "db :80/tcp=x:80\ndb-7.db gone\n");
	kit_say(kit_cluster, "p.yaml", POD("x", NAMED("db-7"), "False", ""));
	assert_string_equal(changes(), "db :80/tcp=x:80!\ndb-7.db :80/tcp=x:80!\n");
	cluster_replace(kit_cluster, "p.yaml", NULL);
	assert_string_equal(changes(), "db :80/tcp\ndb-7.db gone\n");
	kit_say(kit_cluster, "p.yaml", POD("x", NAMED("db-7"), "True", ""));
	changes();
	kit_say(kit_cluster, "s.yaml", SERVICE("db", "selector: {app: db}, ports: [{port: 80}]"));
	assert_string_equal(changes(), "db :80/tcp=x:80\ndb-7.db gone\n");
	kit_say(kit_cluster, "s.yaml",
		SERVICE("db", "clusterIP: None, selector: {app: db}, ports: [{port: 80}]"));
	assert_string_equal(changes(), "db :80/tcp=x:80\ndb-7.db :80/tcp=x:80\n");
	cluster_replace(kit_cluster, "s.yaml", NULL);
	assert_string_equal(changes(), "db gone\ndb-7.db gone\n");
	cluster_replace(kit_cluster, "p.yaml", NULL);
	assert_string_equal(changes(), "");
}

static void
pods_may_share_a_hostname(void **state)
{
	(void)state;
	kit_say(kit_cluster, "s.yaml",
		SERVICE("db", "clusterIP: None, selector: {app: db}, ports: [{port: 80}]"));
	kit_say(kit_cluster, "p.yaml",
		POD("y", NAMED("h"), "True", "{containerPort: 2}")
			POD("x", NAMED("h"), "False", "{containerPort: 1}, {containerPort: 2}"));
	assert_string_equal(changes(),
		"db :80/tcp=x:80!,y:80\nh.db :80/tcp=x:80!,y:80 +:1/tcp=x:1! +:2/tcp=x:2!,y:2\n");
}

#define DB_SLICE(name, ports, endpoints)                                                           \
	"---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\naddressType: IPv4\n"           \
	"metadata: {name: " name ", labels: {kubernetes.io/service-name: db}}\n"                   \
	"ports: [" ports "]\nendpoints: [" endpoints "]\n"

static void
slices_and_bare_addresses(void **state)
{
	(void)state;
	kit_say(kit_cluster, "a.yaml",
		SERVICE("db", "clusterIP: None, ports: [{name: sql, port: 80}]")
			DB_SLICE("one", "{name: sql, port: 81}",
				"{addresses: [198.51.100.1], hostname: a}, {addresses: "
				"[198.51.100.2], conditions: {ready: false}, hostname: b}")
				DB_SLICE("two", "{name: sql, port: 81}",
					"{addresses: [198.51.100.1], hostname: a}, {addresses: "
					"[198.51.100.3]}"));
	assert_string_equal(changes(),
		"db sql:80/tcp=198.51.100.1:81,198.51.100.2:81!,198.51.100.3:81 "
		"+:81/tcp=198.51.100.1:81,198.51.100.2:81!,198.51.100.3:81\n"
		"a.db sql:80/tcp=198.51.100.1:81 +:81/tcp=198.51.100.1:81\n"
		"b.db sql:80/tcp=198.51.100.2:81! +:81/tcp=198.51.100.2:81!\n");
}

/* A headless service may have no ports at all: its pods have names all the same. */
static void
a_service_without_ports(void **state)
{
	(void)state;
	kit_say(kit_cluster, "a.yaml",
		SERVICE("db", "clusterIP: None, selector: {app: db}")
			POD("x", NAMED("x"), "True", "{containerPort: 1}"));
	assert_string_equal(changes(), "db\nx.db +:1/tcp=x:1\n");
}

static void
local_traffic_does_not_bind_a_name(void **state)
{
	struct cluster_change change;

	(void)state;
	kit_say(kit_cluster, "a.yaml",
		SERVICE("db", "clusterIP: None, internalTrafficPolicy: Local, selector: {app: db}")
			POD("x", NAMED("x"), "True", ""));
	assert_true(cluster_next_change(kit_cluster, &change));
	assert_true(change.view->local_only);
	cluster_change_fini(&change);
	assert_true(cluster_next_change(kit_cluster, &change));
	assert_string_equal(change.name, "x.db");
	assert_false(change.view->local_only);
	cluster_change_fini(&change);
	/* Changes that nobody took are freed. */
	kit_say(kit_cluster, "b.yaml",
		POD("z", NAMED("z"), "True", "") POD("y", NAMED("y"), "True", ""));
	assert_true(cluster_next_change(kit_cluster, &change));
	assert_true(cluster_dirty(kit_cluster));
	cluster_change_fini(&change);
}

/* Who has the address: "node" or "node/ns/pod", one after the other. */
static const char *
places(const char *address)
{
	static char text[256];
	struct cluster_place found[3];
	size_t n = cluster_places(kit_cluster, address, found, ARRAY_LEN(found));

	snprintf(text, sizeof text, "%zu", n);
	for (size_t i = 0; i < MIN(n, ARRAY_LEN(found)); i++)
		snprintf(text + strlen(text), sizeof text - strlen(text), " %s%s%s%s%s",
			found[i].node, found[i].pod[0] ? "/" : "", found[i].ns,
			found[i].pod[0] ? "/" : "", found[i].pod);
	return text;
}

static void
addresses_lead_to_nodes_and_pods(void **state)
{
	(void)state;
	kit_say(kit_cluster, "a.yaml",
		NODE("n", "",
			"{type: InternalIP, address: 10.0.0.1}, {type: Hostname, address: "
			"n.plant}, "
			"{type: InternalIP, address: \"2001:db8::1\"}, {type: ExternalIP, address: "
			"10.0.0.1}") POD("x", "", "True", ""));
	assert_string_equal(places("10.0.0.1"), "1 n");
	assert_string_equal(places("N.Plant"), "1 n");
	assert_string_equal(places("2001:DB8:0::1"), "1 n");
	assert_string_equal(places("172.17.0.2"), "1 n/default/x");
	assert_string_equal(places("10.0.0.2"), "0");
	/* Another site has the same addresses. */
	kit_say(kit_cluster, "b.yaml", NODE("m", "", "{type: InternalIP, address: 10.0.0.1}"));
	assert_int_equal(places("10.0.0.1")[0], '2');
	kit_say(kit_cluster, "a.yaml", NODE("n", "", "{type: InternalIP, address: 10.0.0.3}"));
	assert_string_equal(places("10.0.0.1"), "1 m");
	assert_string_equal(places("10.0.0.3"), "1 n");
	assert_string_equal(places("172.17.0.2"), "0");
}

#define T(f) cmocka_unit_test_setup_teardown(f, kit_setup, kit_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(addresses_lead_to_nodes_and_pods),
		T(each_hostname_has_a_view),
		T(ports_of_the_service_its_targets_and_what_the_pod_declares),
		T(a_port_of_the_service_wins),
		T(targets_that_differ_are_ambiguous),
		T(names_go_with_pod_hostname_service_and_headlessness),
		T(pods_may_share_a_hostname),
		T(slices_and_bare_addresses),
		T(a_service_without_ports),
		T(local_traffic_does_not_bind_a_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
