/* What is said of a Service that is not served as it is: problem, class, and what an operator needs
 * to mend it. */
#include "tests/unit/model/kube_kit.h"

#include <stdio.h>
#include <string.h>

#define POD(name, node, labels, ports, ip)                                                         \
	"---\napiVersion: v1\nkind: Pod\nmetadata: {name: " name ", labels: {" labels "}}\n"       \
	"spec: {nodeName: " node ", containers: [{ports: [" ports "]}]}\n"                         \
	"status: {phase: Running, " ip "hostIP: 192.0.2.1}\n"
#define AT(ip) "podIP: " ip ", "
#define WEB "{name: http, containerPort: 8080, hostPort: 30080}"
#define BY(labels) SERVICE("s", "selector: {" labels "}, ports: [{port: 80, targetPort: http}]")

static void
adopt(void)
{
	kit_drop_changes(kit_cluster);
	cluster_look_near(kit_cluster);
}

/* What nodes are told of the service's port. */
static const char *
told_why(void)
{
	static char text[512];
	struct cluster_change change;

	text[0] = '\0';
	while (cluster_next_change(kit_cluster, &change)) {
		struct view *v = NULL;
		struct service *s;
		const struct self self = {.node = "edge-1", .site = "", .zone = ""};

		assert_int_equal(view_parse(&v, change.json, change.json_len, NULL), 0);
		s = service_build(v, &self, 0, change.digest);
		snprintf(text, sizeof text, "%s", s->ports[0].why);
		service_unref(&s);
		view_free(&v);
		cluster_change_fini(&change);
	}
	return text;
}

static void
says(enum cluster_problem problem, const char *reason)
{
	adopt();
	assert_string_equal(cluster_reason(kit_cluster, "default", "s"), reason);
	assert_string_equal(cluster_problem_word(cluster_problem(kit_cluster, "default", "s")),
		cluster_problem_word(problem));
}

/* That only its own node can dial a pod is no problem: the hub may have a way. It asks for which
 * nodes. */
static void
a_pod_without_a_host_port_is_no_problem(void **state)
{
	struct cluster_behind behind;

	(void)state;
	kit_say(kit_cluster, "s", BY("app: web"));
	kit_say(kit_cluster, "p",
		POD("a", "n2", "app: web", "{name: http, containerPort: 8080}", AT("172.17.0.2"))
			POD("b", "n1", "app: web", "{name: http, containerPort: 8080}",
				AT("172.17.0.2")) POD("c", "n2", "app: web",
				"{name: http, containerPort: 8080}", AT("172.17.0.3"))
				POD("d", "n3", "app: web", WEB, AT("172.17.0.2")));
	says(CLUSTER_WELL, "");
	behind = cluster_behind(kit_cluster, "default", "s");
	assert_non_null(strstr(behind.text, "has no hostPort for container port 8080"));
	assert_int_equal(behind.n_nodes, 2);
	assert_string_equal(behind.nodes, "n1");
	assert_string_equal(behind.nodes + 3, "n2");
	kit_say(kit_cluster, "p", POD("d", "n3", "app: web", WEB, AT("172.17.0.2")));
	says(CLUSTER_WELL, "");
	assert_int_equal(cluster_behind(kit_cluster, "default", "s").n_nodes, 0);
	assert_string_equal(cluster_behind(kit_cluster, "default", "s").text, "");
}

static void
nodes_behind_are_bounded(void **state)
{
	auto_buf struct buf pods;

	(void)state;
	buf_init(&pods, BUF_UNLIMITED);
	for (unsigned i = 0; i < CLUSTER_BEHIND_MAX + 10; i++)
		buf_printf(&pods,
			POD("p%u", "n%u", "app: web", "{name: http, containerPort: 8080}",
				AT("172.17.0.2")),
			i, i);
	kit_say(kit_cluster, "s", BY("app: web"));
	kit_say(kit_cluster, "p", buf_str(&pods));
	says(CLUSTER_WELL, "");
	assert_int_equal(cluster_behind(kit_cluster, "default", "s").n_nodes, CLUSTER_BEHIND_MAX);
}

static void
what_counts_more_is_told(void **state)
{
	(void)state;
	kit_say(kit_cluster, "s", BY("app: web"));
	/* Some pod has no such port: in part. None has: the targetPort is wrong. */
	kit_say(kit_cluster, "p",
		POD("a", "n1", "app: web", "{name: web, containerPort: 1}", AT("172.17.0.2"))
			POD("b", "n1", "app: web", WEB, AT("172.17.0.3")));
	says(CLUSTER_PARTLY, "port 80: pod a has no container port named http");
	kit_say(kit_cluster, "p",
		POD("a", "n1", "app: web", "{name: web, containerPort: 1}, {containerPort: 2}",
			AT("172.17.0.2")) POD("b", "n1", "app: web", "", AT("172.17.0.3")));
	says(CLUSTER_TARGET_PORT,
		"port 80: targetPort \"http\" is the name of no container port of its pods; a has "
		"web (1), 2 without a name");
	assert_int_equal(cluster_problem_class(CLUSTER_TARGET_PORT), FINDING_FAULT);
}

/* The controller leaves out of its slices what it cannot resolve. */
static void
a_target_port_that_slices_leave_out(void **state)
{
	static const char by_name[] =
		"{addresses: [172.17.0.2], targetRef: {kind: Pod, name: a}, conditions: {ready: "
		"true}}";
	auto_free char *slice =
		xasprintf("%s", SLICE("s-1", "s", "", "@") /* the endpoints follow */);
	char *at = strchr(slice, '@');
	auto_free char *whole = xasprintf("%.*s%s%s", (int)(at - slice), slice, by_name, at + 1);

	(void)state;
	kit_say(kit_cluster, "s", BY("app: web"));
	kit_say(kit_cluster, "p", POD("a", "n1", "app: web", "", AT("172.17.0.2")));
	kit_say(kit_cluster, "e", whole);
	assert_string_equal(told_why(),
		"targetPort \"http\" is the name of no container port of its pods; a has none at "
		"all");
	says(CLUSTER_TARGET_PORT,
		"port 80: targetPort \"http\" is the name of no container port of its pods; a has "
		"none at all");
}

#define NOBODY "port 80: no pod with an address; "

static void
a_selector_names_the_nearest_label(void **state)
{
	static const struct {
		const char *selector, *pods, *says;
	} cases[] = {
		{"app: web", "", "its selector is app=web, but the namespace has no pods"},
		{"app: wbe",
			POD("db-0", "n", "app: db", WEB, AT("172.17.0.2"))
				POD("web-0", "n", "app: web", WEB, AT("172.17.0.3")),
			"no pod has the label app=wbe of its selector; the nearest, web-0, has "
			"app=web"},
		/* Another value of the same key, however far, before nothing at all. */
		{"app: web", POD("db-0", "n", "app: database", WEB, AT("172.17.0.2")),
			"no pod has the label app=web of its selector; the nearest, db-0, has "
			"app=database"},
		{"app: web", POD("web-0", "n", "apps: web", WEB, AT("172.17.0.2")),
			"no pod has the label app=web of its selector; the nearest, web-0, has "
			"apps=web"},
		{"app: web", POD("x", "n", "tier: web", WEB, AT("172.17.0.2")),
			"no pod has a label of its selector, app=web"},
		{"app: web, tier: front",
			POD("w", "n", "app: web, tier: back", WEB, AT("172.17.0.2"))
				POD("x", "n", "app: wex, tier: frnt", WEB, AT("172.17.0.3")),
			"no pod has all labels of its selector; the nearest, w, has tier=back in "
			"place of tier=front"},
		{"app: web, tier: front", POD("w", "n", "app: web", WEB, AT("172.17.0.2")),
			"no pod has all labels of its selector; the nearest, w, has nothing in "
			"place of tier=front"},
		{"app: web", POD("w", "n", "app: web", WEB, ""),
			"its selector takes 1 pods, such as w, but none of them has an address"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_free char *service = xasprintf(BY("%s"), cases[i].selector);
		auto_free char *reason = xasprintf(NOBODY "%s", cases[i].says);

		kit_say(kit_cluster, "s", service);
		cluster_replace(kit_cluster, "p", NULL);
		if (cases[i].pods[0] != '\0')
			kit_say(kit_cluster, "p", cases[i].pods);
		says(CLUSTER_NO_ENDPOINTS, reason);
	}
	/* Pods often come after their Service: nothing of it is joined again, and still it is
	 * found. */
	cluster_replace(kit_cluster, "p", NULL);
	kit_say(kit_cluster, "s", BY("app: wbe"));
	says(CLUSTER_NO_ENDPOINTS, NOBODY "its selector is app=wbe, but the namespace has no pods");
	kit_say(kit_cluster, "p", POD("web-0", "n", "app: web", WEB, AT("172.17.0.2")));
	says(CLUSTER_NO_ENDPOINTS,
		NOBODY
		"no pod has the label app=wbe of its selector; the nearest, web-0, has app=web");
	kit_say(kit_cluster, "s", BY("app: web"));
	says(CLUSTER_WELL, "");
	cluster_replace(kit_cluster, "s", NULL);
	says(CLUSTER_WELL, "");
}

/* Thousands without a pod in a namespace with thousands of pods: a round is bounded, and rounds
 * come to all. */
static void
rounds_come_to_all(void **state)
{
	enum { SERVICES = 20, PODS = 2500 };
	unsigned named = 0, rounds = 0;
	auto_buf struct buf text;
	struct cluster_change change;

	(void)state;
	buf_init(&text, BUF_UNLIMITED);
	for (unsigned i = 0; i < SERVICES; i++)
		buf_printf(&text, SERVICE("s%u", "selector: {app: wbe}, ports: [{port: 80}]"), i);
	kit_say(kit_cluster, "s", buf_str(&text));
	buf_consume(&text, buf_len(&text));
	for (unsigned i = 0; i < PODS; i++)
		buf_printf(&text, POD("p%u", "n", "app: web", WEB, AT("172.17.0.2")), i);
	kit_say(kit_cluster, "p", buf_str(&text));
	while (cluster_next_change(kit_cluster, &change))
		cluster_change_fini(&change);
	for (; named < SERVICES && rounds < SERVICES; rounds++) {
		cluster_look_near(kit_cluster);
		named = 0;
		for (unsigned i = 0; i < SERVICES; i++) {
			char name[8];

			snprintf(name, sizeof name, "s%u", i);
			named += strstr(cluster_reason(kit_cluster, "default", name),
					 "the nearest, p0, has app=web") != NULL;
		}
		assert_true(rounds > 0 || named < SERVICES);
	}
	assert_int_equal(named, SERVICES);
	assert_true(rounds > 1);
}

/* Not pods alone make work: with as many as before, selectors and pods of many labels have more
 * rounds. */
static void
rounds_are_bounded_by_labels(void **state)
{
	enum { SERVICES = 8, PODS = 500, LABELS = 30 };
	auto_buf struct buf labels, text;
	unsigned named = 0;

	(void)state;
	buf_init(&labels, BUF_UNLIMITED);
	buf_init(&text, BUF_UNLIMITED);
	for (unsigned k = 0; k < LABELS; k++)
		buf_printf(&labels, "k%u: v, ", k);
	for (unsigned i = 0; i < SERVICES; i++)
		buf_printf(&text, SERVICE("s%u", "selector: {%sz: wbe}, ports: [{port: 80}]"), i,
			buf_str(&labels));
	kit_say(kit_cluster, "s", buf_str(&text));
	buf_consume(&text, buf_len(&text));
	for (unsigned i = 0; i < PODS; i++)
		buf_printf(&text, POD("p%u", "n", "%sz: web", WEB, AT("172.17.0.2")), i,
			buf_str(&labels));
	kit_say(kit_cluster, "p", buf_str(&text));
	adopt();
	for (unsigned i = 0; i < SERVICES; i++) {
		char name[8];

		snprintf(name, sizeof name, "s%u", i);
		named += strstr(cluster_reason(kit_cluster, "default", name), "the nearest, p0") !=
			NULL;
	}
	assert_in_range(named, 1, SERVICES - 1);
}

/* Edits of one letter or of two neighbours, by the plain matrix. */
static unsigned
edits_between(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b);
	unsigned d[12][12] = {0};

	for (size_t i = 0; i <= n; i++)
		for (size_t k = 0; k <= m; k++) {
			if (i == 0 || k == 0) {
				d[i][k] = (unsigned)(i + k);
				continue;
			}
			d[i][k] = MIN(MIN(d[i - 1][k], d[i][k - 1]) + 1,
				d[i - 1][k - 1] + (a[i - 1] != b[k - 1]));
			if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
				d[i][k] = MIN(d[i][k], d[i - 2][k - 2] + 1);
		}
	return d[n][m];
}

/* Whoever cannot be nearest any more is not compared to the end: the one that is found is nearest
 * all the same. */
static void
the_nearest_of_many_by_any_order(void **state)
{
	enum { TIMES = 300, PODS = 6 };

	(void)state;
	srandom(7);
	for (unsigned t = 0; t < TIMES; t++) {
		char values[PODS + 1][10];
		auto_buf struct buf text;
		auto_free char *service = NULL, *says_so = NULL;
		unsigned best = 0;

		buf_init(&text, BUF_UNLIMITED);
		for (unsigned i = 0; i <= PODS; i++) {
			size_t n = 1 + (size_t)random() % 8;

			for (size_t k = 0; k < n; k++)
				values[i][k] = "xyz"[random() % 3];
			values[i][n] = '\0';
		}
		for (unsigned i = 0; i < PODS; i++) {
			if (strcmp(values[i], values[PODS]) == 0)
				strcpy(values[i], "w");
			if (edits_between(values[i], values[PODS]) <
				edits_between(values[best], values[PODS]))
				best = i;
			buf_printf(&text, POD("p%u", "n", "app: %s", WEB, AT("172.17.0.2")), i,
				values[i]);
		}
		service = xasprintf(BY("app: %s"), values[PODS]);
		kit_say(kit_cluster, "s", service);
		kit_say(kit_cluster, "p", buf_str(&text));
		adopt();
		says_so = xasprintf("the nearest, p%u, has app=%s", best, values[best]);
		assert_non_null(strstr(cluster_reason(kit_cluster, "default", "s"), says_so));
	}
}

/* Between an event and the next change, which a list in pages may hold up for seconds, a Service
 * may have gone or have no selector any more. */
static void
a_service_that_goes_is_looked_at_no_more(void **state)
{
	(void)state;
	kit_say(kit_cluster, "p", POD("web-0", "n", "app: web", WEB, AT("172.17.0.2")));
	kit_say(kit_cluster, "s", BY("app: wbe"));
	adopt();
	cluster_replace(kit_cluster, "s", NULL);
	cluster_look_near(kit_cluster);
	says(CLUSTER_WELL, "");
	kit_say(kit_cluster, "s", BY("app: wbe"));
	adopt();
	kit_say(kit_cluster, "s", SERVICE("s", "ports: [{port: 80, targetPort: http}]"));
	cluster_look_near(kit_cluster);
	adopt();
	assert_null(strstr(cluster_reason(kit_cluster, "default", "s"), "nearest"));
}

#define T(name) cmocka_unit_test_setup_teardown(name, kit_setup, kit_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_pod_without_a_host_port_is_no_problem),
		T(nodes_behind_are_bounded),
		T(what_counts_more_is_told),
		T(a_target_port_that_slices_leave_out),
		T(a_selector_names_the_nearest_label),
		T(rounds_come_to_all),
		T(rounds_are_bounded_by_labels),
		T(the_nearest_of_many_by_any_order),
		T(a_service_that_goes_is_looked_at_no_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
