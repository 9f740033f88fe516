/* BackendTLSPolicies joined into the views of their Services, and what their status says. */
#include "tests/unit/model/kube_kit.h"

#include <stdio.h>
#include <string.h>

#include "base/tls/pki.h"

#define SERVICE_N                                                                                  \
	"---\napiVersion: v1\nkind: Service\nmetadata: {name: w, namespace: n}\nspec: {ports: ["   \
	"{name: http, port: 80}, {name: https, port: 443}, {name: dns, port: 53, protocol: UDP}]}" \
	"\n"
#define POLICY(name, age, section, validation)                                                     \
	"---\napiVersion: gateway.networking.k8s.io/v1\nkind: BackendTLSPolicy\n"                  \
	"metadata: {name: " name ", namespace: n, resourceVersion: '7', generation: 3, "           \
	"creationTimestamp: '20" age "-01-01T00:00:00Z'}\n"                                        \
	"spec: {targetRefs: [{group: '', kind: Service, name: w" section "}], validation: {"       \
	"hostname: w.example, " validation "}}\n"
#define CA(name) "caCertificateRefs: [{group: '', kind: ConfigMap, name: " name "}]"

static char *ca;

static int
make_ca(void **state)
{
	auto_free char *key = NULL;

	assert_int_equal(pki_ca_new("unit", 1, &ca, &key, NULL), 0);
	return kit_setup(state);
}

static int
drop_ca(void **state)
{
	free(take_ptr(&ca));
	return kit_teardown(state);
}

/* A ConfigMap with this in ca.crt. */
static void
put_map(const char *name, const char *text)
{
	auto_buf struct buf yaml;

	buf_init(&yaml, BUF_UNLIMITED);
	buf_printf(&yaml,
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: n}\ndata:\n"
		"  ca.crt: |\n",
		name);
	while (*text != '\0') {
		size_t len = strcspn(text, "\n");

		buf_printf(&yaml, "    %.*s\n", (int)len, text);
		text += len + (text[len] == '\n');
	}
	kit_say(kit_cluster, name, buf_str(&yaml));
}

/* A fault of a policy is told, and no failure. */
static void
put_objects(const char *yaml)
{
	struct kube_batch b;

	kit_read(&b, "objects", yaml);
	assert_int_equal(b.n_wrong, 0);
	cluster_replace(kit_cluster, "objects", &b);
	kube_batch_fini(&b);
}

/* The view of n/w as last sent; NULL: there is no change. */
static struct view *
next_view(void)
{
	struct cluster_change change;
	struct view *v = NULL;

	while (cluster_next_change(kit_cluster, &change)) {
		view_free(&v);
		assert_int_equal(view_parse(&v, change.json, change.json_len, NULL), 0);
		assert_true(change.digest == view_digest(change.json, change.json_len));
		cluster_change_fini(&change);
	}
	return v;
}

/* "p: Accepted True Accepted, ResolvedRefs True ResolvedRefs" for each policy with news. */
static void
expect_status(const char *wanted)
{
	struct cluster_route r;
	char found[1000] = "";

	while (cluster_next_route(kit_cluster, &r)) {
		assert_int_equal(r.kind, KUBE_TLS_POLICY);
		for (size_t i = 0; i < r.n_parents && r.news; i++)
			snprintf(found + strlen(found), sizeof found - strlen(found), "%s%s: %s %s",
				*found != '\0' ? ", " : "", r.name, r.parents[i].accepted_reason,
				r.parents[i].resolved_reason);
		cluster_route_fini(&r);
	}
	assert_string_equal(found, wanted);
}

static void
a_policy_is_for_the_tcp_ports(void **state)
{
	struct view *v;

	(void)state;
	put_map("ca", ca);
	put_objects(SERVICE_N POLICY("p", "26", "", CA("ca")));
	v = next_view();
	assert_int_equal(v->n_tls, 1);
	assert_string_equal(v->tls[0]->policy, "n/p");
	assert_string_equal(v->tls[0]->host, "w.example");
	assert_string_equal(v->tls[0]->hosts[0], "w.example");
	assert_null(v->tls[0]->hosts[1]);
	assert_int_equal(strncmp(v->tls[0]->ca, ca, strlen(ca)), 0);
	for (size_t i = 0; i < v->n_ports; i++) {
		assert_int_equal(v->ports[i].tls, v->ports[i].port != 53);
		/* the proxy adds the TLS: from clients comes HTTP */
		assert_int_equal(v->ports[i].mode == PORT_HTTP, v->ports[i].port != 53);
	}
	view_free(&v);
	expect_status("p: Accepted ResolvedRefs");
	kit_say(kit_cluster, "objects", SERVICE_N);
	v = next_view();
	assert_int_equal(v->n_tls, 0);
	assert_int_equal(v->ports[0].tls, 0);
	view_free(&v);
}

/* The CAs are those of the ConfigMap as it is. */
static void
a_config_map_changes(void **state)
{
	auto_free char *key = NULL, *other = NULL;
	struct view *v;

	(void)state;
	put_objects(SERVICE_N POLICY("p", "26", "", CA("ca")));
	v = next_view();
	assert_string_equal(v->tls[0]->ca, "");
	assert_non_null(strstr(v->tls[0]->wrong, "ConfigMap n/ca does not exist"));
	view_free(&v);
	expect_status("p: NoValidCACertificate InvalidCACertificateRef");
	put_map("ca", ca);
	v = next_view();
	assert_string_equal(v->tls[0]->wrong, "");
	view_free(&v);
	expect_status("p: Accepted ResolvedRefs");
	assert_int_equal(pki_ca_new("other", 1, &other, &key, NULL), 0);
	put_map("ca", other);
	v = next_view();
	assert_int_equal(strncmp(v->tls[0]->ca, other, strlen(other)), 0);
	view_free(&v);
	put_map("ca", "no certificate");
	v = next_view();
	assert_non_null(strstr(v->tls[0]->wrong, "has no certificates in PEM"));
	view_free(&v);
	put_map("unrelated", ca);
	assert_null(next_view());
}

static void
some_references_are_invalid(void **state)
{
	struct view *v;

	(void)state;
	put_map("ca", ca);
	put_objects(SERVICE_N POLICY("p", "26", "",
		"caCertificateRefs: [{group: '', kind: Secret, name: s}, "
		"{group: '', kind: ConfigMap, name: ca}]"));
	v = next_view();
	assert_string_equal(v->tls[0]->wrong, "");
	assert_int_equal(strncmp(v->tls[0]->ca, ca, strlen(ca)), 0);
	view_free(&v);
	expect_status("p: Accepted InvalidKind");
	put_objects(SERVICE_N POLICY(
		"p", "26", "", "caCertificateRefs: [{group: '', kind: Secret, name: s}]"));
	v = next_view();
	assert_non_null(strstr(v->tls[0]->wrong, "s is a Secret"));
	view_free(&v);
	expect_status("p: NoValidCACertificate InvalidKind");
}

static void
the_oldest_counts(void **state)
{
	struct view *v;

	(void)state;
	put_map("ca", ca);
	put_objects(SERVICE_N POLICY("b", "25", "", CA("ca")) POLICY("a", "26", "", CA("ca"))
			POLICY("c", "26", ", sectionName: https", CA("ca"))
				POLICY("d", "26", ", sectionName: https", CA("ca"))
					POLICY("e", "26", ", sectionName: nowhere", CA("ca")));
	v = next_view();
	for (size_t i = 0; i < v->n_ports; i++)
		if (v->ports[i].port != 53)
			assert_string_equal(v->tls[v->ports[i].tls - 1]->policy,
				v->ports[i].port == 80 ? "n/b" : "n/c");
	view_free(&v);
	expect_status("b: Accepted ResolvedRefs, a: Conflicted ResolvedRefs, c: Accepted "
		      "ResolvedRefs, d: Conflicted ResolvedRefs, e: TargetNotFound ResolvedRefs");
	kit_say(kit_cluster, "objects", SERVICE_N POLICY("a", "26", "", CA("ca")));
	v = next_view();
	assert_string_equal(v->tls[0]->policy, "n/a");
	view_free(&v);
	expect_status("a: Accepted ResolvedRefs");
}

static void
names_and_the_systems_cas(void **state)
{
	struct view *v;

	(void)state;
	put_objects(SERVICE_N POLICY("p", "26", "",
		"wellKnownCACertificates: System, subjectAltNames: [{type: URI, uri: "
		"'spiffe://a/b'}, "
		"{type: Hostname, hostname: '*.b.example'}]"));
	v = next_view();
	assert_string_equal(v->tls[0]->wrong, "");
	assert_string_equal(v->tls[0]->ca, "");
	assert_string_equal(v->tls[0]->uris[0], "spiffe://a/b");
	assert_string_equal(v->tls[0]->hosts[0], "*.b.example");
	assert_null(v->tls[0]->hosts[1]);
	view_free(&v);
	expect_status("p: Accepted ResolvedRefs");
}

/* What the CRD would refuse: calls fail, they do not go in clear. */
static void
what_cannot_be_followed(void **state)
{
	static const char *const rests[] = {"wellKnownCACertificates: mine/own",
		"wellKnownCACertificates: ''", "wellKnownCACertificates: System, " CA("ca"),
		"wellKnownCACertificates: System, subjectAltNames: [{type: URI, uri: relative}]",
		"wellKnownCACertificates: System, subjectAltNames: [{type: Mail, uri: 'a:b'}]"};
	struct view *v;

	(void)state;
	put_map("ca", ca);
	for (size_t i = 0; i < ARRAY_LEN(rests); i++) {
		auto_free char *yaml =
			xasprintf("%s" POLICY("p", "26", "", "%s"), SERVICE_N, rests[i]);
		struct err err = {0};

		put_objects(yaml);
		v = next_view();
		assert_int_equal(v->ports[1].tls, 1); /* after UDP's 53 */
		assert_null(backend_tls_ctx(v->tls[0], &err));
		assert_string_equal(err.text, v->tls[0]->wrong);
		view_free(&v);
		expect_status("p: Invalid ResolvedRefs");
	}
}

/* The ConfigMaps that the hub has to read. */
static void
count_map(void *arg, const char *ns, const char *name)
{
	size_t *n = arg;

	assert_string_equal(ns, "n");
	assert_int_equal(strncmp(name, "ca", 2), 0);
	++*n;
}

/* Each hostname of a headless Service has a copy of the CAs: few may be long. */
static void
hostnames_have_few_cas(void **state)
{
	static const char pod[] =
		"---\napiVersion: v1\nkind: Service\nmetadata: {name: w, namespace: n}\n"
		"spec: {clusterIP: None, selector: {a: b}, ports: [{name: http, port: 80}]}\n"
		"---\napiVersion: v1\nkind: Pod\nmetadata: {name: w-0, namespace: n, "
		"labels: {a: b}}\nspec: {nodeName: e, hostname: w-0, subdomain: w, "
		"containers: [{ports: [{containerPort: 80}]}]}\nstatus: {phase: Running, "
		"podIP: 172.17.0.2, hostIP: 192.0.2.1, conditions: [{type: Ready, status: "
		"\"True\"}]}\n" POLICY("p", "26", "", CA("ca"));

	(void)state;
	for (size_t copies = 1; copies <= 64; copies *= 64) {
		struct cluster_change change;
		unsigned n_valid = 0, n_wrong = 0;
		auto_buf struct buf text;

		buf_init(&text, BUF_UNLIMITED);
		for (size_t i = 0; i < copies; i++)
			buf_adds(&text, ca);
		put_map("ca", buf_str(&text));
		put_objects(pod);
		while (cluster_next_change(kit_cluster, &change)) {
			const struct backend_tls *t = change.view != NULL && change.view->n_tls > 0
				? change.view->tls[0]
				: NULL;

			if (t != NULL && strcmp(change.name, "w-0.w") == 0 && copies > 1) {
				assert_non_null(strstr(t->wrong, "16 KB"));
				assert_string_equal(t->ca, "");
				n_wrong++;
			} else if (t != NULL) {
				assert_string_equal(t->wrong, "");
				n_valid++;
			}
			cluster_change_fini(&change);
		}
		assert_true(n_valid > 0);
		assert_int_equal(n_wrong > 0, copies > 1);
	}
}

static void
config_maps_are_named(void **state)
{
	uint64_t before = cluster_tls_changes(kit_cluster);
	size_t n = 0;

	(void)state;
	put_objects(SERVICE_N POLICY("p", "26", "",
		"caCertificateRefs: [{group: '', kind: ConfigMap, name: ca1}, {group: x, kind: Y, "
		"name: z}, {group: '', kind: ConfigMap, name: ca2}]"));
	assert_true(cluster_tls_changes(kit_cluster) != before);
	cluster_each_config_map(kit_cluster, count_map, &n);
	assert_true(n >= 2);
	kit_say(kit_cluster, "objects", SERVICE_N);
	n = 0;
	cluster_each_config_map(kit_cluster, count_map, &n);
	assert_int_equal(n, 0);
}

/* The endpoints have another name in the view, under which agents without TLS do not find them. */
static void
older_agents_find_no_endpoints(void **state)
{
	static const char json[] = "{\"ns\":\"n\",\"name\":\"w\",\"tls\":[{\"policy\":\"n/p\","
				   "\"host\":\"w.example\",\"hosts\":[\"w.example\"]}],\"ports\":[{"
				   "\"port\":80,\"mode\":\"http\",\"tls\":1,\"why\":\"" VIEW_WHY_TLS
				   "\",\"endpoints\":[],\"tlsEndpoints\":[{\"node\":\"e\","
				   "\"flags\":3}]}]}";
	auto_buf struct buf out;
	struct view *v;

	(void)state;
	buf_init(&out, BUF_UNLIMITED);
	assert_int_equal(view_parse(&v, json, strlen(json), NULL), 0);
	assert_int_equal(v->ports[0].n_endpoints, 1);
	assert_string_equal(v->ports[0].why, "");
	view_build(&out, v);
	assert_string_equal(buf_str(&out), json);
	view_free(&v);
}

static void
tls_that_is_not_there(void **state)
{
	static const char json[] = "{\"ns\":\"n\",\"name\":\"w\",\"ports\":[{\"port\":80,\"mode\":"
				   "\"http\",\"tls\":1,\"tlsEndpoints\":[]}]}";
	struct view *v;

	(void)state;
	assert_true(view_parse(&v, json, strlen(json), NULL) < 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_policy_is_for_the_tcp_ports, make_ca, drop_ca),
		cmocka_unit_test_setup_teardown(a_config_map_changes, make_ca, drop_ca),
		cmocka_unit_test_setup_teardown(some_references_are_invalid, make_ca, drop_ca),
		cmocka_unit_test_setup_teardown(the_oldest_counts, make_ca, drop_ca),
		cmocka_unit_test_setup_teardown(names_and_the_systems_cas, make_ca, drop_ca),
		cmocka_unit_test_setup_teardown(what_cannot_be_followed, make_ca, drop_ca),
		cmocka_unit_test_setup_teardown(hostnames_have_few_cas, make_ca, drop_ca),
		cmocka_unit_test_setup_teardown(config_maps_are_named, make_ca, drop_ca),
		cmocka_unit_test(older_agents_find_no_endpoints),
		cmocka_unit_test(tls_that_is_not_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
