/* Routes joined into the views of their parents, and what their status says. */
#include "tests/unit/model/kube_kit.h"

#include <stdio.h>
#include <string.h>

#include "model/json.h"

#define PORTS                                                                                      \
	"ports: [{name: http, port: 80}, {name: http-alt, port: 81}, {port: 53, protocol: UDP}]"
#define META(name, ns, rest) "metadata: {name: " name ", namespace: " ns rest "}\n"
#define SERVICE_IN(ns, name, rest)                                                                 \
	"---\napiVersion: v1\nkind: Service\n" META(name, ns, "") "spec: {" rest "}\n"
#define ROUTE(kind, meta, parents, rules)                                                          \
	"---\napiVersion: gateway.networking.k8s.io/v1\nkind: " kind "\n" meta                     \
	"spec: {parentRefs: [" parents "], rules: [" rules "]}\n"
#define AGED(age) ", creationTimestamp: '20" age "-01-01T00:00:00Z'"
#define TO(name) "{group: '', kind: Service, name: " name "}"
#define TO_IN(ns, name) "{group: '', kind: Service, namespace: " ns ", name: " name "}"
#define TO_PORT(name, port) "{group: '', kind: Service, name: " name ", " port "}"
#define W SERVICE_IN("n", "w", PORTS)
#define V2 SERVICE_IN("n", "v2", "ports: [{port: 80}]")
#define B(name) "backendRefs: [{name: " name ", port: 80}]"
#define GRANT(ns, from, to)                                                                        \
	"---\napiVersion: gateway.networking.k8s.io/v1beta1\nkind: ReferenceGrant\n" META(         \
		"g", ns, "") "spec: {from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, "  \
			     "namespace: " from "}], to: [{group: '', kind: Service" to "}]}\n"

/* As kit_say, but a fault of a rule is no failure. */
static void
say(const char *source, const char *yaml)
{
	struct kube_batch b;

	kit_read(&b, source, yaml);
	if (b.n_wrong > 0)
		fail_msg("%s", b.complaints[0]);
	cluster_replace(kit_cluster, source, &b);
	kube_batch_fini(&b);
}

/* The part "routes" of the view of n/w, on the heap; "" when it has none, NULL when nothing has
 * changed. */
static char *
routes(void)
{
	struct cluster_change change;
	char *found = NULL;

	while (cluster_next_change(kit_cluster, &change)) {
		if (change.json != NULL && strcmp(change.ns, "n") == 0 &&
			strcmp(change.name, "w") == 0) {
			const char *at = strstr(change.json, "\"routes\":");
			const char *end = strstr(change.json, ",\"ports\":[{\"port\":53");

			free(found);
			found = at != NULL ? xstrndup(at + 9, (size_t)(end - at - 9)) : xstrdup("");
			if (at != NULL) {
				struct view *back;

				assert_int_equal(
					view_parse(&back, change.json, change.json_len, NULL), 0);
				view_free(&back);
			}
		}
		cluster_change_fini(&change);
	}
	return found;
}

static void
expect(const char *wanted)
{
	auto_free char *found = routes();

	if (found == NULL || strcmp(found, wanted) != 0)
		fail_msg("\n%s\ninstead of\n%s", found != NULL ? found : "no change", wanted);
}

#define BACKEND(name) "\"backends\":[{\"ns\":\"n\",\"name\":\"" name "\",\"port\":80}]"
#define RULE(route, rest) "{\"route\":\"" route "\"," rest "}"

/* "NAME=Accepted/ResolvedRefs[+partly];" of all routes whose status may have changed, by name. */
static const char *
statuses(void)
{
	static char text[4096];
	struct cluster_route r;
	char *lines[64];
	size_t n = 0;

	free(routes());
	while (cluster_next_route(kit_cluster, &r)) {
		auto_buf struct buf line;

		buf_init(&line, BUF_UNLIMITED);
		buf_printf(&line, "%s", r.name);
		for (size_t i = 0; i < r.n_parents; i++) {
			const struct cluster_route_parent *p = &r.parents[i];

			assert_true(p->accepted == (strcmp(p->accepted_reason, "Accepted") == 0));
			assert_true(
				p->resolved == (strcmp(p->resolved_reason, "ResolvedRefs") == 0));
			assert_true(*p->accepted_message != '\0' && *p->resolved_message != '\0');
			buf_printf(&line, "=%s/%s%s", p->accepted_reason, p->resolved_reason,
				p->partly != NULL ? "+partly" : "");
		}
		lines[n++] = buf_take_str(&line);
		cluster_route_fini(&r);
	}
	text[0] = '\0';
	while (n > 0) {
		size_t first = 0;

		for (size_t i = 1; i < n; i++)
			if (strcmp(lines[i], lines[first]) < 0)
				first = i;
		snprintf(text + strlen(text), sizeof text - strlen(text), "%s;", lines[first]);
		free(lines[first]);
		lines[first] = lines[--n];
	}
	return text;
}

/* --- what is in the view -------------------------------------------------------------------- */

static void
a_route_comes_and_goes(void **state)
{
	(void)state;
	say("s", W V2);
	expect("");
	say("r", ROUTE("HTTPRoute", META("r", "n", ""), TO("w"), "{" B("v2") "}"));
	expect("{\"rules\":[" RULE(
		"n/r", BACKEND("v2")) "],\"tables\":[{\"ports\":[80,81],"
				      "\"matches\":[{\"rule\":0,\"prefix\":\"\"}]}]}");
	assert_string_equal(statuses(), "r=Accepted/ResolvedRefs;");
	assert_string_equal(statuses(), "");
	/* Its backend goes, and comes back. */
	say("s", W);
	expect("{\"rules\":[{\"route\":\"n/r\",\"status\":500}],\"tables\":[{\"ports\":[80,81],"
	       "\"matches\":[{\"rule\":0,\"prefix\":\"\"}]}]}");
	assert_string_equal(statuses(), "r=Accepted/BackendNotFound;");
	say("s", W V2);
	assert_string_equal(statuses(), "r=Accepted/ResolvedRefs;");
	/* Its parent goes, and comes back. */
	say("s", V2);
	assert_string_equal(statuses(), "r=NoMatchingParent/ResolvedRefs;");
	say("s", W V2);
	assert_string_equal(statuses(), "r=Accepted/ResolvedRefs;");
	say("r", "");
	expect("");
	assert_string_equal(statuses(), "");
	assert_int_equal(cluster_count(kit_cluster, KUBE_HTTPROUTE), 0);
}

static void
ports_are_the_parents(void **state)
{
	(void)state;
	say("s", W);
	say("r",
		ROUTE("HTTPRoute", META("all", "n", AGED("20")), TO("w"),
			"{matches: [{path: {value: /all}}], " B("w") "}") ROUTE("HTTPRoute",
			META("one", "n", AGED("21")),
			TO_PORT("w", "port: 81") ", " TO_PORT("w", "sectionName: none"),
			"{matches: [{path: {value: /one}}], " B("w") "}")
			ROUTE("HTTPRoute", META("two", "n", AGED("22")),
				TO_PORT("w", "port: 80, sectionName: http-alt") ", " TO_PORT(
					"w", "port: 53"),
				"{" B("w") "}"));
	expect("{\"rules\":[" RULE("n/all", BACKEND("w")) "," RULE(
		"n/one", BACKEND("w")) "],"
				       "\"tables\":[{\"ports\":[80],\"matches\":[{\"rule\":0,"
				       "\"prefix\":\"/all\"}]},"
				       "{\"ports\":[81],\"matches\":[{\"rule\":0,\"prefix\":\"/"
				       "all\"},{\"rule\":1,"
				       "\"prefix\":\"/one\"}]}]}");
	assert_string_equal(statuses(),
		"all=Accepted/ResolvedRefs;one=Accepted/ResolvedRefs=NoMatchingParent/ResolvedRefs;"
		"two=NoMatchingParent/ResolvedRefs=NoMatchingParent/ResolvedRefs;");
}

#define PATH(type, path) "{path: {type: " type ", value: '" path "'}}"

/* To the letter of the API, through all its criteria. */
static void
precedence(void **state)
{
	(void)state;
	say("s", W);
	say("r",
		ROUTE("HTTPRoute", META("b", "n", AGED("21")), TO("w"),
			"{matches: [" PATH("PathPrefix",
				"/") ", {headers: [{name: a, value: b}]}, "
				     "{headers: [{name: a, value: b}], queryParams: [{name: q, "
				     "value: r}]}, "
				     "{method: GET}, " PATH("PathPrefix", "/longer") ", " PATH(
					     "RegularExpression", "/x.*") ", " PATH("Exact",
					     "/z") "], " B("w") "}, {matches: [" PATH("PathPrefix",
					     "/") "], " B("w") "}") ROUTE("HTTPRoute",
			META("a", "n", AGED("22")), TO("w"),
			"{matches: [" PATH("PathPrefix", "/") ", " PATH(
				"PathPrefix", "/longest") "], " B("w") "}")
			ROUTE("HTTPRoute", META("c", "n", AGED("21")), TO("w"),
				"{matches: [" PATH("PathPrefix", "/") "], " B("w") "}")
				ROUTE("HTTPRoute", META("0", "n", ""), TO("w"),
					"{matches: [" PATH("PathPrefix", "/") "], " B("w") "}"));
	expect("{\"rules\":[" RULE("n/b", BACKEND("w")) ",{\"route\":\"n/b\",\"index\":1," BACKEND(
		"w") "}," RULE("n/c", BACKEND("w")) "," RULE("n/a", BACKEND("w")) "," RULE("n/0",
		BACKEND("w")) "],"
			      "\"tables\":[{\"ports\":[80,81],\"matches\":["
			      "{\"rule\":0,\"exact\":\"/z\"},{\"rule\":0,\"regex\":\"/x.*\"},"
			      "{\"rule\":3,\"prefix\":\"/longest\"},{\"rule\":0,\"prefix\":\"/"
			      "longer\"},"
			      "{\"rule\":0,\"prefix\":\"\",\"method\":\"GET\"},"
			      "{\"rule\":0,\"prefix\":\"\",\"headers\":[{\"name\":\"a\",\"value\":"
			      "\"b\"}],"
			      "\"params\":[{\"name\":\"q\",\"value\":\"r\"}]},"
			      "{\"rule\":0,\"prefix\":\"\",\"headers\":[{\"name\":\"a\",\"value\":"
			      "\"b\"}]},"
			      "{\"rule\":0,\"prefix\":\"\"},{\"rule\":1,\"prefix\":\"\"},"
			      "{\"rule\":2,\"prefix\":\"\"},{\"rule\":3,\"prefix\":\"\"},"
			      "{\"rule\":4,\"prefix\":\"\"}]}]}");
}

static void
grpc_has_its_own_order_and_goes_first(void **state)
{
	(void)state;
	say("s", W);
	say("r",
		ROUTE("HTTPRoute", META("h", "n", AGED("20")), TO("w"), "{" B("w") "}")
			ROUTE("GRPCRoute", META("g", "n", AGED("21")), TO_PORT("w", "port: 81"),
				"{matches: [{headers: [{name: a, value: b}]}, {method: {method: "
				"Mm}}, {method: {service: s.S}}, {method: {service: s.S, method: "
				"M}}], " B("w") "}"));
	expect("{\"rules\":[" RULE("n/h", BACKEND("w")) "," RULE(
		"n/g", BACKEND("w")) "],"
				     "\"tables\":[{\"ports\":[80],\"matches\":[{\"rule\":0,"
				     "\"prefix\":\"\"}]},"
				     "{\"grpc\":true,\"ports\":[81],\"matches\":[{\"rule\":1,"
				     "\"exact\":\"/s.S/M\"},"
				     "{\"rule\":1,\"prefix\":\"/s.S\"},{\"rule\":1,\"regex\":\"/[^/"
				     "]+/(?:Mm)\"},"
				     "{\"rule\":1,\"prefix\":\"\",\"headers\":[{\"name\":\"a\","
				     "\"value\":\"b\"}]}]}]}");
	assert_string_equal(statuses(), "g=Accepted/ResolvedRefs;h=Accepted/ResolvedRefs;");
	/* At all ports: the HTTPRoute is told of it, and again when that is over. */
	say("r2", ROUTE("GRPCRoute", META("g2", "n", ""), TO("w"), "{" B("w") "}"));
	assert_string_equal(statuses(),
		"g2=Accepted/ResolvedRefs;g=Accepted/ResolvedRefs;h=Conflicted/ResolvedRefs;");
	say("r2", "");
	assert_string_equal(statuses(), "g=Accepted/ResolvedRefs;h=Accepted/ResolvedRefs;");
}

/* A consumer's routes are a table of their own; the parent's namespace needs no grant. */
static void
consumers(void **state)
{
	(void)state;
	say("s", W SERVICE_IN("shop", "own", "ports: [{port: 80}]"));
	say("r",
		ROUTE("HTTPRoute", META("p", "n", ""), TO("w"), "{" B("w") "}")
			ROUTE("HTTPRoute", META("c", "shop", ""), TO_IN("n", "w"),
				"{matches: [{path: {value: /x}}], backendRefs: [{name: own, port: "
				"80}, {name: w, namespace: n, port: 80}]}"));
	expect("{\"rules\":[" RULE(
		"n/p", BACKEND("w")) ",{\"route\":\"shop/c\",\"backends\":[{"
				     "\"ns\":\"shop\",\"name\":\"own\",\"port\":80},{\"ns\":\"n\","
				     "\"name\":\"w\","
				     "\"port\":80}]}],"
				     "\"tables\":[{\"ports\":[80,81],\"matches\":[{\"rule\":0,"
				     "\"prefix\":\"\"}]},"
				     "{\"ns\":\"shop\",\"ports\":[80,81],\"matches\":[{\"rule\":1,"
				     "\"prefix\":\"/x\"}]}]"
				     "}");
	assert_string_equal(statuses(), "c=Accepted/ResolvedRefs;p=Accepted/ResolvedRefs;");
	/* Nodes must know whose callers are the consumer's. */
	assert_int_equal(cluster_restricted(kit_cluster), 1);
	say("r", ROUTE("HTTPRoute", META("p", "n", ""), TO("w"), "{" B("w") "}"));
	free(routes());
	assert_int_equal(cluster_restricted(kit_cluster), 0);
}

#define MIXED                                                                                      \
	"ports: [{port: 53, protocol: UDP}, {name: http, port: 80}, {name: tcp, port: 90}, "       \
	"{name: x, port: 91}, {name: y, port: 92, appProtocol: kubernetes.io/h2c}]"
#define OUT                                                                                        \
	"---\napiVersion: v1\nkind: Service\nmetadata: {name: out, namespace: n, labels: {"        \
	"service.kubernetes.io/service-proxy-name: x}}\nspec: {ports: [{name: http, port: 80}]}\n"

/* Nodes do not look into other ports, so that a route there would be accepted in vain; nor can they
 * send anything to what is excluded from the mesh. */
static void
ports_of_http_and_services_of_the_mesh(void **state)
{
	(void)state;
	say("s", SERVICE_IN("n", "w", MIXED) OUT);
	say("r",
		ROUTE("HTTPRoute", META("all", "n", AGED("20")), TO("w"), "{" B("w") "}")
			ROUTE("HTTPRoute", META("tcp", "n", AGED("21")), TO_PORT("w", "port: 90"),
				"{" B("w") "}") ROUTE("HTTPRoute", META("out", "n", AGED("22")),
				TO("w"), "{matches: [{method: PUT}], " B("out") "}"));
	expect("{\"rules\":[" RULE(
		"n/all", BACKEND("w")) ",{\"route\":\"n/out\",\"status\":500}],"
				       "\"tables\":[{\"ports\":[80,92],\"matches\":[{\"rule\":1,"
				       "\"prefix\":\"\",\"method\":\"PUT\"},{\"rule\":0,"
				       "\"prefix\":\"\"}]}]}");
	assert_string_equal(statuses(),
		"all=Accepted/ResolvedRefs;out=Accepted/BackendNotFound;"
		"tcp=NoMatchingParent/ResolvedRefs;");
}

/* --- backends ------------------------------------------------------------------------------- */

static void
grants(void **state)
{
	(void)state;
	say("s", W SERVICE_IN("m", "far", "ports: [{port: 80}]"));
	say("r",
		ROUTE("HTTPRoute", META("r", "n", ""), TO("w"),
			"{backendRefs: [{name: far, namespace: m, port: 80, weight: 3}, {name: w, "
			"port: 80}]}"));
	expect("{\"rules\":[{\"route\":\"n/"
	       "r\",\"backends\":[{\"ns\":\"m\",\"name\":\"far\",\"port\""
	       ":80,\"invalid\":true,\"weight\":3},{\"ns\":\"n\",\"name\":\"w\",\"port\":80}]}],"
	       "\"tables\":[{\"ports\":[80,81],\"matches\":[{\"rule\":0,\"prefix\":\"\"}]}]}");
	assert_string_equal(statuses(), "r=Accepted/RefNotPermitted;");
	say("g", GRANT("m", "other", ""));
	assert_string_equal(statuses(), "r=Accepted/RefNotPermitted;");
	say("g", GRANT("m", "n", ", name: near"));
	assert_string_equal(statuses(), "r=Accepted/RefNotPermitted;");
	say("g", GRANT("m", "n", ", name: far"));
	expect("{\"rules\":[{\"route\":\"n/"
	       "r\",\"backends\":[{\"ns\":\"m\",\"name\":\"far\",\"port\""
	       ":80,\"weight\":3},{\"ns\":\"n\",\"name\":\"w\",\"port\":80}]}],"
	       "\"tables\":[{\"ports\":[80,81],\"matches\":[{\"rule\":0,\"prefix\":\"\"}]}]}");
	assert_string_equal(statuses(), "r=Accepted/ResolvedRefs;");
	say("g", "");
	assert_string_equal(statuses(), "r=Accepted/RefNotPermitted;");
}

static void
references(void **state)
{
	static const struct {
		const char *rule, *status;
	} rows[] = {
		{"{backendRefs: [{name: none, port: 80}]}", "r=Accepted/BackendNotFound;"},
		{"{backendRefs: [{name: w}]}", "r=Accepted/BackendNotFound;"},
		{"{backendRefs: [{name: w, port: 53}]}", "r=Accepted/UnsupportedProtocol;"},
		{"{backendRefs: [{name: w, port: 54}]}", "r=Accepted/BackendNotFound;"},
		{"{backendRefs: [{name: x, port: 80}]}", "r=Accepted/InvalidKind;"},
		{"{backendRefs: [{name: w, kind: Pod, port: 80}]}", "r=Accepted/InvalidKind;"},
		{"{backendRefs: [{name: w, group: a.b, port: 80}]}", "r=Accepted/InvalidKind;"},
		{"{backendRefs: []}", "r=Accepted/ResolvedRefs;"},
		{"{" B("w") ", filters: [{type: RequestMirror, requestMirror: {backendRef: {name: "
			    "none, port: 80}}}]}",
			"r=Accepted/BackendNotFound;"},
		{"{" B("w") ", filters: [{type: CORS}]}", "r=UnsupportedValue/ResolvedRefs;"},
		{"{filters: [{type: URLRewrite}, {type: RequestRedirect}]}",
			"r=IncompatibleFilters/ResolvedRefs;"},
		{"{" B("w") "}, {" B("w") ", filters: [{type: CORS}]}",
			"r=Accepted/ResolvedRefs+partly;"},
		{"{" B("w") "}, {" B("w") ", matches: [{method: X}]}",
			"r=Accepted/ResolvedRefs+partly;"},
	};

	(void)state;
	say("s",
		W SERVICE_IN(
			"n", "x", "type: ExternalName, externalName: a.b, ports: [{port: 80}]"));
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_free char *yaml = xasprintf(
			"---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n" META(
				"r", "n", "") "spec: {parentRefs: [" TO("w") "], rules: [%s]}\n",
			rows[i].rule);

		say("r", "");
		say("r", yaml);
		if (strcmp(statuses(), rows[i].status) != 0) {
			say("r", "");
			say("r", yaml);
			fail_msg("%s: %s instead of %s", rows[i].rule, statuses(), rows[i].status);
		}
	}
}

/* A filter that is not known is not skipped: 500. A match that is not known matches nothing. */
static void
faulty_rules(void **state)
{
	struct cluster_route r;

	(void)state;
	say("s", W);
	say("r",
		ROUTE("HTTPRoute", META("r", "n", ""), TO("w"),
			"{matches: [{method: X}], " B("w") "}, {filters: [{type: CORS}], " B(
				"w") "}, {matches: [{path: {value: /x}}], " B("w") "}"));
	expect("{\"rules\":[{\"route\":\"n/r\",\"index\":1,\"status\":500},{\"route\":\"n/r\","
	       "\"index\":2," BACKEND(
		       "w") "}],\"tables\":[{\"ports\":[80,81],\"matches\":[{"
			    "\"rule\":1,\"prefix\":\"/x\"},{\"rule\":0,\"prefix\":\"\"}]}]}");
	assert_true(cluster_next_route(kit_cluster, &r));
	assert_string_equal(r.parents[0].partly,
		"Dropped Rule 0: method: 'X' is not allowed here; "
		"Dropped Rule 1 (its requests get 500): filter CORS is not supported");
	cluster_route_fini(&r);
	/* Of a route whose rules are all dropped nothing is left: the Service is as without. */
	say("r",
		ROUTE("HTTPRoute", META("r", "n", ""), TO("w"),
			"{matches: [{method: X}], " B("w") "}"));
	expect("");
	assert_string_equal(statuses(), "r=UnsupportedValue/ResolvedRefs;");
}

static void
some_services_are_no_parents(void **state)
{
	(void)state;
	say("s",
		SERVICE_IN("n", "w", "clusterIP: None, " PORTS)
			SERVICE_IN("n", "x", "type: ExternalName, externalName: a.b, " PORTS));
	say("r", ROUTE("HTTPRoute", META("r", "n", ""), TO("w") ", " TO("x"), "{" B("w") "}"));
	assert_string_equal(
		statuses(), "r=UnsupportedValue/ResolvedRefs=UnsupportedValue/ResolvedRefs;");
}

/* --- limits --------------------------------------------------------------------------------- */

/* Routes of a consumer are left out before the producer's, the youngest first; the Service and its
 * endpoints are sent in any case. */
static void
routes_never_hold_a_service_back(void **state)
{
	enum { N = 301, PRODUCER = 150, SHOP = (256 - PRODUCER) / ROUTES_CONSUMER_PART };
	auto_buf struct buf yaml;
	struct cluster_change change;
	struct cluster_route r;
	size_t beyond = 0, taken = 0;

	(void)state;
	buf_init(&yaml, BUF_UNLIMITED);
	for (int i = 0; i < N; i++)
		buf_printf(&yaml,
			"---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n"
			"metadata: {name: r%03d, namespace: %s, creationTimestamp: "
			"'2026-01-01T00:%02d:%02dZ'}\n"
			"spec: {parentRefs: [" TO_IN("n", "w") "], rules: [{matches: [" PATH(
				"RegularExpression", "/a.*") "]}]}\n",
			i,
			i == N - 1           ? "zoo"
				: i % 2 == 0 ? "n"
					     : "shop",
			i / 60, i % 60);
	say("s", SERVICE_IN("n", "w", "ports: [{name: http, port: 80}]"));
	say("r", buf_str(&yaml));
	assert_true(cluster_next_change(kit_cluster, &change));
	assert_int_equal(change.view->routes->n_rules, PRODUCER + SHOP + 1);
	cluster_change_fini(&change);
	assert_false(cluster_beyond(kit_cluster, "n", "w"));
	while (cluster_next_route(kit_cluster, &r)) {
		bool ok = r.parents[0].accepted;
		int i = atoi(r.name + 1);

		/* All of the producer, the older ones of a consumer, and another one's: the first
		 * cannot use up what all have. */
		assert_int_equal(ok, i % 2 == 0 || i / 2 < SHOP);
		if (!ok)
			assert_non_null(strstr(r.parents[0].accepted_message, "beyond"));
		taken += ok;
		beyond += !ok;
		cluster_route_fini(&r);
	}
	assert_int_equal(taken, PRODUCER + SHOP + 1);
	assert_int_equal(beyond, N - taken);
}

/* 1 000 routes of 16 rules on one Service are within all limits. */
static void
a_thousand_routes_fit(void **state)
{
	auto_buf struct buf yaml;
	struct cluster_change change;
	struct view *back;
	struct err err = {0};

	(void)state;
	buf_init(&yaml, BUF_UNLIMITED);
	for (int i = 0; i < 1000; i++) {
		buf_printf(&yaml,
			"---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n"
			"metadata: {name: route-%04d, namespace: n}\n"
			"spec: {parentRefs: [" TO("w") "], rules: [",
			i);
		for (int k = 0; k < 16; k++)
			buf_printf(&yaml,
				"{matches: [{path: {value: /api/%04d/%02d}}], " B("w") "}, ", i, k);
		buf_adds(&yaml, "]}\n");
	}
	say("s", SERVICE_IN("n", "w", "ports: [{name: http, port: 80}, {name: http2, port: 82}]"));
	say("r", buf_str(&yaml));
	assert_true(cluster_next_change(kit_cluster, &change));
	assert_int_equal(change.view->routes->n_rules, 16000);
	if (view_parse(&back, change.json, change.json_len, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(back->routes->tables[0].n_matches, 16000);
	assert_true(json_values(change.json, change.json_len) <= VIEW_MAX_VALUES);
	view_free(&back);
	cluster_change_fini(&change);
}

int
main(void)
{
#define TEST(t) cmocka_unit_test_setup_teardown(t, kit_setup, kit_teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_route_comes_and_goes),
		TEST(ports_are_the_parents),
		TEST(precedence),
		TEST(grpc_has_its_own_order_and_goes_first),
		TEST(consumers),
		TEST(ports_of_http_and_services_of_the_mesh),
		TEST(grants),
		TEST(references),
		TEST(faulty_rules),
		TEST(some_services_are_no_parents),
		TEST(routes_never_hold_a_service_back),
		TEST(a_thousand_routes_fit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
