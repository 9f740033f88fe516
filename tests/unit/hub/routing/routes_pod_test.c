/* Pods by their address that another replica was asked for: when this one wants them, too. */
#include "tests/unit/hub/routing/routes_bed.h"

#include <stdio.h>
#include <string.h>

#include "tests/fake/clock.h"

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
	bed_say("pod",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: db, namespace: shop, labels: {app: "
		"db}}\nspec: {nodeName: edge-2, containers: [{ports: [{containerPort: 8080}]}]}\n"
		"status: {phase: Running, podIP: 172.17.0.9, hostIP: 192.168.1.20}\n---\n"
		"apiVersion: v1\nkind: Service\nmetadata: {name: db, namespace: shop, "
		"annotations: {edgeway.io/allow-from: namespaces=shop}}\n"
		"spec: {selector: {app: db}, ports: [{port: 80, targetPort: 8080}]}\n");
	bed_wanted = 0;
	routes_for(bed_finder, &old);
	assert_int_equal(bed_find_endpoint("edge-1", pod, "edge-2", "172.17.0.9:7070"), 404);
	assert_int_equal(bed_wanted, 1); /* to know its rules */
	assert_int_equal(bed_wanted_port, 0);
	routes_for(bed_finder, &new); /* but no pod of its may call */
	assert_int_equal(bed_find_endpoint("edge-1", pod, "edge-2", "172.17.0.9:7070"), 404);
	assert_int_equal(bed_wanted, 1);
	bed_say("caller",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: c, namespace: shop}\nspec: "
		"{nodeName: edge-1}\nstatus: {phase: Running, podIP: 172.17.0.8, hostIP: "
		"192.168.1.20}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: c2, namespace: "
		"shop}\nspec: {nodeName: edge-2}\nstatus: {phase: Running, podIP: 172.17.0.8, "
		"hostIP: 192.168.1.20}\n");
	assert_int_equal(bed_find_endpoint("edge-1", pod, "edge-2", "172.17.0.9:7070"), 0);
	assert_int_equal(bed_wanted_port, 7070);
	assert_int_equal(bed_find_endpoint("edge-1", pod, "edge-2", "172.17.0.9:7070"), 0);
	assert_int_equal(bed_wanted, 2); /* it is there already */
	for (unsigned i = 0; i < 400; i++) {
		snprintf(at, sizeof at, "172.17.0.9:%u", 20000 + i);
		bed_find_endpoint("edge-1", pod, "edge-2", at);
	}
	assert_int_equal(bed_wanted, 200);
	clock_pass(1000 * 1000);
	for (unsigned i = 0; i < 400; i++) {
		snprintf(at, sizeof at, "172.17.0.9:%u", 21000 + i);
		bed_find_endpoint("edge-1", pod, "edge-2", at);
	}
	assert_int_equal(bed_wanted, 250);
	/* another node has its own */
	edge2 = new;
	snprintf(edge2.node, sizeof edge2.node, "edge-2");
	routes_for(bed_finder, &edge2);
	assert_int_equal(bed_find_endpoint("edge-2", pod, "edge-2", "172.17.0.9:7071"), 0);
	routes_for(bed_finder, NULL);
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
	bed_say("pods", buf_str(&text));
	for (unsigned i = 0; i < FANOUT_PODS_UNWANTED + 1; i++) {
		snprintf(at, sizeof at, "10.8.%u.%u", i / 250, i % 250);
		bed_want_pod(NULL, "shop", at, 80, "edge-1");
	}
	assert_int_equal(bed_find_endpoint("edge-1", first, "edge-2", "10.8.0.0:80"), 0);
	fanout_forget_pods(bed_fanout, bed_cluster);
	bed_settle();
	assert_int_equal(cluster_pods_wanted(bed_cluster), FANOUT_PODS_UNWANTED);
	assert_non_null(fanout_find(bed_fanout, first));
	assert_null(fanout_find(bed_fanout, second));
	assert_int_equal(
		bed_find_endpoint("edge-1", second, "edge-2", "10.8.0.1:80"), 0); /* again */
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			pods_are_wanted_by_those_that_may, bed_setup, bed_teardown),
		cmocka_unit_test_setup_teardown(
			the_unwanted_are_forgotten, bed_setup, bed_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
