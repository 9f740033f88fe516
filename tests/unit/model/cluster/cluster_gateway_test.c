/* Which addresses the status of a Service with loadBalancerClass edgeway.io/node is to have. */
#include "tests/unit/model/kube_kit.h"

#include <string.h>

#include "base/core/util.h"

#define CLASS "type: LoadBalancer, loadBalancerClass: edgeway.io/node, ports: [{port: 80}]"
#define READY(name, labels, ready, addresses)                                                      \
	"---\napiVersion: v1\nkind: Node\nmetadata: {name: " name ", labels: {" labels "}}\n"      \
	"status: {addresses: [" addresses "], conditions: [{type: Ready, status: \"" ready         \
	"\"}]}\n"
#define INTERNAL(ip) "{type: InternalIP, address: " ip "}"
#define EXTERNAL(ip) ", {type: ExternalIP, address: " ip "}"

static const char *dead; /* the node whose agent does not live */
static char wants[512], has[512];
static unsigned calls;

static bool
is_alive(void *arg, const char *node)
{
	(void)arg;
	return strcmp(node, dead) != 0;
}

static void
on_gateway(void *arg, const struct cluster_gateway *g)
{
	calls++;
	if (strcmp(g->name, arg) != 0)
		return;
	snprintf(wants, sizeof wants, "%s", g->wants);
	snprintf(has, sizeof has, "%s", g->has);
}

static void
look(const char *name)
{
	wants[0] = has[0] = '\0';
	calls = 0;
	cluster_each_gateway(kit_cluster, is_alive, on_gateway, (void *)(uintptr_t)name);
}

static void
nodes_are_selected(void **state)
{
	(void)state;
	dead = "";
	kit_say(kit_cluster, "nodes",
		READY("b", "row: x", "True", INTERNAL("192.0.2.2") EXTERNAL("203.0.113.2")) READY(
			"a", "", "True", INTERNAL("192.0.2.1") ", {type: Hostname, address: a}")
			READY("c", "row: x", "Unknown", INTERNAL("192.0.2.3"))
				NODE("d", "", INTERNAL("192.0.2.4")));
	kit_say(kit_cluster, "services",
		SERVICE("all",
			CLASS) "status: {loadBalancer: {ingress: [{ip: 192.0.2.9}, "
			       "{hostname: x}, {ip: 192.0.2.1}]}}\n"
			       "---\napiVersion: v1\nkind: Service\nmetadata: {name: some, "
			       "annotations: "
			       "{edgeway.io/nodes: row=x}}\nspec: {" CLASS "}\n" SERVICE("other",
				       "type: LoadBalancer, loadBalancerClass: example.com/x, "
				       "ports: [{port: 80}]")
				       SERVICE("none", "ports: [{port: 80}]"));
	look("all");
	assert_int_equal(calls, 2);
	assert_string_equal(has, "192.0.2.9,192.0.2.1");
	assert_string_equal(wants, "192.0.2.1,203.0.113.2,192.0.2.4");
	look("some");
	assert_string_equal(wants, "203.0.113.2");
	dead = "b";
	look("some");
	assert_string_equal(wants, "");
	look("all");
	assert_string_equal(wants, "192.0.2.1,192.0.2.4");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(nodes_are_selected, kit_setup, kit_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
