#include "tests/unit/model/kube_kit.h"

#include <string.h>

#include "hub/ingress/redirect_targets.h"
#include "model/check.h"

/* Which addresses of nodes are led through the hub, and why others are not. */

#define IP(address) "{type: InternalIP, address: '" address "'}"
#define PUBLIC "edgeway.io/public: 'true'"

static struct cluster *cluster;
static const char *edges; /* names between commas */
static unsigned asked;
static struct redirect_targets found;

static bool
at_edge(void *arg, const char *node)
{
	char name[80];

	(void)arg;
	asked++;
	snprintf(name, sizeof name, ",%s,", node);
	return strstr(edges, name) != NULL;
}

static int
setup(void **state)
{
	(void)state;
	cluster = cluster_new();
	edges = ",edge-1,edge-2,edge-3,";
	asked = 0;
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	redirect_targets_fini(&found);
	cluster_free(&cluster);
	return 0;
}

static void
find(const struct in6_addr *own, size_t n_own)
{
	redirect_targets_find(&found,
		&(struct redirect_targets_question){
			.cluster = cluster, .at_edge = at_edge, .own = own, .n_own = n_own});
}

/* Left out for this reason, and for no other one. */
static void
only(enum redirect_targets_why why, size_t n)
{
	for (enum redirect_targets_why w = 0; w < REDIRECT_TARGETS_WHYS; w++)
		assert_int_equal(found.left_out[w], w == why ? n : 0);
}

static struct in6_addr
ip(const char *text)
{
	struct in6_addr ip;

	assert_true(ip_parse(text, &ip));
	return ip;
}

static void
is_at(size_t i, const char *text)
{
	const struct in6_addr want = ip(text);

	assert_true(i < found.n && ip_same(&found.list[i], &want));
	assert_true(redirect_targets_have(&found, &want));
}

static bool
has(const char *text)
{
	const struct in6_addr at = ip(text);

	return redirect_targets_have(&found, &at);
}

static void
nodes_at_the_edge(void **state)
{
	(void)state;
	kit_say(cluster, "nodes",
		NODE("edge-2", "", IP("192.168.1.20")) NODE("edge-1", "",
			IP("192.168.1.10") ", {type: Hostname, address: '192.168.1.10'}, "
					   "{type: Hostname, address: box}, " IP("10.1.0.1"))
			NODE("master", "", IP("10.0.0.1")));
	find(NULL, 0);
	assert_int_equal(found.n, 3);
	is_at(0, "10.1.0.1");
	is_at(1, "192.168.1.10");
	is_at(2, "192.168.1.20");
	only(REDIRECT_TARGETS_NOT_AT_EDGE, 1);
	assert_int_equal(asked, 3); /* once a node: it may look into files */
	assert_false(has("10.0.0.1"));
	/* again, after changes */
	kit_say(cluster, "nodes", NODE("edge-1", "", IP("192.168.1.10")));
	find(NULL, 0);
	assert_int_equal(found.n, 1);
	only(REDIRECT_TARGETS_WHYS, 0);
	kit_say(cluster, "nodes", "");
	find(NULL, 0);
	assert_int_equal(found.n, 0);
	assert_false(has("192.168.1.10"));
}

static void
what_others_can_dial(void **state)
{
	(void)state;
	kit_say(cluster, "nodes",
		NODE("edge-1", PUBLIC, IP("192.168.1.10") ", " IP("192.168.1.11")) NODE("edge-2",
			"", IP("192.168.1.20") ", {type: ExternalIP, address: 203.0.113.4}"));
	find(NULL, 0);
	assert_int_equal(found.n, 0);
	only(REDIRECT_TARGETS_DIRECT, 4);
}

static void
addresses_of_several(void **state)
{
	(void)state;
	kit_say(cluster, "nodes",
		NODE("edge-1", "", IP("192.168.1.20") ", " IP("192.168.1.1"))
			NODE("edge-2", "", IP("192.168.1.20")));
	find(NULL, 0);
	assert_int_equal(found.n, 1);
	is_at(0, "192.168.1.1");
	only(REDIRECT_TARGETS_AMBIGUOUS, 2);
	assert_non_null(strstr(found.ambiguous, "192.168.1.20 of edge-1"));
	assert_non_null(strstr(found.ambiguous, "192.168.1.20 of edge-2"));
	/* one of them is public, or not at the edge at all: it is as doubtful who is meant */
	kit_say(cluster, "nodes",
		NODE("edge-1", "", IP("192.168.1.20")) NODE("edge-2", PUBLIC, IP("192.168.1.20"))
			NODE("edge-3", "", IP("192.168.1.30"))
				NODE("master", "", IP("192.168.1.30")));
	find(NULL, 0);
	assert_int_equal(found.n, 0);
	assert_int_equal(found.left_out[REDIRECT_TARGETS_AMBIGUOUS], 2);
	/* a ClusterIP and a pod's address are somebody else's, too */
	kit_say(cluster, "nodes",
		NODE("edge-1", "", IP("10.96.0.7") ", " IP("10.244.0.9")) SERVICE("web",
			"clusterIP: 10.96.0.7, ports: [{port: 80}]") "---\napiVersion: v1\nkind: "
								     "Pod\nmetadata: {name: p}\n"
								     "spec: {nodeName: master}\n"
								     "status: {phase: Running, "
								     "podIP: 10.244.0.9, podIPs: "
								     "[{ip: "
								     "10.244.0.9}]}\n");
	find(NULL, 0);
	assert_int_equal(found.n, 0);
	only(REDIRECT_TARGETS_AMBIGUOUS, 2);
}

/* A pod that uses its node's network has no address of its own. */
static void
pods_of_the_node_s_network(void **state)
{
	(void)state;
	kit_say(cluster, "nodes",
		NODE("edge-1", "",
			IP("192.168.1.10")) "---\napiVersion: v1\nkind: Pod\nmetadata: "
					    "{name: proxy}\nspec: {nodeName: edge-1, "
					    "hostNetwork: true}\n"
					    "status: {phase: Running, hostIP: 192.168.1.10, "
					    "podIP: 192.168.1.10, podIPs: [{ip: 192.168.1.10}]}\n");
	find(NULL, 0);
	assert_int_equal(found.n, 1);
	only(REDIRECT_TARGETS_WHYS, 0);
}

static void
addresses_that_are_never_led(void **state)
{
	const struct in6_addr own[] = {ip("127.0.0.1"), ip("192.168.1.5"), ip("fd00::5")};

	(void)state;
	kit_say(cluster, "nodes", NODE("edge-1", "", IP("192.168.1.5") ", " IP("fd00:0::5")));
	find(own, ARRAY_LEN(own));
	assert_int_equal(found.n, 0);
	only(REDIRECT_TARGETS_OWN, 2);
	kit_say(cluster, "nodes",
		NODE("edge-1", "",
			IP("127.0.0.1") ", " IP("127.9.9.9") ", " IP("169.254.169.254") ", " IP(
				"224.0.0.1") ", " IP("255.255.255.255")));
	find(own, ARRAY_LEN(own));
	assert_int_equal(found.n, 0);
	only(REDIRECT_TARGETS_UNFIT, 5);
	kit_say(cluster, "nodes",
		NODE("edge-1", "",
			IP("::1") ", " IP("fe80::1") ", " IP("fd00:ec2::254") ", " IP(
				"ff02::1") ", " IP("::") ", " IP("::ffff:192.0.2.1")));
	find(own, ARRAY_LEN(own));
	assert_int_equal(found.n, 0);
	only(REDIRECT_TARGETS_UNFIT, 6);
}

/* In one list, IPv4 first; a family that cannot be redirected is left out. */
static void
both_families(void **state)
{
	const struct in6_addr v6 = ip("fd00::1"), v4 = ip("10.1.0.1");

	(void)state;
	kit_say(cluster, "nodes",
		NODE("edge-1", "", IP("fd00:0:0::1") ", " IP("10.1.0.1")) NODE("edge-2", "",
			IP("2001:db8::2") ", " IP("fd00::9")) NODE("edge-3", "", IP("fd00::9")));
	find(NULL, 0);
	assert_int_equal(found.n, 3);
	is_at(0, "10.1.0.1");
	is_at(1, "2001:db8::2");
	is_at(2, "fd00::1");
	only(REDIRECT_TARGETS_AMBIGUOUS, 2);
	assert_true(ip_same(redirect_targets_first(&found, false), &v4));
	redirect_targets_leave(&found, false);
	assert_null(redirect_targets_first(&found, false));
	assert_int_equal(found.left_out[REDIRECT_TARGETS_IPV4], 1);
	assert_true(redirect_targets_have(&found, &v6));
	redirect_targets_leave(&found, true);
	assert_int_equal(found.left_out[REDIRECT_TARGETS_IPV6], 2);
	assert_false(redirect_targets_have(&found, &v6));
	assert_int_equal(found.n, 0);
}

static void
lists(void **state)
{
	static const char *const sorted[] = {"0.0.0.0", "0.0.0.3", "255.0.0.7", "fd00::7"};
	struct in6_addr list[] = {ip("255.0.0.7"), ip("0.0.0.3"), ip("fd00::7"), ip("0.0.0.0"),
		ip("fd00::7"), ip("0.0.0.3")};

	(void)state;
	assert_int_equal(redirect_targets_sort(list, 6), 4);
	for (size_t i = 0; i < ARRAY_LEN(sorted); i++) {
		const struct in6_addr want = ip(sorted[i]);

		assert_true(ip_same(&list[i], &want));
	}
	assert_int_equal(redirect_targets_sort(NULL, 0), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(nodes_at_the_edge, setup, teardown),
		cmocka_unit_test_setup_teardown(what_others_can_dial, setup, teardown),
		cmocka_unit_test_setup_teardown(addresses_of_several, setup, teardown),
		cmocka_unit_test_setup_teardown(pods_of_the_node_s_network, setup, teardown),
		cmocka_unit_test_setup_teardown(addresses_that_are_never_led, setup, teardown),
		cmocka_unit_test_setup_teardown(both_families, setup, teardown),
		cmocka_unit_test(lists),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
