/* HTTPRoutes, GRPCRoutes and ReferenceGrants as they are decoded. */
#include "tests/unit/model/kube_kit.h"

#include <stdio.h>
#include <string.h>

#define ROUTE_OF(kind, version, spec)                                                              \
	"---\napiVersion: gateway.networking.k8s.io/" version "\nkind: " kind                      \
	"\nmetadata: {name: r, namespace: n}\nspec: {" spec "}\n"
#define PARENT "parentRefs: [{group: '', kind: Service, name: w}], "
#define HTTP(rule) ROUTE_OF("HTTPRoute", "v1", PARENT "rules: [{" rule "}]")
#define GRPC(rule) ROUTE_OF("GRPCRoute", "v1", PARENT "rules: [{" rule "}]")

static const struct kube_route *
read_one(struct kube_batch *b, const char *text)
{
	kit_read(b, "m.yaml", text);
	if (b->n != 1)
		fail_msg("%zu objects of: %s%s", b->n, text,
			b->n_complaints > 0 ? b->complaints[0] : "");
	assert_true(b->objects[0]->kind == KUBE_HTTPROUTE || b->objects[0]->kind == KUBE_GRPCROUTE);
	return &b->objects[0]->route;
}

static void
add_matches(struct buf *out, const struct kube_route_rule *r)
{
	for (size_t i = 0; i < r->n_matches; i++) {
		buf_adds(out, i > 0 ? "," : "");
		http_route_build_match(out, &r->matches[i]);
	}
}

/* Of each rule: its matches, then the rule itself. */
#define M(rest) "{\"rule\":0" rest "}"
#define ALL M(",\"prefix\":\"\"")
#define R(rest) "{\"route\":\"n/r\"" rest "}"

static const struct {
	const char *yaml, *json;
} understood[] = {
	{HTTP(""), ALL R("")},
	{ROUTE_OF("HTTPRoute", "v1beta1", PARENT "hostnames: [a.b]"), ALL R("")},
	{HTTP("name: first, matches: []"), ALL R(",\"name\":\"first\"")},
	{HTTP("matches: [{path: {value: /a/}}, {path: {type: Exact, value: /b/}}, {path: "
	      "{type: RegularExpression, value: '/c.*'}}, {path: {type: PathPrefix, "
	      "value: /}, method: GET}]"),
		M(",\"prefix\":\"/a\"") "," M(",\"exact\":\"/b/\"") "," M(
			",\"regex\":\"/c.*\"") "," M(",\"prefix\":\"\",\"method\":\"GET\"") R("")},
	{HTTP("matches: [{headers: [{name: V, value: a b}, {name: v, value: other}, {type: "
	      "RegularExpression, name: w, value: 'x+'}], queryParams: [{name: q, value: "
	      "'1'}, {name: Q, value: '2', type: Exact}]}]"),
		M(",\"prefix\":\"\",\"headers\":[{\"name\":\"V\",\"value\":\"a b\"},"
		  "{\"name\":\"w\",\"regex\":\"x+\"}],\"params\":[{\"name\":\"q\","
		  "\"value\":\"1\"},{\"name\":\"Q\",\"value\":\"2\"}]") R("")},
	{HTTP("backendRefs: [{name: v1, port: 80, weight: 9}, {name: v2, namespace: m, "
	      "port: 81, weight: 0, filters: [{type: RequestHeaderModifier, "
	      "requestHeaderModifier: {add: [{name: a, value: b}]}}, {type: "
	      "ResponseHeaderModifier, responseHeaderModifier: {remove: [c]}}]}]"),
		ALL R(",\"backends\":[{\"ns\":\"n\",\"name\":\"v1\",\"port\":80,"
		      "\"weight\":9},{\"ns\":\"m\",\"name\":\"v2\",\"port\":81,"
		      "\"weight\":0,\"request\":{\"add\":[{\"name\":\"a\",\"value\":\"b\"}"
		      "]},\"response\":{\"remove\":[\"c\"]}}]")},
	{HTTP("filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: "
	      "[{name: "
	      "A, value: '1'}, {name: a, value: '2'}]}}, {type: RequestMirror, "
	      "requestMirror: {backendRef: {name: m, port: 1}, percent: 7}}, {type: "
	      "RequestMirror, requestMirror: {backendRef: {name: k, port: 2}, fraction: "
	      "{numerator: 1, denominator: 1000}}}, {type: RequestMirror, requestMirror: "
	      "{backendRef: {name: l, port: 3}}}]"),
		ALL R(",\"mirrors\":[{\"ns\":\"n\",\"name\":\"m\",\"port\":1,\"numerator\":"
		      "7,\"denominator\":100},{\"ns\":\"n\",\"name\":\"k\",\"port\":2,"
		      "\"numerator\":1,\"denominator\":1000},{\"ns\":\"n\",\"name\":\"l\","
		      "\"port\":3,\"numerator\":1,\"denominator\":1}],\"request\":{\"set\":"
		      "[{\"name\":\"A\",\"value\":\"1\"}]}")},
	{HTTP("matches: [{path: {value: /old}}], filters: [{type: URLRewrite, urlRewrite: "
	      "{hostname: h.x, path: {type: ReplacePrefixMatch, replacePrefixMatch: "
	      "''}}}]"),
		M(",\"prefix\":\"/old\"") R(",\"prefixLen\":4,\"rewrite\":{\"host\":\"h.x\","
					    "\"prefix\":\"\"}")},
	{HTTP("filters: [{type: RequestRedirect, requestRedirect: {scheme: https, "
	      "hostname: "
	      "a.b, port: 8443, statusCode: 308, path: {type: ReplaceFullPath, "
	      "replaceFullPath: /x}}}]"),
		ALL R(",\"redirect\":{\"host\":\"a.b\",\"full\":\"/"
		      "x\",\"scheme\":\"https\","
		      "\"port\":8443,\"status\":308}")},
	{HTTP("filters: [{type: RequestRedirect, requestRedirect: {}}]"),
		ALL R(",\"redirect\":{\"status\":302}")},
	{HTTP("timeouts: {request: 1m30s, backendRequest: 250ms}, retry: {codes: [500, "
	      "503],"
	      " attempts: 3}"),
		ALL R(",\"requestMs\":90000,\"backendMs\":250,\"retry\":{\"codes\":[500,"
		      "503],"
		      "\"attempts\":3}")},
	{HTTP("timeouts: {request: 0s, backendRequest: 99999h}"),
		ALL R(",\"requestMs\":0,\"backendMs\":86400000")},
	{HTTP("timeouts: {request: 1h2m3s4ms}"), ALL R(",\"requestMs\":3723004")},
	{GRPC("matches: [{method: {service: a.B, method: C}}, {method: {service: a.B}}, "
	      "{method: {method: C}}, {method: {type: RegularExpression, service: 'a|b', "
	      "method: 'G.*'}}, {headers: [{name: v, value: '1'}]}]"),
		M(",\"exact\":\"/a.B/C\"") "," M(",\"prefix\":\"/a.B\"") "," M(
			",\"regex\":\"/[^/]+/(?:C)\"") "," M(",\"regex\":\"/(?:a|b)/"
							     "(?:G.*)\"") "," M(",\"prefix"
										"\":\"\","
										"\"headers"
										"\":[{"
										"\"name\":"
										"\"v\","
										"\"value\":"
										"\"1\"}]") R("")},
};

static void
what_is_understood(void **state)
{

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(understood); i++) {
		auto_buf struct buf out;
		struct kube_batch b;
		const struct kube_route *r = read_one(&b, understood[i].yaml);

		buf_init(&out, BUF_UNLIMITED);
		if (b.n_complaints > 0)
			fail_msg("%s", b.complaints[0]);
		assert_int_equal(r->n_parents, 1);
		assert_string_equal(r->parents[0].ns, "n");
		assert_int_equal(r->n_rules, 1);
		assert_int_equal(r->rules[0].fault, KUBE_ROUTE_WELL);
		add_matches(&out, &r->rules[0]);
		http_route_build_rule(&out, &r->rules[0].rule);
		assert_string_equal(buf_str(&out), understood[i].json);
		kube_batch_fini(&b);
	}
}

#define SESSION(text) HTTP("sessionPersistence: {" text "}")
#define FILTER(f) HTTP("filters: [{" f "}]")
#define EDIT(e) FILTER("type: RequestHeaderModifier, requestHeaderModifier: {" e "}")
#define MATCH(m) HTTP("matches: [{" m "}]")

/* A fault of a rule is told with its line; the object stays. */
/* A rule with a fault, and what is told of it. */
struct faulty {
	const char *yaml, *told;
	bool dropped;
	enum kube_route_fault fault;
};

static void
check_faults(const struct faulty *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct kube_batch b;
		const struct kube_route *r = read_one(&b, rows[i].yaml);

		assert_int_equal(b.n_wrong, 0);
		if (b.n_complaints != 1 || strstr(b.complaints[0], rows[i].told) == NULL)
			fail_msg("%s\n%s", rows[i].yaml,
				b.n_complaints > 0 ? b.complaints[0] : "nothing is told");
		assert_int_equal(r->rules[0].fault, rows[i].fault);
		assert_int_equal(r->rules[0].dropped, rows[i].dropped);
		assert_int_equal(r->rules[0].rule.status, 500);
		assert_true(*r->rules[0].wrong != '\0');
		kube_batch_fini(&b);
	}
}

static void
faults_are_the_rules_own(void **state)
{
	static const struct faulty rows[] = {
		{MATCH("path: {type: Glob}"), "path type 'Glob' is not supported", true,
			KUBE_ROUTE_UNSUPPORTED},
		{MATCH("path: {value: a}"), "value: 'a' is not allowed here", true,
			KUBE_ROUTE_UNSUPPORTED},
		{MATCH("path: {type: RegularExpression, value: '('}"), "no regular expression",
			true, KUBE_ROUTE_UNSUPPORTED},
		{MATCH("method: FETCH"), "method: 'FETCH'", true, KUBE_ROUTE_UNSUPPORTED},
		{MATCH("headers: [{name: 'a b', value: c}]"), "name: 'a b'", true,
			KUBE_ROUTE_UNSUPPORTED},
		{MATCH("headers: [{name: c}]"), "headers: 'c' has no value", true,
			KUBE_ROUTE_UNSUPPORTED},
		{EDIT("set: [{name: c}]"), "set: 'c' has no value", false, KUBE_ROUTE_UNSUPPORTED},
		{MATCH("headers: [{value: c}]"), "a member without a name", true,
			KUBE_ROUTE_UNSUPPORTED},
		{MATCH("headers: [{name: a, value: c, type: Prefix}]"), "match type 'Prefix'", true,
			KUBE_ROUTE_UNSUPPORTED},
		{MATCH("headers: {a: b}"), "headers: a list expected", true,
			KUBE_ROUTE_UNSUPPORTED},
		{GRPC("matches: [{method: {service: 'a/b'}}]"), "service: 'a/b'", true,
			KUBE_ROUTE_UNSUPPORTED},
		{FILTER("type: ExtensionRef, extensionRef: {name: x}"),
			"m.yaml:5: rule 0: filter ExtensionRef is not supported", false,
			KUBE_ROUTE_UNSUPPORTED},
		{FILTER("type: CORS, cors: {}"), "filter CORS", false, KUBE_ROUTE_UNSUPPORTED},
		{GRPC("filters: [{type: URLRewrite, urlRewrite: {}}]"), "filter URLRewrite", false,
			KUBE_ROUTE_UNSUPPORTED},
		{EDIT("set: [{name: Host, value: x}]"), "name: 'Host'", false,
			KUBE_ROUTE_UNSUPPORTED},
		{EDIT("remove: [Connection]"), "remove: 'Connection'", false,
			KUBE_ROUTE_UNSUPPORTED},
		{FILTER("type: RequestRedirect, requestRedirect: {statusCode: 304}"), "statusCode",
			false, KUBE_ROUTE_UNSUPPORTED},
		{HTTP("matches: [{path: {type: Exact, value: /a}}], filters: [{type: URLRewrite, "
		      "urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /}}}]"),
			"ReplacePrefixMatch needs", false, KUBE_ROUTE_UNSUPPORTED},
		{HTTP("filters: [{type: URLRewrite, urlRewrite: {}}, {type: RequestRedirect, "
		      "requestRedirect: {}}]"),
			"exclude each other", false, KUBE_ROUTE_INCOMPATIBLE},
		{HTTP("filters: [{type: URLRewrite, urlRewrite: {}}, {type: URLRewrite, "
		      "urlRewrite: "
		      "{}}]"),
			"URLRewrite comes twice", false, KUBE_ROUTE_INCOMPATIBLE},
		{HTTP("filters: [{type: RequestRedirect, requestRedirect: {}}], backendRefs: "
		      "[{name: a, port: 1}]"),
			"RequestRedirect beside backendRefs", false, KUBE_ROUTE_INCOMPATIBLE},
		{HTTP("backendRefs: [{name: a, port: 1, filters: [{type: URLRewrite}]}]"),
			"filter URLRewrite of a backendRef", false, KUBE_ROUTE_UNSUPPORTED},
		{HTTP("backendRefs: [{name: a, port: 1, weight: 1000001}]"),
			"weight: a number from", false, KUBE_ROUTE_UNSUPPORTED},
		{FILTER("type: RequestMirror, requestMirror: {backendRef: {name: a, port: 1}, "
			"fraction: {numerator: 2, denominator: 1}}"),
			"fraction:", false, KUBE_ROUTE_UNSUPPORTED},
	};

	(void)state;
	check_faults(rows, ARRAY_LEN(rows));
}

static void
faults_of_policies(void **state)
{
	static const struct faulty rows[] = {
		{HTTP("timeouts: {request: 1.5s}"), "request: '1.5s', a duration", false,
			KUBE_ROUTE_UNSUPPORTED},
		{HTTP("timeouts: {request: 1h1m1s1ms1s}"), "a duration", false,
			KUBE_ROUTE_UNSUPPORTED},
		{HTTP("timeouts: {request: 123456s}"), "a duration", false, KUBE_ROUTE_UNSUPPORTED},
		{HTTP("timeouts: {request: 1s, backendRequest: 2s}"), "is longer than request",
			false, KUBE_ROUTE_UNSUPPORTED},
		{HTTP("retry: {codes: [200]}"), "retry.codes", false, KUBE_ROUTE_UNSUPPORTED},
		{HTTP("retry: {codes: [500], backoff: 1}"), "backoff: '1', a duration", false,
			KUBE_ROUTE_UNSUPPORTED},
		{HTTP("retry: {codes: [500], backoff: 61s}"), "retry.backoff: at most 1m", false,
			KUBE_ROUTE_UNSUPPORTED},
		{SESSION("type: Token"), "type 'Token' is not supported", false,
			KUBE_ROUTE_UNSUPPORTED},
		{SESSION("sessionName: 'a b'"), "sessionName: 'a b'", false,
			KUBE_ROUTE_UNSUPPORTED},
		{SESSION("type: Header, sessionName: Connection"), "sessionName: 'Connection'",
			false, KUBE_ROUTE_UNSUPPORTED},
		{SESSION("type: Header, cookieConfig: {}"), "cookieConfig is for type Cookie",
			false, KUBE_ROUTE_UNSUPPORTED},
		{SESSION("cookieConfig: {lifetimeType: Permanent}"), "needs absoluteTimeout", false,
			KUBE_ROUTE_UNSUPPORTED},
		{SESSION("cookieConfig: {lifetimeType: Long}"), "lifetimeType 'Long'", false,
			KUBE_ROUTE_UNSUPPORTED},
		{SESSION("absoluteTimeout: 577h"), "at most 576h", false, KUBE_ROUTE_UNSUPPORTED},
	};

	(void)state;
	check_faults(rows, ARRAY_LEN(rows));
}

/* A session's name and path where none are said: equal for equal routes. */
static void
sessions(void **state)
{
	static const struct {
		const char *matches, *session, *json;
	} rows[] = {
		{"", "sessionName: s", "{\"name\":\"s\",\"path\":\"/\"}"},
		{"matches: [{path: {value: /a/}}], ", "sessionName: s, idleTimeout: 90s",
			"{\"name\":\"s\",\"path\":\"/a\",\"idleMs\":90000}"},
		{"matches: [{path: {value: '/a;b'}}], ", "sessionName: s",
			"{\"name\":\"s\",\"path\":\"/\"}"},
		{"matches: [{path: {value: /a}}, {path: {value: /b}}], ", "sessionName: s",
			"{\"name\":\"s\",\"path\":\"/\"}"},
		{"matches: [{path: {type: Exact, value: /a}}], ",
			"sessionName: s, absoluteTimeout: 576h, cookieConfig: {lifetimeType: "
			"Permanent}",
			"{\"permanent\":true,\"name\":\"s\",\"path\":\"/"
			"a\",\"absoluteMs\":2073600000}"},
		{"", "type: Header, sessionName: X-Session",
			"{\"header\":true,\"name\":\"X-Session\"}"},
		{"", "type: Cookie", "{\"name\":\"edgeway-"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_free char *yaml = xasprintf(
			ROUTE_OF("HTTPRoute", "v1", PARENT "rules: [{%ssessionPersistence: {%s}}]"),
			rows[i].matches, rows[i].session);
		auto_buf struct buf json;
		struct kube_batch b;
		const struct kube_route *r = read_one(&b, yaml);

		buf_init(&json, BUF_UNLIMITED);
		assert_int_equal(r->rules[0].fault, KUBE_ROUTE_WELL);
		http_route_build_rule(&json, &r->rules[0].rule);
		buf_add(&json, "", 1);
		if (strstr(buf_at(&json), rows[i].json) == NULL)
			fail_msg("%s\n%s", yaml, buf_at(&json));
		kube_batch_fini(&b);
	}
}

#define REPEAT4(x) x ", " x ", " x ", " x
#define REPEAT16(x) REPEAT4(REPEAT4(x))
#define REPEAT128(x) REPEAT4(REPEAT16(x)) ", " REPEAT4(REPEAT16(x))

/* What is beyond the CRD's bounds, or of no form at all, is refused as a whole. */
static void
objects_are_bounded(void **state)
{
	static const struct {
		const char *yaml, *told;
	} rows[] = {
		{ROUTE_OF("HTTPRoute", "v1", PARENT "rules: [" REPEAT16("{}") ", {}]"),
			"rules: at most 16"},
		{ROUTE_OF("HTTPRoute", "v1", PARENT "rules: {a: b}"), "rules: a list expected"},
		{ROUTE_OF(
			 "HTTPRoute", "v1", PARENT "rules: [{matches: [" REPEAT128("{}") "]}, {}]"),
			"129 matches, at most 128"},
		{ROUTE_OF("HTTPRoute", "v1", "parentRefs: [{group: '', kind: Service}]"),
			"a parentRef without a name"},
		{ROUTE_OF("HTTPRoute", "v1",
			 "parentRefs: [{group: '', kind: Service, name: w, port: 70000}]"),
			"port: a port from 1"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct kube_batch b;

		kit_read(&b, "m.yaml", rows[i].yaml);
		assert_int_equal(b.n, 0);
		assert_int_equal(b.n_wrong, 1);
		if (strstr(b.complaints[0], rows[i].told) == NULL)
			fail_msg("%s", b.complaints[0]);
		kube_batch_fini(&b);
	}
}

static void
parents_and_status(void **state)
{
	struct kube_batch b;
	const struct kube_route *r = read_one(&b,
		"apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n"
		"metadata: {name: r, namespace: n, generation: 7, resourceVersion: '12', "
		"creationTimestamp: '2026-01-02T03:04:05Z'}\n"
		"spec:\n  parentRefs: [{name: gw}, {group: '', kind: Service, name: a, namespace: "
		"m, sectionName: http, port: 80}, {kind: Service, name: mcs, group: "
		"multicluster.x-k8s.io}, {group: '', kind: Service, name: b}]\n"
		"status:\n  parents: [{controllerName: other.io/c, parentRef: {name: gw}, "
		"conditions: [{observedGeneration: 3, message: 'yes \"x\"', ok: true, n: null}]}, "
		"{controllerName: edgeway.io/gateway-controller, parentRef: {name: a, port: "
		"80}}]\n");

	(void)state;
	assert_int_equal(b.n_complaints, 0);
	assert_int_equal(r->n_parents, 2);
	assert_string_equal(r->parents[0].ns, "m");
	assert_true(r->parents[0].ns_given && !r->parents[1].ns_given);
	assert_string_equal(r->parents[0].section, "http");
	assert_int_equal(r->parents[0].port, 80);
	assert_string_equal(r->parents[1].ns, "n");
	assert_int_equal(r->generation, 7);
	assert_string_equal(r->resource_version, "12");
	assert_string_equal(r->created, "2026-01-02T03:04:05Z");
	assert_string_equal(r->status_others,
		"{\"controllerName\":\"other.io/c\",\"parentRef\":{\"name\":\"gw\"},\"conditions\":"
		"[{\"observedGeneration\":3,\"message\":\"yes "
		"\\\"x\\\"\",\"ok\":true,\"n\":null}]}");
	assert_string_equal(r->status_own,
		"{\"controllerName\":\"edgeway.io/"
		"gateway-controller\",\"parentRef\":{\"name\":\"a\","
		"\"port\":80}}");
	kube_batch_fini(&b);
}

static void
grants(void **state)
{
	struct kube_batch b;
	const struct kube_grant *g;

	(void)state;
	kit_read(&b, "m.yaml",
		ROUTE_OF("ReferenceGrant", "v1beta1",
			"from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: a}, "
			"{group: gateway.networking.k8s.io, kind: Gateway, namespace: b}], to: "
			"[{group: '', kind: Secret}, {group: '', kind: Service, name: w}, {group: "
			"'', kind: Service}]"));
	assert_int_equal(b.n, 1);
	g = &b.objects[0]->grant;
	assert_int_equal(g->n_from, 1);
	assert_string_equal(g->from[0].ns, "a");
	assert_int_equal(g->n_to, 2);
	assert_string_equal(g->to[0], "w");
	assert_string_equal(g->to[1], "");
	kube_batch_fini(&b);
}

/* The Gateway API's other kinds are not ours, and no slips of the pen. */
static void
other_kinds_are_skipped(void **state)
{
	static const char *const others[] = {ROUTE_OF("TCPRoute", "v1alpha2", ""),
		ROUTE_OF("TLSRoute", "v1", ""), ROUTE_OF("UDPRoute", "v1alpha2", ""),
		ROUTE_OF("Gateway", "v1", ""), ROUTE_OF("GatewayClass", "v1", ""),
		ROUTE_OF("XBackendTrafficPolicy", "v1", ""), ROUTE_OF("HTTPRoute", "v1alpha2", ""),
		ROUTE_OF("HTTPRoute", "v2", "")};
	struct kube_batch b;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		kit_read(&b, "m.yaml", others[i]);
		if (b.n_skipped != 1 || b.n_complaints > 0)
			fail_msg("%s", b.n_complaints > 0 ? b.complaints[0] : others[i]);
		kube_batch_fini(&b);
	}
	kit_read(&b, "m.yaml", ROUTE_OF("HTTPRout", "v1", ""));
	assert_int_equal(b.n_wrong, 1);
	assert_non_null(strstr(b.complaints[0], "is HTTPRoute meant?"));
	kube_batch_fini(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_understood),
		cmocka_unit_test(faults_are_the_rules_own),
		cmocka_unit_test(faults_of_policies),
		cmocka_unit_test(sessions),
		cmocka_unit_test(objects_are_bounded),
		cmocka_unit_test(parents_and_status),
		cmocka_unit_test(grants),
		cmocka_unit_test(other_kinds_are_skipped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
