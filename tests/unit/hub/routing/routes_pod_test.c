/* Pods by their address that another replica was asked for: when this one wants them, too. */
#include "tests/unit/model/kube_kit.h"

#include <stdio.h>
#include <string.h>

#include "hub/routing/routes.h"

static struct cluster *cluster;
static struct fanout *fanout;
static struct routes_finder *finder;
static unsigned n_wanted;
static uint16_t port_wanted;

static void
settle(void)
{
	struct cluster_change change;

	while (cluster_next_change(cluster, &change)) {
		if (change.view != NULL)
			fanout_set(fanout, &change);
		else
			fanout_remove(fanout, change.ns, change.name);
		cluster_change_fini(&change);
	}
}

static void
say(const char *source, const char *yaml)
{
	kit_say(cluster, source, yaml);
	settle();
}

static void
want_pod(void *arg, const char *ns, const char *address, uint16_t port, const char *asker)
{
	(void)arg;
	n_wanted++;
	port_wanted = port;
	cluster_pod_want(cluster, ns, address, port, cluster_pod_asker(asker, 0));
	settle();
}

static bool
at_edge(void *arg, const char *node)
{
	(void)arg;
	return strncmp(node, "edge-", 5) == 0;
}

static unsigned
find_endpoint(const char *asker, const char *service, const char *node, const char *at)
{
	const struct routes_endpoint wanted = {asker, service, node, at, false};
	struct routes ways;

	return routes_find_endpoint(finder, &wanted, &ways);
}

static int
setup(void **state)
{
	struct routes_config config = {.cluster_domain = "cluster.local",
		.suffix = "",
		.at_edge = at_edge,
		.tunnelled = at_edge,
		.want_pod = want_pod};

	(void)state;
	config.cluster = cluster = cluster_new();
	config.fanout = fanout = fanout_new();
	finder = routes_new(&config);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	routes_free(&finder);
	fanout_free(&fanout);
	cluster_free(&cluster);
	return 0;
}

/* The hub looks whom the pod admits before it adds a port, and does so at a bounded rate. */
static void
pods_are_wanted_by_those_that_may(void **state)
{
	static const char pod[] = "shop/172-17-0-9._pod";
	const struct routes_caller old = {.node = "edge-1"},
				   new = {.node = "edge-1", .enforces = true};
	struct routes_caller edge2;
	char at[64];

	(void)state;
	say("pod",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: db, namespace: shop, labels: {app: "
		"db}}\nspec: {nodeName: edge-2, containers: [{ports: [{containerPort: 8080}]}]}\n"
		"status: {phase: Running, podIP: 172.17.0.9, hostIP: 192.168.1.20}\n---\n"
		"apiVersion: v1\nkind: Service\nmetadata: {name: db, namespace: shop, "
		"annotations: {edgeway.io/allow-from: namespaces=shop}}\n"
		"spec: {selector: {app: db}, ports: [{port: 80, targetPort: 8080}]}\n");
	n_wanted = 0;
	routes_for(finder, &old);
	assert_int_equal(find_endpoint("edge-1", pod, "edge-2", "172.17.0.9:7070"), 404);
	assert_int_equal(n_wanted, 1); /* to know its rules */
	assert_int_equal(port_wanted, 0);
	routes_for(finder, &new); /* but no pod of its may call */
	assert_int_equal(find_endpoint("edge-1", pod, "edge-2", "172.17.0.9:7070"), 404);
	assert_int_equal(n_wanted, 1);
	say("caller",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: c, namespace: shop}\nspec: "
		"{nodeName: edge-1}\nstatus: {phase: Running, podIP: 172.17.0.8, hostIP: "
		"192.168.1.20}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: c2, namespace: "
		"shop}\nspec: {nodeName: edge-2}\nstatus: {phase: Running, podIP: 172.17.0.8, "
		"hostIP: 192.168.1.20}\n");
	assert_int_equal(find_endpoint("edge-1", pod, "edge-2", "172.17.0.9:7070"), 0);
	assert_int_equal(port_wanted, 7070);
	assert_int_equal(find_endpoint("edge-1", pod, "edge-2", "172.17.0.9:7070"), 0);
	assert_int_equal(n_wanted, 2); /* it is there already */
	for (unsigned i = 0; i < 1000; i++) {
		snprintf(at, sizeof at, "172.17.0.9:%u", 20000 + i);
		find_endpoint("edge-1", pod, "edge-2", at);
	}
	assert_in_range(n_wanted, 100, 800);
	/* another node has its own */
	edge2 = new;
	snprintf(edge2.node, sizeof edge2.node, "edge-2");
	routes_for(finder, &edge2);
	assert_int_equal(find_endpoint("edge-2", pod, "edge-2", "172.17.0.9:7071"), 0);
	routes_for(finder, NULL);
}

/* Nobody asks for it any more: of such pods some are kept, those that were of use last. */
static void
the_unwanted_are_forgotten(void **state)
{
	static const char first[] = "shop/10-8-0-0._pod", second[] = "shop/10-8-0-1._pod";
	auto_buf struct buf text;
	char at[64];

	(void)state;
	buf_init(&text, BUF_UNLIMITED);
	for (unsigned i = 0; i < FANOUT_PODS_UNWANTED + 1; i++)
		buf_printf(&text,
			"---\napiVersion: v1\nkind: Pod\nmetadata: {name: p%u, namespace: shop}\n"
			"spec: {nodeName: edge-2}\nstatus: {phase: Running, podIP: 10.8.%u.%u, "
			"hostIP: 192.0.2.2}\n",
			i, i / 250, i % 250);
	say("pods", buf_str(&text));
	for (unsigned i = 0; i < FANOUT_PODS_UNWANTED + 1; i++) {
		snprintf(at, sizeof at, "10.8.%u.%u", i / 250, i % 250);
		want_pod(NULL, "shop", at, 80, "edge-1");
	}
	assert_int_equal(find_endpoint("edge-1", first, "edge-2", "10.8.0.0:80"), 0);
	fanout_forget_pods(fanout, cluster);
	settle();
	assert_int_equal(cluster_pods_wanted(cluster), FANOUT_PODS_UNWANTED);
	assert_non_null(fanout_find(fanout, first));
	assert_null(fanout_find(fanout, second));
	assert_int_equal(find_endpoint("edge-1", second, "edge-2", "10.8.0.1:80"), 0); /* again */
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(pods_are_wanted_by_those_that_may, setup, teardown),
		cmocka_unit_test_setup_teardown(the_unwanted_are_forgotten, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
