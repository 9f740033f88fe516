#include "tests/unit/model/kube_kit.h"

#include <errno.h>
#include <string.h>

#include "model/allow_from.h"
#include "model/check.h"
#include "model/local_callers.h"
#include "model/snapshot.h"

/* Who may call a service: the text, callers of a node, and what NetworkPolicies make of it. */

static struct kube_label web_labels[] = {{(char[]){"app"}, (char[]){"web"}}};
static struct kube_label berlin_labels[] = {{(char[]){"edgeway.io/site"}, (char[]){"berlin"}}};
static const struct kube_labels web = {1, web_labels}, berlin = {1, berlin_labels}, none;

static bool
permits(const char *text, const struct allow_caller *caller)
{
	struct allow_from *a;
	struct err err = {0};
	bool yes;

	if (allow_from_parse(&a, text, "own", &err) < 0)
		fail_msg("%s: %s", text, err.text);
	yes = allow_from_permits(a, caller);
	allow_from_unref(&a);
	return yes;
}

/* --- texts ---------------------------------------------------------------------------------- */

static void
a_peer_takes_whom_all_its_conditions_take(void **state)
{
	struct in6_addr ip, other;
	struct allow_caller pod = {.ns = "shop", .labels = &web, .node = &berlin, .on_node = true},
			    own = {.ns = "own", .labels = &none, .node = &berlin, .on_node = true},
			    host = {.node = &berlin, .on_node = true}, cloud = {.name = "cert:ops"};

	(void)state;
	assert_true(ip_parse("10.1.2.3", &ip) && ip_parse("10.2.0.1", &other));
	assert_true(permits("namespaces=shop", &pod));
	assert_true(permits(" namespaces = ops , shop ", &pod));
	assert_true(permits("namespaces=*", &pod));
	assert_false(permits("namespaces=*", &host));
	assert_false(permits("namespaces=ops", &pod));
	assert_true(permits("namespaces=shop; pods=app in (web, api)", &pod));
	assert_false(permits("namespaces=shop; pods=app=api", &pod));
	/* Without a namespace the service's own is meant, as in a NetworkPolicy. */
	assert_false(permits("pods=app=web", &pod));
	assert_true(permits("pods=!app", &own));
	assert_true(permits("pods=*", &own));
	assert_true(permits("namespaces=ops | namespaces=shop", &pod));
	assert_true(permits("nodes=edgeway.io/site=berlin", &host));
	assert_true(permits("nodes=*", &host));
	assert_false(permits("nodes=*", &cloud));
	assert_false(permits("nodes=edgeway.io/site=paris", &pod));
	assert_true(permits("namespaces=shop;nodes=edgeway.io/site=berlin", &pod));
	assert_false(permits("namespaces=shop;nodes=edgeway.io/site=berlin", &host));
	assert_false(permits("callers=cert:ops", &pod));
	assert_true(permits("callers=token:ci,cert:ops", &cloud));
	assert_false(permits("none", &pod));
	assert_false(permits("none", &host));
	cloud.address = &ip;
	assert_true(permits("addresses=10.0.0.0/8", &cloud));
	assert_false(permits("addresses=::/0", &cloud)); /* IPv6 alone */
	assert_true(permits("addresses=10.1.2.3", &cloud));
	assert_false(permits("addresses=10.0.0.0/8,!10.1.0.0/16", &cloud));
	assert_false(permits("addresses=!10.1.0.0/16", &cloud));
	cloud.address = &other;
	assert_true(permits("addresses=10.0.0.0/8,!10.1.0.0/16", &cloud));
	assert_true(permits("addresses=0.0.0.0/0", &cloud));
	cloud.address = NULL;
	assert_false(permits("addresses=0.0.0.0/0", &cloud));
	cloud.address_checked = true;
	assert_true(permits("addresses=192.0.2.0/24", &cloud));
}

/* != and notin hold where a label is absent; they must not where nothing is known. */
static void
what_is_not_known_is_kept_out(void **state)
{
	struct allow_caller stranger = {.on_node = true};

	(void)state;
	assert_false(permits("namespaces=*; pods=app!=web", &stranger));
	assert_false(permits("pods=*", &stranger));
	assert_false(permits("nodes=edgeway.io/site!=paris", &stranger));
	assert_false(permits("addresses=0.0.0.0/0", &stranger));
	assert_false(permits("callers=local", &stranger));
	assert_true(permits("nodes=*", &stranger));
}

static void
what_cannot_be_read_is_refused_with_its_place(void **state)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{"", "none lets nobody in"},
		{"  ", "none lets nobody in"},
		{"shop", "'shop' is not namespaces="},
		{"namespaces", "is not namespaces="},
		{"namespace=shop", "'namespace' is not namespaces"},
		{"namespaces=", "'' is not the name of a namespace"},
		{"namespaces=Shop", "'Shop' is not the name"},
		{"namespaces=a,,b", "'' is not the name"},
		{"namespaces=a;namespaces=b", "namespaces twice"},
		{"pods=", "a selector expected"},
		{"pods=app in web", "pods: ( expected"},
		{"nodes=a=b=c", "nodes: "},
		{"addresses=10.0.0.0/33", "'10.0.0.0/33' is not an address"},
		{"addresses=10.0.0.0/-1", "is not an address"},
		{"addresses=10.0.0.0/", "is not an address"},
		{"addresses=!", "is not an address"},
		{"callers=ops", "'ops' is not cert:NAME"},
		{"callers=cert:", "is not cert:NAME"},
		{"namespaces=a |", ""},
		{"namespaces=a | | namespaces=b", "is not namespaces="},
		{"none | namespaces=a", "is not namespaces="},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct allow_from *a;
		struct err err = {0};
		int rc = allow_from_parse(&a, cases[i].text, "own", &err);

		if (cases[i].says[0] == '\0') {
			assert_int_equal(rc, 0);
			allow_from_unref(&a);
			continue;
		}
		assert_int_equal(rc, -EINVAL);
		assert_null(a);
		if (strstr(err.text, cases[i].says) == NULL)
			fail_msg("%s: %s", cases[i].text, err.text);
	}
}

/* --- callers of a node ---------------------------------------------------------------------- */

static struct local_callers *
read_callers(const char *json)
{
	struct local_callers *c;
	struct err err = {0};

	if (local_callers_parse(&c, json, strlen(json), &err) < 0)
		fail_msg("%s", err.text);
	return c;
}

static struct allow_caller
find(const struct local_callers *c, const char *address)
{
	static struct in6_addr ip;
	struct allow_caller who;

	assert_true(ip_parse(address, &ip));
	local_callers_find(c, &ip, &who);
	return who;
}

static void
callers_are_known_by_their_address(void **state)
{
	struct local_callers *c = read_callers(
		"{\"node\":{\"edgeway.io/site\":\"berlin\"},\"pods\":["
		"{\"ns\":\"shop\",\"name\":\"a\",\"ip\":\"172.17.0.5\",\"labels\":{\"app\":\"web\"}"
		"},"
		"{\"ns\":\"ops\",\"name\":\"b\",\"ip\":\"172.17.0.4\",\"labels\":{}},"
		"{\"ns\":\"ops\",\"name\":\"c\",\"ip\":\"172.17.0.9\",\"labels\":{}},"
		"{\"ns\":\"shop\",\"name\":\"d\",\"ip\":\"172.17.0.9\",\"labels\":{}}]}");
	struct allow_caller who = find(c, "172.17.0.5");

	(void)state;
	assert_int_equal(local_callers_count(c), 2);
	assert_string_equal(who.ns, "shop");
	assert_true(permits("namespaces=shop; pods=app=web; nodes=edgeway.io/site=berlin", &who));
	who = find(c, "172.17.0.4");
	assert_string_equal(who.ns, "ops");
	assert_false(permits("namespaces=*; pods=app", &who));
	/* Nobody of this address, and one that two claim. */
	assert_null(find(c, "172.17.0.6").ns);
	assert_null(find(c, "172.17.0.9").ns);
	who = find(NULL, "172.17.0.5");
	assert_true(who.ns == NULL && who.on_node && who.node == NULL);
	local_callers_unref(&c);
}

/* By either address; one that two claim takes only itself from a pod. */
static void
callers_of_both_families(void **state)
{
	struct local_callers *c = read_callers(
		"{\"pods\":["
		"{\"ns\":\"shop\",\"name\":\"a\",\"ip\":\"172.17.0.5\",\"otherIP\":\"fd00::5\"},"
		"{\"ns\":\"ops\",\"name\":\"b\",\"ip\":\"172.17.0.9\",\"otherIP\":\"fd00::6\"},"
		"{\"ns\":\"ops\",\"name\":\"c\",\"ip\":\"172.17.0.9\",\"otherIP\":\"fd00::7\"},"
		"{\"ns\":\"ops\",\"name\":\"d\",\"ip\":\"fd00::8\",\"otherIP\":\"fd00::7\"}]}");
	struct allow_caller who;

	(void)state;
	assert_int_equal(local_callers_count(c), 3);
	assert_string_equal(find(c, "172.17.0.5").ns, "shop");
	assert_string_equal(find(c, "fd00::5").ns, "shop");
	assert_null(find(c, "172.17.0.9").ns);
	assert_null(find(c, "fd00::7").ns);
	assert_string_equal(find(c, "fd00::6").ns, "ops");
	assert_string_equal(local_callers_at(c, 1).ip, "fd00::6");
	assert_string_equal(local_callers_at(c, 1).other_ip, "");
	who = find(c, "fd00::5");
	assert_true(permits("addresses=fd00::/64", &who));
	assert_false(permits("addresses=172.17.0.0/16", &who));
	local_callers_unref(&c);
}

static void
bad_callers_are_refused(void **state)
{
	static const char *const bad[] = {"", "[]", "{\"pods\":{}}", "{\"pods\":[{}]}",
		"{\"pods\":[{\"ns\":\"a\",\"name\":\"b\",\"ip\":\"x\"}]}",
		"{\"pods\":[{\"ns\":\"A\",\"name\":\"b\",\"ip\":\"1.2.3.4\"}]}",
		"{\"pods\":[{\"ns\":\"a\",\"name\":\"b\",\"ip\":\"1.2.3.4\",\"labels\":[1]}]}",
		"{\"node\":{\"a\":1}}"};
	struct local_callers *c;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(local_callers_parse(&c, bad[i], strlen(bad[i]), NULL), -EBADMSG);
}

/* As many pods as a node may have, each as large as it may be: a message of which an agent takes
 * all. One beyond is nobody. */
static void
callers_stay_within_a_message(void **state)
{
	enum { VALUE = 253 };
	struct kube_label list[LOCAL_CALLERS_LABELS_MAX + 1];
	struct kube_labels fit = {20, list}, many = {ARRAY_LEN(list), list}, large = {60, list};
	char keys[ARRAY_LEN(list)][64], value[VALUE + 1];
	auto_buf struct buf json;
	struct local_callers *c;

	(void)state;
	memset(value, 'v', VALUE);
	value[VALUE] = '\0';
	for (size_t i = 0; i < ARRAY_LEN(list); i++) {
		snprintf(keys[i], sizeof keys[i], "example.org/%08zu", i);
		list[i] = (struct kube_label){keys[i], value};
	}
	buf_init(&json, BUF_UNLIMITED);
	local_callers_begin(&json, NULL);
	for (unsigned i = 0; i < LOCAL_CALLERS_MAX; i++) {
		char ip[INET_ADDRSTRLEN];

		snprintf(ip, sizeof ip, "172.17.%u.%u", i / 250, 2 + i % 250);
		local_callers_add(&json, &(struct local_pod){"a", "b", ip, "", &fit});
	}
	local_callers_add(&json, &(struct local_pod){"a", "many", "172.18.0.1", "", &many});
	local_callers_add(&json, &(struct local_pod){"a", "large", "172.18.0.2", "", &large});
	local_callers_end(&json);
	assert_in_range(buf_len(&json), 4 << 20, VIEW_MAX_BYTES);
	c = read_callers(buf_str(&json));
	assert_int_equal(local_callers_count(c), LOCAL_CALLERS_MAX);
	assert_null(find(c, "172.18.0.1").ns);
	assert_null(find(c, "172.18.0.2").ns);
	local_callers_unref(&c);
}

/* --- of a cluster --------------------------------------------------------------------------- */

/* The last change of this service; NULL: none. */
static struct view *
next(const char *name)
{
	struct cluster_change change;
	struct view *view = NULL;

	while (cluster_next_change(kit_cluster, &change)) {
		if (strcmp(change.name, name) == 0 && change.view != NULL) {
			view_free(&view);
			view = take_ptr(&change.view);
		}
		cluster_change_fini(&change);
	}
	return view;
}

#define ANNOTATED(name, text)                                                                      \
	"---\napiVersion: v1\nkind: Service\nmetadata: {name: " name                               \
	", annotations: {edgeway.io/allow-from: '" text                                            \
	"'}}\nspec: {selector: {app: db}, ports: [{port: 80}]}\n"
#define POD(ns, name, node, ip, labels)                                                            \
	"---\napiVersion: v1\nkind: Pod\nmetadata: {name: " name ", namespace: " ns                \
	", labels: {" labels "}}\n"                                                                \
	"spec: {nodeName: " node ", containers: [{name: c, ports: [{name: http, containerPort: "   \
	"80}, {containerPort: 81}]}]}\n"                                                           \
	"status: {phase: Running, podIP: " ip "}\n"
#define POLICY(name, spec)                                                                         \
	"---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: " name       \
	"}\nspec: {" spec "}\n"

static void
the_annotation_travels_and_closes_when_it_is_wrong(void **state)
{
	struct kube_batch b;
	struct view *v;

	(void)state;
	kit_say(kit_cluster, "s", ANNOTATED("web", "namespaces=shop"));
	v = next("web");
	assert_string_equal(v->allow_from, "namespaces=shop");
	assert_true(view_restricted(v));
	assert_int_equal(cluster_restricted(kit_cluster), 1);
	assert_string_not_equal(
		cluster_problem_word(cluster_problem(kit_cluster, "default", "web")), "allow_from");
	view_free(&v);
	kit_read(&b, "s", ANNOTATED("web", "namespace=shop"));
	assert_int_equal(b.n_complaints, 1);
	assert_non_null(strstr(b.complaints[0], "s:4: edgeway.io/allow-from: 'namespace' is not"));
	cluster_replace(kit_cluster, "s", &b);
	kube_batch_fini(&b);
	v = next("web");
	assert_string_equal(v->allow_from, "none");
	assert_non_null(
		strstr(cluster_reason(kit_cluster, "default", "web"), "nobody may call it"));
	assert_int_equal(cluster_problem(kit_cluster, "default", "web"), CLUSTER_ALLOW_FROM);
	view_free(&v);
	kit_say(kit_cluster, "s", SERVICE("web", "selector: {app: db}, ports: [{port: 80}]"));
	v = next("web");
	assert_false(view_restricted(v));
	assert_int_equal(cluster_restricted(kit_cluster), 0);
	view_free(&v);
}

static void
the_text_is_part_of_the_view(void **state)
{
	static const char loose[] =
		"{\"ns\":\"a\",\"name\":\"b\",\"ports\":[{\"port\":1,\"mode\":\"tcp\","
		"\"endpoints\":[{\"flags\":3,\"gate\":1}]}]}";
	struct view *v, *again;
	auto_buf struct buf json, other;

	(void)state;
	kit_say(kit_cluster, "s", ANNOTATED("web", "namespaces=shop"));
	kit_say(kit_cluster, "p",
		POLICY("closed", "podSelector: {}")
			POD("default", "db-1", "edge-1", "172.17.0.5", "app: db"));
	v = next("web");
	buf_init(&json, BUF_UNLIMITED);
	buf_init(&other, BUF_UNLIMITED);
	view_build(&json, v);
	assert_non_null(
		strstr(buf_str(&json), "\"allowFrom\":\"namespaces=shop\",\"gates\":[\"none\"]"));
	assert_int_equal(view_parse(&again, buf_at(&json), buf_len(&json), NULL), 0);
	view_build(&other, again);
	assert_string_equal(buf_str(&json), buf_str(&other));
	assert_int_equal(again->ports[0].endpoints[0].gate, 1);
	view_free(&again);
	view_free(&v);
	/* A gate that nobody describes must not pass as open. */
	assert_true(view_parse(&again, loose, strlen(loose), NULL) < 0);
}

static void
the_callers_of_a_node_are_its_pods(void **state)
{
	auto_buf struct buf json;
	struct local_callers *c;
	auto_free char *node = NULL;

	(void)state;
	buf_init(&json, BUF_UNLIMITED);
	kit_say(kit_cluster, "n", NODE("edge-1", "edgeway.io/site: berlin", ""));
	kit_say(kit_cluster, "p",
		POD("shop", "b", "edge-1", "172.17.0.5", "app: web") POD("shop", "a", "edge-1",
			"172.17.0.6", "") POD("shop", "far", "edge-2", "172.17.0.5",
			"") "---\napiVersion: v1\nkind: Pod\nmetadata: {name: host}\nspec: "
			    "{nodeName: edge-1, hostNetwork: true}\n"
			    "status: {phase: Running, podIP: 192.0.2.1, hostIP: 192.0.2.1}\n");
	cluster_callers(kit_cluster, "edge-1", &json);
	assert_string_equal(buf_str(&json),
		"{\"node\":{\"edgeway.io/site\":\"berlin\"},\"pods\":["
		"{\"ns\":\"shop\",\"name\":\"a\",\"ip\":\"172.17.0.6\",\"labels\":{}},"
		"{\"ns\":\"shop\",\"name\":\"b\",\"ip\":\"172.17.0.5\",\"labels\":{\"app\":\"web\"}"
		"}]}");
	c = read_callers(buf_str(&json));
	assert_int_equal(local_callers_count(c), 2);
	local_callers_unref(&c);
	node = cluster_next_callers(kit_cluster);
	assert_string_equal(node, "edge-1");
	free(node);
	node = cluster_next_callers(kit_cluster);
	assert_string_equal(node, "edge-2");
	assert_null(cluster_next_callers(kit_cluster));
	kit_say(kit_cluster, "p", POD("shop", "a", "edge-1", "172.17.0.6", "app: new"));
	free(node);
	node = cluster_next_callers(kit_cluster);
	assert_string_equal(node, "edge-1");
}

static void
a_node_may_call_when_one_of_its_pods_may(void **state)
{
	static const struct {
		const char *text;
		bool one, two;
	} cases[] = {{"namespaces=shop", true, false}, {"namespaces=ops", false, true},
		{"nodes=edgeway.io/site=berlin", true, false},
		{"namespaces=shop; nodes=edgeway.io/site=paris", false, false},
		{"namespaces=*", true, true}, {"none", false, false},
		{"addresses=192.0.2.0/24", true, true}, {"callers=local", false, false}};

	(void)state;
	kit_say(kit_cluster, "n",
		NODE("edge-1", "edgeway.io/site: berlin", "") NODE("edge-2", "", ""));
	kit_say(kit_cluster, "p",
		POD("shop", "a", "edge-1", "172.17.0.5", "")
			POD("ops", "b", "edge-2", "172.17.0.5", ""));
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct allow_from *a;

		assert_int_equal(allow_from_parse(&a, cases[i].text, "default", NULL), 0);
		if (cluster_node_may_call(kit_cluster, "edge-1", a) != cases[i].one ||
			cluster_node_may_call(kit_cluster, "edge-2", a) != cases[i].two)
			fail_msg("%s", cases[i].text);
		allow_from_unref(&a);
	}
}

/* --- NetworkPolicies ------------------------------------------------------------------------ */

#define DB                                                                                         \
	SERVICE("db", "selector: {app: db}, ports: [{name: a, port: 80}, {name: b, port: 81}]")    \
	POD("default", "db-1", "edge-1", "172.17.0.5", "app: db")
#define NAMESPACE(name, labels)                                                                    \
	"---\napiVersion: v1\nkind: Namespace\nmetadata: {name: " name ", labels: {" labels "}}\n"

/* What the first endpoints of both ports are closed by, "" open. */
static void
expect_gates(const char *policies, const char *first, const char *second)
{
	const char *const want[] = {first, second};
	struct view *v;

	view_free(&(struct view *){next("db")});
	kit_say(kit_cluster, "policies", policies);
	kit_say(kit_cluster, "db", DB);
	cluster_replace(kit_cluster, "db", NULL);
	view_free(&(struct view *){next("db")});
	kit_say(kit_cluster, "db", DB);
	v = next("db");
	assert_non_null(v);
	assert_int_equal(v->n_ports, 2);
	for (size_t i = 0; i < 2; i++) {
		uint8_t gate = v->ports[i].endpoints[0].gate;

		assert_string_equal(gate == 0 ? "" : v->gates[gate - 1], want[i]);
	}
	view_free(&v);
}

static void
policies_close_the_pods_that_they_select(void **state)
{
	(void)state;
	expect_gates("", "", "");
	expect_gates(POLICY("p", "podSelector: {}"), "none", "none");
	expect_gates(POLICY("p", "podSelector: {matchLabels: {app: db}}, policyTypes: [Ingress]"),
		"none", "none");
	expect_gates(POLICY("p", "podSelector: {matchLabels: {app: web}}"), "", "");
	expect_gates(POLICY("p",
			     "podSelector: {matchExpressions: [{key: app, operator: NotIn, values: "
			     "[web]}]}"),
		"none", "none");
	expect_gates(
		POLICY("p",
			"podSelector: {matchExpressions: [{key: app, operator: DoesNotExist}]}"),
		"", "");
	expect_gates(POLICY("p", "podSelector: {}, policyTypes: [Egress]"), "", "");
	expect_gates(POLICY("p", "podSelector: ~, policyTypes: ~, ingress: ~"), "none", "none");
	/* A rule without `from` lets everybody in, one without `ports` to all of them. */
	expect_gates(POLICY("p", "podSelector: {}, ingress: [{}]"), "", "");
	expect_gates(POLICY("p", "podSelector: {}, ingress: [{ports: [{port: 80}]}]"), "", "none");
	expect_gates(
		POLICY("p", "podSelector: {}, ingress: [{ports: [{port: http}]}]"), "", "none");
	expect_gates(
		POLICY("p", "podSelector: {}, ingress: [{ports: [{port: 80, protocol: UDP}]}]"),
		"none", "none");
	expect_gates(POLICY("p", "podSelector: {}, ingress: [{ports: [{port: 81, endPort: 90}]}]"),
		"none", "");
	expect_gates(POLICY("p", "podSelector: {}, ingress: [{ports: [{protocol: TCP}]}]"), "", "");
	/* Several are a union. */
	expect_gates(POLICY("p", "podSelector: {}") POLICY("q", "podSelector: {}, ingress: [{}]"),
		"", "");
	expect_gates(POLICY("p",
			     "podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {a: "
			     "b}}}]}]") POLICY("q",
			     "podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8}}]}]"),
		"addresses=10.0.0.0/8 | namespaces=default; pods=a=b",
		"addresses=10.0.0.0/8 | namespaces=default; pods=a=b");
}

static void
peers_become_texts(void **state)
{
#define FROM(peers) POLICY("p", "podSelector: {}, ingress: [{from: [" peers "]}]")
	static const struct {
		const char *policy, *gate;
	} cases[] = {
		{FROM("{podSelector: {}}"), "namespaces=default"},
		{FROM("{podSelector: {matchLabels: {app: web}}}"),
			"namespaces=default; pods=app=web"},
		{FROM("{namespaceSelector: {}}"), "namespaces=*"},
		{FROM("{namespaceSelector: {}, podSelector: {matchLabels: {app: web}}}"),
			"namespaces=*; pods=app=web"},
		{FROM("{namespaceSelector: {matchLabels: {team: red}}}"), "namespaces=ops,shop"},
		{FROM("{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shop}}}"),
			"namespaces=shop"},
		{FROM("{namespaceSelector: {matchLabels: {team: green}}}"), "none"},
		{FROM("{ipBlock: {cidr: \"fd00::/8\", except: [\"fd00:1::/32\"]}}"),
			"addresses=fd00::/8,!fd00:1::/32"},
		{FROM("{ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16]}}"),
			"addresses=10.0.0.0/8,!10.1.0.0/16"},
		{FROM("{podSelector: {matchExpressions: [{key: a, operator: In, values: [x, y]}, "
		      "{key: b, operator: Exists}]}}"),
			"namespaces=default; pods=a in (x,y),b"},
		/* Nobody is meant by an empty peer. */
		{FROM("{}"), "none"},
	};

	(void)state;
	kit_say(kit_cluster, "ns",
		NAMESPACE("shop", "team: red") NAMESPACE("ops", "team: red")
			NAMESPACE("dev", "team: blue"));
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		expect_gates(cases[i].policy, cases[i].gate, cases[i].gate);
}

/* Beyond what we read: closed, and told. */
static void
what_a_policy_says_beyond_our_limits_closes(void **state)
{
	static const char *const cases[] = {
		POLICY("p",
			"podSelector: {matchExpressions: [{key: app, operator: Near, values: "
			"[a]}]}"),
		POLICY("p",
			"podSelector: {}, ingress: [{from: [{podSelector: {matchExpressions: "
			"[{key: a, operator: In}]}}]}]"),
		POLICY("p", "podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/99}}]}]"),
		POLICY("p", "podSelector: db"),
		POLICY("p", "podSelector: {matchLabels: [a]}"),
		POLICY("p", "podSelector: {matchExpressions: a}"),
		POLICY("p", "podSelector: {}, ingress: {from: []}"),
		POLICY("p", "podSelector: {}, ingress: [x]"),
		POLICY("p", "podSelector: {}, ingress: [{from: {podSelector: {}}}]"),
		POLICY("p", "podSelector: {}, ingress: [{ports: {port: 80}}]"),
		POLICY("p", "podSelector: {}, ingress: [{ports: [80]}]"),
		POLICY("p", "podSelector: {}, ingress: [{ports: [{protocol: tcp}]}]"),
		POLICY("p", "podSelector: {}, ingress: [{ports: [{protocol: [TCP]}]}]"),
		POLICY("p", "podSelector: {}, ingress: [{from: [{namespaceSelector: team}]}]"),
		POLICY("p",
			"podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: a}}]}]"),
		POLICY("p",
			"podSelector: {}, ingress: [{from: [{podSelector: {matchExpressions: "
			"a}}]}]"),
		POLICY("p",
			"podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 0.0.0.0/0, except: "
			"10.0.0.0/8}}]}]"),
		POLICY("p",
			"podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 0.0.0.0/0}, "
			"podSelector: {}}]}]"),
		POLICY("p", "podSelector: {}, policyTypes: [ingress]"),
		POLICY("p", "podSelector: {}, policyTypes: {a: Egress}"),
		("---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: p}\n"
		 "spec: closed\n"),
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct kube_batch b;
		struct view *v;

		kit_read(&b, "policies", cases[i]);
		assert_int_equal(b.n_complaints, 1);
		assert_non_null(strstr(b.complaints[0], "counts as"));
		cluster_replace(kit_cluster, "policies", &b);
		kube_batch_fini(&b);
		kit_say(kit_cluster, "db", DB);
		v = next("db");
		assert_non_null(v);
		assert_string_equal(v->gates[v->ports[0].endpoints[0].gate - 1], "none");
		view_free(&v);
		cluster_replace(kit_cluster, "db", NULL);
		view_free(&(struct view *){next("db")});
	}
}

/* A policy, a namespace's labels and a pod's labels take effect when they change. */
static void
changes_reach_the_views(void **state)
{
	struct view *v;

	(void)state;
	kit_say(kit_cluster, "db", DB);
	v = next("db");
	assert_false(view_restricted(v));
	view_free(&v);
	kit_say(kit_cluster, "policies", FROM("{namespaceSelector: {matchLabels: {team: red}}}"));
	v = next("db");
	assert_string_equal(v->gates[0], "none");
	view_free(&v);
	kit_say(kit_cluster, "ns", NAMESPACE("shop", "team: red"));
	v = next("db");
	assert_string_equal(v->gates[0], "namespaces=shop");
	view_free(&v);
	kit_say(kit_cluster, "ns", NAMESPACE("shop", "team: blue"));
	v = next("db");
	assert_string_equal(v->gates[0], "none");
	view_free(&v);
	cluster_replace(kit_cluster, "policies", NULL);
	v = next("db");
	assert_false(view_restricted(v));
	view_free(&v);
}

/* --- on a node ------------------------------------------------------------------------------ */

static void
a_service_is_asked_by_endpoint(void **state)
{
	struct self self = {.node = "edge-1", .site = "", .zone = ""};
	struct view *v;
	struct service *s;
	struct allow_caller ops = {.ns = "ops", .on_node = true},
			    shop = {.ns = "shop", .on_node = true},
			    own = {.ns = "default", .labels = &web, .on_node = true};
	uint64_t closed;

	(void)state;
	kit_say(kit_cluster, "s",
		ANNOTATED("web", "namespaces=shop,default")
			POD("default", "db-1", "edge-1", "172.17.0.5", "app: db, tier: a") POD(
				"default", "db-2", "edge-1", "172.17.0.6", "app: db") POLICY("p",
				"podSelector: {matchLabels: {tier: a}}, ingress: [{from: "
				"[{podSelector: {}}]}]"));
	v = next("web");
	s = service_build(v, &self, 1, 2);
	assert_true(s->restricted);
	assert_string_equal(s->allow_text, "namespaces=shop,default");
	assert_false(service_permits(s, &ops, &closed));
	assert_true(service_permits(s, &shop, &closed));
	assert_int_equal(closed, 1);
	assert_true(endpoint_is_closed(&s->ports[0].endpoints[0], closed));
	assert_false(endpoint_is_closed(&s->ports[0].endpoints[1], closed));
	assert_false(service_permits_all(s, &s->ports[0], &shop));
	assert_true(service_permits(s, &own, &closed));
	assert_int_equal(closed, 0);
	assert_true(service_permits_all(s, &s->ports[0], &own));
	service_unref(&s);
	/* What a later version says closes this one. */
	free(v->allow_from);
	v->allow_from = xstrdup("moon=full");
	s = service_build(v, &self, 1, 2);
	assert_false(service_permits(s, &own, &closed));
	service_unref(&s);
	view_free(&v);
}

static void
a_snapshot_keeps_its_callers(void **state)
{
	struct snapshot *first = snapshot_new(true), *second, *third;
	struct self self = {.node = "edge-1", .site = "", .zone = ""};
	struct change change = {0};
	struct view *v;

	(void)state;
	kit_say(kit_cluster, "s", ANNOTATED("web", "namespaces=shop"));
	v = next("web");
	second = snapshot_with_callers(first, read_callers("{\"pods\":[]}"));
	assert_null(snapshot_callers(first));
	assert_non_null(snapshot_callers(second));
	assert_int_equal(snapshot_counts(second)->restricted, 0);
	change.service = service_build(v, &self, 1, 2);
	change.ns = change.service->namespace;
	change.name = change.service->name;
	third = snapshot_next(second, &change, 1);
	assert_ptr_equal(snapshot_callers(third), snapshot_callers(second));
	assert_int_equal(snapshot_counts(third)->restricted, 1);
	snapshot_unref(&second);
	change = (struct change){.ns = "default", .name = "web"};
	second = snapshot_next(third, &change, 1);
	assert_int_equal(snapshot_counts(second)->restricted, 0);
	snapshot_unref(&first);
	snapshot_unref(&second);
	snapshot_unref(&third);
	view_free(&v);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_peer_takes_whom_all_its_conditions_take),
		cmocka_unit_test(what_is_not_known_is_kept_out),
		cmocka_unit_test(what_cannot_be_read_is_refused_with_its_place),
		cmocka_unit_test(callers_are_known_by_their_address),
		cmocka_unit_test(callers_of_both_families),
		cmocka_unit_test(bad_callers_are_refused),
		cmocka_unit_test(callers_stay_within_a_message),
		cmocka_unit_test_setup_teardown(the_annotation_travels_and_closes_when_it_is_wrong,
			kit_setup, kit_teardown),
		cmocka_unit_test_setup_teardown(
			the_text_is_part_of_the_view, kit_setup, kit_teardown),
		cmocka_unit_test_setup_teardown(
			the_callers_of_a_node_are_its_pods, kit_setup, kit_teardown),
		cmocka_unit_test_setup_teardown(
			a_node_may_call_when_one_of_its_pods_may, kit_setup, kit_teardown),
		cmocka_unit_test_setup_teardown(
			policies_close_the_pods_that_they_select, kit_setup, kit_teardown),
		cmocka_unit_test_setup_teardown(peers_become_texts, kit_setup, kit_teardown),
		cmocka_unit_test_setup_teardown(
			what_a_policy_says_beyond_our_limits_closes, kit_setup, kit_teardown),
		cmocka_unit_test_setup_teardown(changes_reach_the_views, kit_setup, kit_teardown),
		cmocka_unit_test_setup_teardown(
			a_service_is_asked_by_endpoint, kit_setup, kit_teardown),
		cmocka_unit_test_setup_teardown(
			a_snapshot_keeps_its_callers, kit_setup, kit_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
