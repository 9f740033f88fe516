/* DestinationRules: what of them counts, what is told, and which of several is in force. */
#include "tests/unit/model/kube_kit.h"

#include <stdio.h>
#include <string.h>

#define RULE_AT(name, meta, spec)                                                                  \
	"---\napiVersion: networking.istio.io/v1beta1\nkind: DestinationRule\n"                    \
	"metadata: {name: " name meta "}\nspec: {" spec "}\n"
#define RULE(name, spec) RULE_AT(name, "", spec)
#define POLICY(policy) "host: s, trafficPolicy: {" policy "}"
#define BALANCER(balancer) POLICY("loadBalancer: {" balancer "}")
#define TCP(tcp) POLICY("connectionPool: {tcp: {" tcp "}}")

/* The one object of `text`, which may be told of but not refused. */
static const struct kube_rule *
read_one(struct kube_batch *b, const char *text)
{
	kit_read(b, "m.yaml", text);
	if (b->n != 1)
		fail_msg("%zu objects of: %s%s", b->n, text,
			b->n_complaints > 0 ? b->complaints[0] : "");
	assert_int_equal(b->n_wrong, 0);
	assert_int_equal(b->objects[0]->kind, KUBE_RULE);
	return &b->objects[0]->rule;
}

static void
what_counts(void **state)
{
	static const struct {
		const char *text;
		struct kube_rule is;
		const char *key;
	} rows[] = {
		{RULE("r", "host: s"), {0}, ""},
		{RULE("r", BALANCER("simple: UNSPECIFIED")), {0}, ""},
		{RULE("r", BALANCER("simple: RANDOM")), {.policy = LB_RANDOM}, ""},
		{RULE("r", BALANCER("simple: ROUND_ROBIN")), {.policy = LB_ROUND_ROBIN}, ""},
		{RULE("r", BALANCER("simple: LEAST_REQUEST")), {.policy = LB_LEAST_REQUEST}, ""},
		{RULE("r", BALANCER("simple: LEAST_CONN")), {.policy = LB_LEAST_REQUEST}, ""},
		{RULE("r",
			 BALANCER("consistentHash: {httpHeaderName: X-User, minimumRingSize: "
				  "1024}")),
			{.policy = LB_CONSISTENT_HASH, .hash_on = HASH_ON_HEADER}, "X-User"},
		{RULE("r", BALANCER("consistentHash: {httpCookie: {name: sid, path: /}}")),
			{.policy = LB_CONSISTENT_HASH, .hash_on = HASH_ON_COOKIE}, "sid"},
		{RULE("r",
			 BALANCER("consistentHash: {useSourceIp: true, ringHash: {minimumRingSize: "
				  "9}}")),
			{.policy = LB_CONSISTENT_HASH, .hash_on = HASH_ON_SOURCE_IP}, ""},
		{RULE("r", BALANCER("consistentHash: {useSourceIp: false}")), {0}, ""},
		{RULE("r", BALANCER("simple: null, consistentHash: {httpHeaderName: a}")),
			{.policy = LB_CONSISTENT_HASH, .hash_on = HASH_ON_HEADER}, "a"},
		{RULE("r", TCP("maxConnections: 7, connectTimeout: 3s")),
			{.max_connections = 7, .connect_ms = 3000}, ""},
		{RULE("r", TCP("connectTimeout: 0.25s")), {.connect_ms = 250}, ""},
		{RULE("r", TCP("connectTimeout: 1m30.5s")), {.connect_ms = 90500}, ""},
		{RULE("r", TCP("connectTimeout: 24h")), {.connect_ms = 86400000}, ""},
		{RULE("r", TCP("connectTimeout: 1ms")), {.connect_ms = 1}, ""},
		{RULE("r", POLICY("outlierDetection: {}")), {.outlier_5xx = 5}, ""},
		{RULE("r",
			 POLICY("outlierDetection: {consecutive5xxErrors: 3, interval: 10s, "
				"baseEjectionTime: 30s, maxEjectionPercent: 100}")),
			{.outlier_5xx = 3, .outlier_ms = 30000}, ""},
		{RULE("r", POLICY("outlierDetection: {consecutive5xxErrors: 0}")), {0}, ""},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct kube_batch b;
		const struct kube_rule *r = read_one(&b, rows[i].text);

		if (b.n_complaints > 0 || *r->partly != '\0')
			fail_msg("%s: %s", rows[i].text, b.complaints[0]);
		assert_string_equal(r->service, "s");
		if (r->policy != rows[i].is.policy || r->hash_on != rows[i].is.hash_on ||
			r->max_connections != rows[i].is.max_connections ||
			r->connect_ms != rows[i].is.connect_ms ||
			r->outlier_5xx != rows[i].is.outlier_5xx ||
			r->outlier_ms != rows[i].is.outlier_ms)
			fail_msg("%s: policy=%u hash=%u most=%u connect=%u outlier=%u,%u",
				rows[i].text, r->policy, r->hash_on, r->max_connections,
				r->connect_ms, r->outlier_5xx, r->outlier_ms);
		assert_string_equal(r->hash_key, rows[i].key);
		kube_batch_fini(&b);
	}
}

static void
what_does_not_is_told_with_its_line(void **state)
{
	static const struct {
		const char *text, *told;
	} rows[] = {
		{RULE("r", BALANCER("simple: PASSTHROUGH")), "'PASSTHROUGH' is not supported"},
		{RULE("r", BALANCER("simple: {a: b}")), "loadBalancer.simple: '?'"},
		{RULE("r", BALANCER("localityLbSetting: {enabled: true}")),
			"loadBalancer.localityLbSetting is not supported"},
		{RULE("r", BALANCER("consistentHash: {httpQueryParameterName: q}")),
			"consistentHash.httpQueryParameterName is not supported"},
		{RULE("r", BALANCER("consistentHash: {httpHeaderName: 'a b'}")),
			"consistentHash.httpHeaderName: 'a b' is no name"},
		{RULE("r", BALANCER("consistentHash: {httpCookie: {ttl: 0s}}")),
			"httpCookie.ttl is not supported; m.yaml:5: consistentHash.httpCookie: '' "
			"is "
			"no name"},
		{RULE("r", BALANCER("consistentHash: {httpHeaderName: a, useSourceIp: true}")),
			"consistentHash.useSourceIp is one too many"},
		{RULE("r", BALANCER("consistentHash: [a]")), "consistentHash: a map expected"},
		{RULE("r", BALANCER("simple: RANDOM, consistentHash: {useSourceIp: true}")),
			"loadBalancer.simple beside consistentHash"},
		{RULE("r", TCP("maxConnections: 0")), "tcp.maxConnections: 1 to 1000000 expected"},
		{RULE("r", TCP("maxConnections: 2147483647")), "tcp.maxConnections: 1 to"},
		{RULE("r", TCP("maxConnections: many")), "tcp.maxConnections: 1 to"},
		{RULE("r", TCP("connectTimeout: 3")), "tcp.connectTimeout: '3', a time"},
		{RULE("r", TCP("connectTimeout: 0s")), "tcp.connectTimeout: '0s', a time"},
		{RULE("r", TCP("connectTimeout: 25h")), "tcp.connectTimeout: '25h', a time"},
		{RULE("r", TCP("connectTimeout: 999999999h999999999h")), "tcp.connectTimeout: '9"},
		{RULE("r", TCP("connectTimeout: .s")), "tcp.connectTimeout: '.s', a time"},
		{RULE("r", TCP("connectTimeout: ''")), "tcp.connectTimeout: '', a time"},
		{RULE("r", TCP("connectTimeout: -1s")), "tcp.connectTimeout: '-1s', a time"},
		{RULE("r", TCP("tcpKeepalive: {time: 1s}")), "tcp.tcpKeepalive is not supported"},
		{RULE("r", POLICY("connectionPool: {http: {maxRetries: 1}}")),
			"connectionPool.http is not supported"},
		{RULE("r", POLICY("outlierDetection: {consecutiveGatewayErrors: 3}")),
			"m.yaml:5: outlierDetection.consecutiveGatewayErrors is not supported"},
		{RULE("r", POLICY("outlierDetection: {consecutive5xxErrors: -1}")),
			"outlierDetection.consecutive5xxErrors: 0 to 1000 expected"},
		{RULE("r", POLICY("outlierDetection: {baseEjectionTime: 3}")),
			"outlierDetection.baseEjectionTime: '3', a time"},
		{RULE("r", POLICY("outlierDetection: {maxEjectionPercent: 10}")),
			"outlierDetection.maxEjectionPercent other than 100"},
		{RULE("r", POLICY("tls: {mode: DISABLE}")), "trafficPolicy.tls is not supported"},
		{RULE("r", "host: s, subsets: [{name: v1}], exportTo: ['.']"),
			"spec.subsets is not supported; m.yaml:5: spec.exportTo is not supported"},
		{RULE("r", "host: s, '': 1"), "spec. is not supported"},
		{RULE("r", "host: s, 'host|subsets': 1"), "spec.host|subsets is not supported"},
		{RULE("r", "host: s, ost: 1"), "spec.ost is not supported"},
		{RULE("r", "host: '*.default.svc.cluster.local'"),
			"names no Service of the cluster"},
		{RULE("r", "host: www.example.com"), "names no Service of the cluster"},
		{RULE("r", "host: s.shop"), "is of another namespace"},
		{RULE("r", "host: s.shop.svc.cluster.local"), "is of another namespace"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct kube_batch b;
		const struct kube_rule *r = read_one(&b, rows[i].text);

		assert_int_equal(b.n_complaints, 1);
		if (strstr(b.complaints[0], rows[i].told) == NULL ||
			strncmp(b.complaints[0], "m.yaml:5: ", 10) != 0)
			fail_msg("%s: %s", rows[i].text, b.complaints[0]);
		assert_true(*r->partly != '\0');
		assert_null(strstr(r->partly, "m.yaml"));
		kube_batch_fini(&b);
	}
}

static void
what_is_wrong_is_refused(void **state)
{
	static const char *const rows[] = {
		RULE("r", "trafficPolicy: {}"),
		RULE("r", "host: ''"),
		RULE("r", "host: [s]"),
		"---\napiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: "
		"r}\n",
		"---\napiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: "
		"r}\nspec: s\n",
		"---\napiVersion: networking.istio.io/v1\nkind: DestinationRule\nspec: {host: s}\n",
	};
	struct kube_batch b;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		kit_read(&b, "m.yaml", rows[i]);
		if (b.n != 0 || b.n_wrong != 1)
			fail_msg("%s", rows[i]);
		assert_int_equal(strncmp(b.complaints[0], "m.yaml:", 7), 0);
		kube_batch_fini(&b);
	}
	/* Of another group, or a version that is yet to come: not ours. */
	kit_read(&b, "m.yaml",
		"apiVersion: networking.istio.io/v2\nkind: DestinationRule\nmetadata: {name: r}\n");
	assert_int_equal(b.n_skipped, 1);
	assert_int_equal(b.n_complaints, 0);
	kube_batch_fini(&b);
}

static void
hosts(void **state)
{
	static const char *const rows[] = {"s", "s.default", "s.default.svc",
		"s.default.svc.cluster.local", "s.default.svc.cluster.local.",
		"s.default.svc.factory.example"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_free char *text =
			xasprintf("apiVersion: networking.istio.io/v1alpha3\nkind: "
				  "DestinationRule\nmetadata: {name: r}\nspec: {host: %s}\n",
				rows[i]);
		struct kube_batch b;

		assert_string_equal(read_one(&b, text)->service, "s");
		assert_int_equal(b.n_complaints, 0);
		kube_batch_fini(&b);
	}
}

/* --- with Services -------------------------------------------------------------------------- */

#define ANNOTATED(annotations)                                                                     \
	"---\napiVersion: v1\nkind: Service\nmetadata: {name: s, annotations: {" annotations       \
	"}}\nspec: {ports: [{name: http, port: 80}]}\n"
#define PLAIN ANNOTATED("")

/* Also what is told of on the way in. */
static void
say(const char *source, const char *text)
{
	struct kube_batch b;

	kit_read(&b, source, text);
	cluster_replace(kit_cluster, source, &b);
	kube_batch_fini(&b);
}

/* How many changes there are; the settings of the last one. */
static size_t
next(struct service_lb *lb, char key[64])
{
	struct cluster_change change;
	size_t n = 0;

	for (; cluster_next_change(kit_cluster, &change); n++) {
		if (change.view != NULL) {
			*lb = change.view->lb;
			snprintf(key, 64, "%s", change.view->hash_key);
		}
		cluster_change_fini(&change);
	}
	return n;
}

static void
annotations_win_one_by_one(void **state)
{
	static const char hashed[] = RULE("r",
		POLICY("loadBalancer: {consistentHash: {httpHeaderName: X-User}}, "
		       "connectionPool: {tcp: {maxConnections: 7, connectTimeout: 3s}}"));
	static const char random[] = RULE("r", BALANCER("simple: RANDOM"));
	static const struct {
		const char *rule, *service;
		unsigned policy, on;
		const char *key;
		unsigned most, connect_ms;
	} rows[] = {
		{hashed, PLAIN, LB_CONSISTENT_HASH, HASH_ON_HEADER, "X-User", 7, 3000},
		{hashed, ANNOTATED("edgeway.io/max-connections: 9"), LB_CONSISTENT_HASH,
			HASH_ON_HEADER, "X-User", 9, 3000},
		{hashed, ANNOTATED("edgeway.io/connect-timeout: 1s"), LB_CONSISTENT_HASH,
			HASH_ON_HEADER, "X-User", 7, 1000},
		{hashed, ANNOTATED("edgeway.io/lb-policy: random"), LB_RANDOM, 0, "", 7, 3000},
		{hashed, ANNOTATED("edgeway.io/lb-policy: consistent-hash"), LB_CONSISTENT_HASH,
			HASH_ON_HEADER, "X-User", 7, 3000},
		{hashed, ANNOTATED("edgeway.io/hash-on: source-ip"), LB_CONSISTENT_HASH,
			HASH_ON_SOURCE_IP, "", 7, 3000},
		{hashed, ANNOTATED("edgeway.io/hash-on: 'cookie:c'"), LB_CONSISTENT_HASH,
			HASH_ON_COOKIE, "c", 7, 3000},
		{random, PLAIN, LB_RANDOM, 0, "", 0, 0},
		{random, ANNOTATED("edgeway.io/hash-on: 'cookie:c'"), LB_CONSISTENT_HASH,
			HASH_ON_COOKIE, "c", 0, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct service_lb lb = {0};
		char key[64] = "";

		say("r.yaml", rows[i].rule);
		say("s.yaml", rows[i].service);
		assert_int_equal(next(&lb, key), 1);
		if (lb.policy != rows[i].policy || lb.hash_on != rows[i].on ||
			strcmp(key, rows[i].key) != 0 || lb.max_connections != rows[i].most ||
			lb.connect_ms != rows[i].connect_ms)
			fail_msg("%s%s: policy=%u hash=%u key=%s most=%u connect=%u", rows[i].rule,
				rows[i].service, lb.policy, lb.hash_on, key, lb.max_connections,
				lb.connect_ms);
		cluster_replace(kit_cluster, "s.yaml", NULL);
		assert_int_equal(next(&lb, key), 1);
	}
}

static void
a_rule_comes_changes_and_goes(void **state)
{
	struct service_lb lb = {0};
	char key[64] = "";

	(void)state;
	say("s.yaml", PLAIN);
	next(&lb, key);
	assert_int_equal(lb.policy, LB_DEFAULT);
	say("r.yaml", RULE("r", BALANCER("simple: RANDOM")));
	assert_int_equal(next(&lb, key), 1);
	assert_int_equal(lb.policy, LB_RANDOM);
	say("r.yaml", RULE("r", BALANCER("simple: ROUND_ROBIN")));
	assert_int_equal(next(&lb, key), 1);
	assert_int_equal(lb.policy, LB_ROUND_ROBIN);
	/* For another Service now, of which nobody has heard. */
	say("r.yaml", RULE("r", "host: other, trafficPolicy: {loadBalancer: {simple: RANDOM}}"));
	assert_int_equal(next(&lb, key), 1);
	assert_int_equal(lb.policy, LB_DEFAULT);
	assert_int_equal(cluster_count(kit_cluster, KUBE_RULE), 1);
	say("r.yaml", RULE("r", BALANCER("simple: RANDOM")));
	assert_int_equal(next(&lb, key), 1);
	cluster_replace(kit_cluster, "r.yaml", NULL);
	assert_int_equal(next(&lb, key), 1);
	assert_int_equal(lb.policy, LB_DEFAULT);
	assert_int_equal(cluster_count(kit_cluster, KUBE_RULE), 0);
	/* No other Service, and no other namespace. */
	say("r.yaml", RULE_AT("r", ", namespace: shop", BALANCER("simple: RANDOM")));
	assert_int_equal(next(&lb, key), 0);
}

static void
assert_note(const char *part)
{
	auto_free char *note = cluster_next_note(kit_cluster),
		       *more = cluster_next_note(kit_cluster);

	if (note == NULL || strstr(note, part) == NULL || more != NULL)
		fail_msg("%s / %s, not %s", note, more, part);
}

static void
assert_problem(const char *is)
{
	auto_free char *problem = cluster_rule_problem(kit_cluster, "default", "s");

	assert_string_equal(problem, is);
}

#define CREATED(time) ", creationTimestamp: '" time "'"

static void
the_oldest_of_several_counts(void **state)
{
	struct service_lb lb = {0};
	char key[64] = "";

	(void)state;
	say("s.yaml", PLAIN);
	say("b.yaml", RULE("b", BALANCER("simple: RANDOM")));
	next(&lb, key);
	assert_null(cluster_next_note(kit_cluster));
	assert_problem("");
	/* By name, as nobody says when. */
	say("a.yaml", RULE("a", BALANCER("simple: ROUND_ROBIN")));
	next(&lb, key);
	assert_int_equal(lb.policy, LB_ROUND_ROBIN);
	assert_note("the oldest counts, a, and not b service=default/s");
	assert_problem(
		"several DestinationRules are for it, of which the oldest counts, a, and not b");
	/* Who says so is older than who does not. */
	say("c.yaml",
		RULE_AT("c", CREATED("2026-11-21T10:00:00Z"), BALANCER("simple: LEAST_CONN")));
	next(&lb, key);
	assert_int_equal(lb.policy, LB_LEAST_REQUEST);
	assert_note("c, and not a and 1 more");
	say("d.yaml",
		RULE_AT("d", CREATED("2025-11-21T10:00:00Z"),
			POLICY("loadBalancer: {simple: RANDOM}, tls: {}")));
	next(&lb, key);
	assert_int_equal(lb.policy, LB_RANDOM);
	assert_note("d, and not c and 2 more");
	assert_problem("DestinationRule d counts in part: trafficPolicy.tls is not supported; "
		       "several DestinationRules are for it, of which the oldest counts, d, "
		       "and not c and 2 more");
	/* The order in which they come does not matter. */
	cluster_replace(kit_cluster, "d.yaml", NULL);
	cluster_replace(kit_cluster, "a.yaml", NULL);
	next(&lb, key);
	assert_int_equal(lb.policy, LB_LEAST_REQUEST);
	assert_note("c, and not b service");
	cluster_replace(kit_cluster, "c.yaml", NULL);
	next(&lb, key);
	assert_int_equal(lb.policy, LB_RANDOM);
	assert_null(cluster_next_note(kit_cluster));
	assert_problem("");
}

struct seen {
	size_t n, count;
	char problem[512];
};

static void
see(void *arg, const struct cluster_rule *rule)
{
	struct seen *s = arg;

	s->n++;
	s->count += rule->counts;
	if (*rule->problem != '\0')
		snprintf(s->problem, sizeof s->problem, "%s/%s for %s: %s", rule->ns, rule->name,
			rule->service, rule->problem);
}

static void
each_says_what_became_of_it(void **state)
{
	struct seen s = {0};
	struct service_lb lb;
	char key[64];

	(void)state;
	say("r.yaml", RULE("r", BALANCER("simple: RANDOM")));
	next(&lb, key);
	assert_note("DestinationRule r is for a Service that is not there service=default/s");
	cluster_each_rule(kit_cluster, see, &s);
	assert_int_equal(s.n, 1);
	assert_int_equal(s.count, 0);
	assert_string_equal(s.problem, "default/r for s: Service s, for which it is, is not there");
	say("s.yaml", PLAIN);
	next(&lb, key);
	s = (struct seen){0};
	cluster_each_rule(kit_cluster, see, &s);
	assert_int_equal(s.count, 1);
	assert_string_equal(s.problem, "");
	say("q.yaml", RULE("q", BALANCER("simple: RANDOM")) RULE("x", "host: s.shop"));
	next(&lb, key);
	s = (struct seen){0};
	cluster_each_rule(kit_cluster, see, &s);
	assert_int_equal(s.n, 3);
	assert_int_equal(s.count, 1);
	assert_true(*s.problem != '\0');
}

/* As in EdgeMesh's examples: the rule has the Service's name, and its host names pods. */
static void
a_host_that_is_no_service_leaves_the_name(void **state)
{
	struct seen s = {0};
	struct service_lb lb;
	char key[64];

	(void)state;
	say("s.yaml", PLAIN);
	next(&lb, key);
	say("r.yaml", RULE("s", "host: pods, trafficPolicy: {loadBalancer: {simple: RANDOM}}"));
	next(&lb, key);
	assert_int_equal(lb.policy, LB_RANDOM);
	assert_note("DestinationRule s counts for the Service of its name, since spec.host names "
		    "none service=default/pods");
	cluster_each_rule(kit_cluster, see, &s);
	assert_int_equal(s.count, 1);
	assert_string_equal(s.problem, "");
	/* One whose host names the Service decides. */
	say("q.yaml", RULE("q", BALANCER("simple: ROUND_ROBIN")));
	next(&lb, key);
	assert_int_equal(lb.policy, LB_ROUND_ROBIN);
	say("q.yaml", "");
	next(&lb, key);
	assert_int_equal(lb.policy, LB_RANDOM);
	/* So it is once there is a Service that the host names. */
	say("p.yaml",
		"---\napiVersion: v1\nkind: Service\nmetadata: {name: pods}\nspec: {ports: [{port: "
		"1}]}\n");
	next(&lb, key);
	assert_int_equal(lb.policy, LB_DEFAULT);
	s = (struct seen){0};
	cluster_each_rule(kit_cluster, see, &s);
	assert_int_equal(s.count, 1);
}

#define T(name) cmocka_unit_test_setup_teardown(name, kit_setup, kit_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_counts),
		cmocka_unit_test(what_does_not_is_told_with_its_line),
		cmocka_unit_test(what_is_wrong_is_refused),
		cmocka_unit_test(hosts),
		T(annotations_win_one_by_one),
		T(a_rule_comes_changes_and_goes),
		T(the_oldest_of_several_counts),
		T(each_says_what_became_of_it),
		T(a_host_that_is_no_service_leaves_the_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
