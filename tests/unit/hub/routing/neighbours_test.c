/* Which declarations count, who carries a node without a tunnel, and what ways come of it. */
#include "tests/unit/model/kube_kit.h"

#include <stdio.h>
#include <string.h>

#include "hub/routing/routes.h"
#include "model/check.h"

#define IP(address) "{type: InternalIP, address: " address "}"
#define SITE(site) "edgeway.io/site: " site
#define NODES                                                                                      \
	NODE("edge-1", SITE("a"), IP("192.168.1.11"))                                              \
	NODE("edge-2", SITE("a"), IP("192.168.1.12"))                                              \
	NODE("edge-3", SITE("a"), IP("192.168.1.13"))                                              \
	NODE("edge-5", SITE("b"), IP("192.168.1.15"))                                              \
	NODE("edge-6", SITE("b"), IP("192.168.1.16"))                                              \
	NODE("lost", "", IP("192.168.1.17"))                                                       \
	NODE("master", SITE("a") ", node-role.kubernetes.io/control-plane: ''", IP("192.168.1.2"))

static struct loop *loop;
static struct cluster *cluster;
static struct fanout *fanout;
static struct neighbours *neighbours;
static struct routes_finder *finder;
static struct routes ways;
static const char *tunnels, *busy; /* names between commas */
static const char *home; /* start of the addresses that the hub dials itself */

static bool
listed(const char *list, const char *node)
{
	char name[80];

	snprintf(name, sizeof name, ",%s,", node);
	return strstr(list, name) != NULL;
}

static bool
tunnelled(void *arg, const char *node)
{
	(void)arg;
	return listed(tunnels, node);
}

static unsigned
streams(void *arg, const char *node)
{
	(void)arg;
	return listed(busy, node) ? 7 : 1;
}

static bool
ours(void *arg, const struct in6_addr *ip)
{
	struct in6_addr own;

	(void)arg;
	return ip_parse(home, &own) && memcmp(ip, &own, sizeof own) == 0;
}

static void
say(const char *source, const char *yaml)
{
	struct cluster_change change;

	kit_say(cluster, source, yaml);
	while (cluster_next_change(cluster, &change)) {
		if (change.view != NULL)
			fanout_set(fanout, &change);
		cluster_change_fini(&change);
	}
}

static int
setup(void **state)
{
	struct routes_config config = {.cluster_domain = "cluster.local",
		.suffix = "",
		.at_edge = tunnelled,
		.tunnelled = tunnelled};

	(void)state;
	tunnels = ",edge-1,edge-3,edge-5,";
	busy = ",,";
	home = "10.0.0.1";
	assert_int_equal(loop_new(&loop, NULL), 0);
	config.cluster = cluster = cluster_new();
	config.fanout = fanout = fanout_new();
	neighbours = neighbours_new(&(struct neighbours_config){.loop = loop,
		.cluster = cluster,
		.tunnelled = tunnelled,
		.streams = streams,
		.ours = ours});
	config.neighbours = neighbours;
	finder = routes_new(&config);
	say("nodes", NODES);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	routes_free(&finder);
	neighbours_free(&neighbours);
	fanout_free(&fanout);
	cluster_free(&cluster);
	loop_free(&loop);
	return 0;
}

static const char *
declare(const char *node, const char *text)
{
	static char answer[2000];
	auto_buf struct buf b;

	buf_init(&b, BUF_UNLIMITED);
	neighbours_declare(neighbours, node, text, strlen(text), &b);
	snprintf(answer, sizeof answer, "%s", buf_str(&b));
	return answer;
}

/* "via via": who carries the node at the port, the best first; or why nobody does. */
static const char *
find(const char *node, uint16_t port)
{
	static char text[4 * MESH_NODE_MAX + 100];
	struct neighbours_ask ask = {.node = node, .port = port};
	struct neighbours_way found[4];
	const char *why;
	size_t n = neighbours_find(neighbours, &ask, found, ARRAY_LEN(found), &why);

	snprintf(text, sizeof text, "%s", n == 0 && why != NULL ? why : "");
	for (size_t i = 0; i < n; i++)
		snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i > 0 ? " " : "",
			found[i].via);
	return text;
}

static void
result(const char *node, const char *via, bool worked)
{
	struct neighbours_way way = {.entry = 0};

	snprintf(way.via, sizeof way.via, "%s", via);
	neighbours_result(neighbours, node, &way, worked);
}

static void
what_counts(void **state)
{
	(void)state;
	assert_string_equal(declare("edge-1",
				    "edge-2\nedge-5\nmaster\nlost\nnobody\nedge-1\n"
				    "0.0.0.0/0\n192.168.1.0/24\n"),
		"ok\nthat node is of another site\n"
		"a node of the control plane is not reached through neighbours\n"
		"that node is of no site: label its Node edgeway.io/site\n"
		"the hub knows no Node of this name\nthis is the node itself\n"
		"the network is too wide: at least /12, /48 of IPv6\nok\n");
	assert_string_equal(find("edge-2", 10250), "edge-1");
	/* Nor by their addresses in a network that counts. */
	assert_string_equal(find("edge-5", 10250), "");
	assert_string_equal(find("master", 10250), "");
	assert_string_equal(find("lost", 10250), "");
	assert_string_equal(find("edge-1", 10250), "");
	assert_false(neighbours_stand_for(neighbours, "master"));
	assert_true(neighbours_stand_for(neighbours, "edge-2"));
	assert_memory_equal(
		declare("lost", "edge-2\n192.168.1.0/24\n"), "this node is of no site", 23);
	assert_string_equal(find("edge-2", 10250), "edge-1");
	/* A word that cannot be read takes the former one back. */
	assert_memory_equal(declare("edge-1", "edge-2"), "expected at most", 16);
	assert_string_equal(find("edge-2", 10250), "");
	assert_false(neighbours_declared(neighbours, "edge-1"));
}

/* Where no Node names a site all are one; but for what the hub dials itself. */
static void
without_sites(void **state)
{
	(void)state;
	say("nodes",
		NODE("edge-1", "", IP("192.168.1.11")) NODE("edge-2", "", IP("192.168.1.12"))
			NODE("cloud-1", "", IP("10.0.0.1")));
	assert_string_equal(declare("edge-1", "edge-2\ncloud-1\n10.0.0.0/24\n"), "ok\nok\nok\n");
	assert_true(neighbours_stand_for(neighbours, "edge-2"));
	assert_false(neighbours_stand_for(neighbours, "cloud-1"));
	assert_int_equal(routes_find(finder, "cloud-1", 10250, &ways), 0);
	assert_string_equal(ways.list[0].node, "");
	assert_int_equal(routes_find(finder, "10.0.0.1", 10250, &ways), 0);
	assert_string_equal(ways.list[0].node, "");
}

/* With Kubernetes as the source, Nodes of the cloud are among them, and nothing tells them from
 * others. */
static void
sites_must_be_named(void **state)
{
	(void)state;
	neighbours_free(&neighbours);
	neighbours = neighbours_new(&(struct neighbours_config){.loop = loop,
		.cluster = cluster,
		.tunnelled = tunnelled,
		.streams = streams,
		.sites_only = true});
	say("nodes",
		NODE("edge-1", "", IP("192.168.1.11")) NODE("edge-2", "", IP("192.168.1.12"))
			NODE("worker", "", IP("10.0.0.2")));
	assert_memory_equal(
		declare("edge-1", "edge-2\nworker\n10.0.0.0/24\n"), "no Node names a site", 20);
	assert_string_equal(find("worker", 10250), "");
	assert_false(neighbours_stand_for(neighbours, "worker"));
	assert_false(neighbours_stand_for(neighbours, "edge-2"));
	say("nodes",
		NODE("edge-1", SITE("a"), IP("192.168.1.11")) NODE("edge-2", SITE("a"),
			IP("192.168.1.12")) NODE("worker", "", IP("10.0.0.2")));
	assert_string_equal(find("edge-2", 10250), "edge-1");
	assert_false(neighbours_stand_for(neighbours, "worker"));
}

static void
who_carries(void **state)
{
	(void)state;
	declare("edge-3", "192.168.1.8/29\n");
	declare("edge-1", "edge-2\nedge-2:22\n");
	assert_string_equal(find("edge-2", 10250), "edge-1 edge-3");
	assert_string_equal(find("edge-2", 22), "edge-1");
	assert_string_equal(find("edge-2", 23), "no neighbour's tunnel.reach opens this port");
	busy = ",edge-1,";
	assert_string_equal(find("edge-2", 10250), "edge-3 edge-1");
	result("edge-2", "edge-3", false);
	assert_string_equal(find("edge-2", 10250), "edge-1 edge-3");
	result("edge-2", "edge-3", true);
	assert_string_equal(find("edge-2", 10250), "edge-3 edge-1");
	tunnels = ",edge-1,";
	assert_string_equal(find("edge-2", 10250), "edge-1");
	tunnels = ",,";
	assert_string_equal(find("edge-2", 10250), "no neighbour that reaches it has a tunnel now");
	assert_true(neighbours_stand_for(neighbours, "edge-2"));
	neighbours_forget(neighbours, "edge-1");
	neighbours_forget(neighbours, "edge-3");
	assert_string_equal(find("edge-2", 10250), "");
	assert_true(neighbours_stand_for(
		neighbours, "edge-2")); /* it was carried once: it is at the edge */
	assert_false(neighbours_stand_for(neighbours, "edge-6"));
	say("nodes", NODE("edge-1", SITE("a"), IP("192.168.1.11")));
	assert_false(neighbours_stand_for(neighbours, "edge-2"));
	say("nodes", NODES); /* one with its name is another */
	assert_false(neighbours_stand_for(neighbours, "edge-2"));
}

static char said[400];

static void
on_said(void *arg, const char *node, const char *entry)
{
	(void)arg;
	snprintf(said + strlen(said), sizeof said - strlen(said), "%s%s%s;", node,
		entry != NULL ? " " : "", entry != NULL ? entry : "");
}

/* What nodes have told to other replicas: it counts like what they tell here, and goes with the
 * replica that said it. */
static void
elsewhere(void **state)
{
	static const int first = 1, second = 2;

	(void)state;
	neighbours_heard(neighbours, &first, "edge-1", "edge-2"); /* it has not begun */
	assert_string_equal(find("edge-2", 10250), "");
	neighbours_heard(neighbours, &first, "edge-1", NULL);
	neighbours_heard(neighbours, &first, "edge-1", "edge-2");
	neighbours_heard(neighbours, &first, "edge-1", "edge-5");
	neighbours_heard(neighbours, &first, "edge-1", "not an entry");
	assert_string_equal(find("edge-2", 10250), "edge-1");
	assert_string_equal(find("edge-5", 10250), "");
	assert_false(
		neighbours_declared(neighbours, "edge-1")); /* not here: it need not be asked */
	/* It has moved to another replica, whose word counts now, and the former one's does not,
	 * nor its end. */
	neighbours_heard(neighbours, &second, "edge-1", NULL);
	neighbours_heard(neighbours, &second, "edge-1", "edge-2:22");
	neighbours_heard(neighbours, &first, "edge-1", "edge-2");
	assert_string_equal(find("edge-2", 22), "edge-1");
	assert_string_equal(find("edge-2", 10250), "no neighbour's tunnel.reach opens this port");
	neighbours_unheard(neighbours, &first, "edge-1");
	neighbours_unheard(neighbours, &first, NULL);
	assert_string_equal(find("edge-2", 22), "edge-1");
	/* Here it counts before all, and others are told of that alone. */
	declare("edge-1", "edge-2\n192.168.1.0/24\n");
	assert_string_equal(find("edge-2", 10250), "edge-1");
	assert_string_equal(find("edge-2", 22), "no neighbour's tunnel.reach opens this port");
	neighbours_heard(neighbours, &second, "edge-3", NULL);
	said[0] = '\0';
	neighbours_each(neighbours, NULL, on_said, NULL);
	assert_string_equal(said, "edge-1;edge-1 edge-2;edge-1 192.168.1.0/24;");
	neighbours_forget(neighbours, "edge-1");
	assert_string_equal(find("edge-2", 22), "edge-1");
	said[0] = '\0';
	neighbours_each(neighbours, "edge-1", on_said, NULL);
	assert_string_equal(said, "");
	neighbours_unheard(neighbours, &second, NULL);
	assert_string_equal(find("edge-2", 22), "");
}

static unsigned n_outdated;

static void
on_outdated(void *arg, const char *node)
{
	(void)arg;
	assert_string_equal(node, "edge-1");
	n_outdated++;
}

static void
nodes_change(void **state)
{
	(void)state;
	declare("edge-1", "edge-2\n");
	declare("edge-5", "edge-6\n");
	neighbours_outdated(neighbours, on_outdated, NULL);
	assert_int_equal(n_outdated, 0);
	say("nodes",
		NODE("edge-1", SITE("a"), IP("192.168.1.11")) NODE("edge-2", SITE("b"),
			IP("192.168.1.12")) NODE("edge-5", SITE("b"), IP("192.168.1.15"))
			NODE("edge-6", SITE("b"), IP("192.168.1.16")));
	assert_string_equal(find("edge-2", 10250), "");
	assert_string_equal(find("edge-6", 10250), "edge-5");
}

static void
they_are_told(void **state)
{
	(void)state;
	n_outdated = 0;
	declare("edge-1", "edge-2\n");
	say("nodes", NODE("edge-1", SITE("a"), IP("192.168.1.11")));
	(void)neighbours_stand_for(neighbours, "edge-2"); /* others look as well, and first */
	neighbours_outdated(neighbours, on_outdated, NULL);
	assert_int_equal(n_outdated, 1);
}

/* "status reason", or "node authority for meant" of each way. */
static const char *
show(unsigned status)
{
	static char text[1500];

	text[0] = '\0';
	if (status != 0)
		snprintf(text, sizeof text, "%u %s", status, ways.reason);
	for (size_t i = 0; i < ways.n; i++)
		snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s %s%s%s",
			i > 0 ? ", " : "", ways.list[i].node, ways.list[i].authority,
			ways.list[i].final_node[0] != '\0' ? " for " : "", ways.list[i].final_node);
	return text;
}

static void
ways_of_a_node(void **state)
{
	const char *why;

	(void)state;
	declare("edge-1", "edge-2\n");
	declare("edge-3", "edge-2\n192.168.1.0/24\n");
	for (int address = 0; address < 2; address++) {
		unsigned status =
			routes_find(finder, address ? "192.168.1.12" : "edge-2", 10250, &ways);

		assert_string_equal(show(status), "edge-2 edge-2:10250");
		assert_int_equal(ways.target.kind, TARGET_NODE);
		assert_string_equal(ways.target.node, "edge-2");
		assert_int_equal(routes_beside(finder, &ways, 0, &why), 2);
		assert_string_equal(show(0),
			"edge-2 edge-2:10250, edge-1 192.168.1.12:10250 for edge-2, "
			"edge-3 192.168.1.12:10250 for edge-2");
		assert_int_equal(
			routes_beside(finder, &ways, 1, &why), 0); /* none behind a neighbour */
	}
	tunnels = ",edge-1,edge-2,edge-3,"; /* it is back, and has no room for another stream */
	assert_int_equal(routes_find(finder, "edge-2", 10250, &ways), 0);
	assert_int_equal(routes_beside(finder, &ways, 0, &why), 0);
	tunnels = ",edge-1,edge-3,";
	assert_int_equal(routes_find(finder, "edge-2", 22, &ways), 0);
	assert_int_equal(routes_beside(finder, &ways, 0, &why), 0);
	assert_string_equal(why, "no neighbour's tunnel.reach opens this port");
	assert_string_equal(show(routes_find_at(finder, "edge-2", "127.0.0.1:10250", &ways)),
		"edge-2 127.0.0.1:10250");
	assert_int_equal(routes_beside(finder, &ways, 0, &why), 2);
	assert_string_equal(ways.list[1].authority, "192.168.1.12:10250");
}

#define RUNNING(name, node, ip, host, port)                                                        \
	"---\napiVersion: v1\nkind: Pod\nmetadata: {name: " name ", labels: {app: web}}\n"         \
	"spec: {nodeName: " node ", containers: [{name: c, ports: [{containerPort: 8080" port      \
	"}]}]}\nstatus: {phase: Running, hostIP: " host ", podIP: " ip ", podIPs: [{ip: " ip       \
	"}], conditions: [{type: Ready, status: 'True'}]}\n"

static void
ways_of_a_service(void **state)
{
	const char *why;

	(void)state;
	say("web",
		SERVICE("web", "selector: {app: web}, ports: [{port: 80, targetPort: 8080}]")
			RUNNING("p-2", "edge-2", "172.17.0.2", "192.168.1.12", ", hostPort: 30080")
				RUNNING("q-2", "edge-2", "172.17.0.3", "192.168.1.12", ""));
	declare("edge-1", "edge-2:22\n");
	assert_string_equal(show(routes_find(finder, "web.default", 80, &ways)),
		"edge-2 172.17.0.2:8080, edge-2 172.17.0.3:8080");
	assert_int_equal(routes_beside(finder, &ways, 1, &why), 0);
	assert_non_null(strstr(why, "only at a port of its host"));
	assert_int_equal(routes_beside(finder, &ways, 0, &why), 1);
	assert_string_equal(show(0),
		"edge-2 172.17.0.2:8080, edge-1 192.168.1.12:30080 for edge-2, "
		"edge-2 172.17.0.3:8080");
	say("web",
		"apiVersion: v1\nkind: Service\nmetadata: {name: web, annotations: "
		"{edgeway.io/encrypt: always}}\n"
		"spec: {type: ClusterIP, clusterIP: 10.96.0.10, selector: {app: web}, "
		"ports: [{port: 80, targetPort: 8080}]}\n" RUNNING(
			"p-2", "edge-2", "172.17.0.2", "192.168.1.12", ", hostPort: 30080")
			RUNNING("q-2", "edge-2", "172.17.0.3", "192.168.1.12", ""));
	assert_int_equal(routes_find(finder, "web.default", 80, &ways), 0);
	assert_int_equal(routes_beside(finder, &ways, 0, &why), 0);
	assert_non_null(strstr(why, "clear text"));
	assert_string_equal(
		show(routes_find(finder, "172.17.0.3", 8080, &ways)), "edge-2 172.17.0.3:8080");
	assert_int_equal(routes_beside(finder, &ways, 0, &why), 0);
	assert_non_null(strstr(why, "only at a port of its host"));
}

static void
ways_to_an_address(void **state)
{
	(void)state;
	assert_string_equal(
		show(routes_find(finder, "192.168.1.50", 9100, &ways)), " 192.168.1.50:9100");
	declare("edge-1", "192.168.1.48/28:9100\n");
	declare("edge-3", "192.168.1.48/28:9100\n");
	assert_string_equal(show(routes_find(finder, "192.168.1.50", 9100, &ways)),
		"edge-1 192.168.1.50:9100 for *, edge-3 192.168.1.50:9100 for *");
	assert_int_equal(ways.target.kind, TARGET_SITE);
	assert_string_equal(ways.target.host, "192.168.1.50");
	assert_string_equal(ways.target.name, "a");
	assert_memory_equal(show(routes_find(finder, "192.168.1.50", 80, &ways)),
		"503 192.168.1.50: no neighbour's tunnel.reach opens this port", 61);
	declare("edge-5", "192.168.1.48/28:9100\n");
	assert_memory_equal(show(routes_find(finder, "192.168.1.50", 9100, &ways)),
		"421 192.168.1.50 is declared in 2 sites: ", 41);
	assert_true(strstr(ways.reason, ": a (by node edge-1), b (by node edge-5); say ") ||
		strstr(ways.reason, ": b (by node edge-5), a (by node edge-1); say "));
	assert_string_equal(show(routes_find_at(finder, "edge-5", "192.168.1.50:9100", &ways)),
		"edge-5 192.168.1.50:9100 for *");
	assert_string_equal(ways.target.name, "b");
	/* A Node's address is the Node's, whoever declares it. */
	declare("edge-5", "192.168.1.0/24\n");
	assert_string_equal(
		show(routes_find(finder, "192.168.1.12", 10250, &ways)), " 192.168.1.12:10250");
	/* What the hub dials itself no neighbour draws to itself. */
	home = "192.168.1.51";
	assert_string_equal(
		show(routes_find(finder, "192.168.1.51", 9100, &ways)), " 192.168.1.51:9100");
}

/* By way of one node: another node's address is that node, by its own tunnel, and to the rules. */
static void
as_a_node_sees_it(void **state)
{
	(void)state;
	declare("edge-1", "edge-2\n192.168.1.13/32\n");
	assert_string_equal(show(routes_find_at(finder, "edge-1", "192.168.1.12:10250", &ways)),
		"edge-2 edge-2:10250");
	assert_string_equal(ways.target.node, "edge-2");
	assert_string_equal(show(routes_find_at(finder, "edge-1", "192.168.1.13:10250", &ways)),
		"edge-3 edge-3:10250");
	assert_string_equal(show(routes_find_at(finder, "edge-1", "192.168.1.11:10250", &ways)),
		"edge-1 192.168.1.11:10250");
	assert_string_equal(ways.target.node, "edge-1");
	/* Not declared: the node says itself that it has no such address. */
	assert_string_equal(show(routes_find_at(finder, "edge-3", "192.168.1.12:10250", &ways)),
		"edge-3 192.168.1.12:10250");
	assert_string_equal(ways.list[0].final_node, "");
}

static const char *
shown(void)
{
	static char text[2000];
	auto_buf struct buf b;

	buf_init(&b, BUF_UNLIMITED);
	neighbours_state(neighbours, &b);
	snprintf(text, sizeof text, "%s", buf_str(&b));
	return text;
}

#define SHOWN(entry, here, state, streams, problem)                                                \
	"{\"node\":\"" entry "\",\"via\":\"edge-1\",\"site\":\"a\",\"here\":" here                 \
	",\"state\":\"" state "\",\"streams\":" streams ",\"problem\":\"" problem "\"}"

/* As edgewayctl and the page have it. */
static void
they_are_shown(void **state)
{
	struct metrics m;

	(void)state;
	assert_string_equal(shown(), "[]");
	declare("edge-1", "edge-2\nedge-3\nedge-5\n192.168.1.0/24\n");
	result("edge-2", "edge-1", true);
	assert_string_equal(shown(),
		"[" SHOWN("edge-2", "true", "carried", "1", "") "," SHOWN(
			"edge-3", "true", "has its own tunnel", "1", "") "," SHOWN("edge-5", "true",
			"refused", "1", "that node is of another site") "," SHOWN("192.168.1.0/24",
			"true", "ready", "1", "") "]");
	metrics_init(&m);
	neighbours_metrics(neighbours, &m);
	assert_non_null(
		strstr(buf_str(&m.out), "edgeway_hub_neighbour_entries{state=\"accepted\"} 3\n"));
	assert_non_null(
		strstr(buf_str(&m.out), "edgeway_hub_neighbour_entries{state=\"refused\"} 1\n"));
	metrics_fini(&m);
	/* The other one carries it now; what another replica has heard is told as well. */
	declare("edge-3", "edge-2\n");
	result("edge-2", "edge-3", true);
	neighbours_forget(neighbours, "edge-1");
	neighbours_heard(neighbours, state, "edge-1", NULL);
	neighbours_heard(neighbours, state, "edge-1", "edge-2");
	assert_non_null(strstr(shown(), SHOWN("edge-2", "false", "ready", "1", "")));
}

/* However many declare, a scraper gets so many series; the entries are counted all the same. */
static void
series_of_nodes(void **state)
{
	enum { MORE = METRIC_NODES_MAX + 50 };
	char want[80], node[32];
	size_t n = 0;
	struct metrics m;

	(void)state;
	for (unsigned i = 0; i < MORE; i++) {
		snprintf(node, sizeof node, "many-%u", i);
		neighbours_heard(neighbours, state, node, NULL);
		neighbours_heard(neighbours, state, node, "edge-2");
	}
	metrics_init(&m);
	neighbours_metrics(neighbours, &m);
	for (const char *at = buf_str(&m.out);
		(at = strstr(at, "\nedgeway_hub_neighbour_streams_total{")) != NULL; at++)
		n++;
	assert_int_equal(n, METRIC_NODES_MAX);
	snprintf(want, sizeof want, "edgeway_hub_neighbour_entries{state=\"refused\"} %u\n", MORE);
	assert_non_null(strstr(buf_str(&m.out), want)); /* they are of no site */
	metrics_fini(&m);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(what_counts),
		T(without_sites),
		T(sites_must_be_named),
		T(who_carries),
		T(elsewhere),
		T(nodes_change),
		T(they_are_told),
		T(ways_of_a_node),
		T(ways_of_a_service),
		T(ways_to_an_address),
		T(as_a_node_sees_it),
		T(they_are_shown),
		T(series_of_nodes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
