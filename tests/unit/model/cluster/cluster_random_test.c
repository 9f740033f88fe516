#include "tests/unit/model/kube_kit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static uint32_t random_state = 4711;

static uint32_t
rnd(uint32_t below)
{
	random_state = random_state * 1664525 + 1013904223;
	return (random_state >> 8) % below;
}

enum { KINDS = 9, NAMES = 4, SOURCES = 2, CELLS = KINDS * NAMES * SOURCES };
enum { VIEWS = 3 * NAMES }; /* s0..s3, h0.s0..h0.s3, h1.s0..h1.s3 */

/* A route of one of two namespaces, for one or two Services. */
static char *
random_route(const char *kind, const char *match, unsigned name)
{
	auto_free char *second = rnd(3) == 0
		? xasprintf(", {group: \"\", kind: Service, name: s%u, namespace: default}",
			  rnd(NAMES))
		: xstrdup("");

	return xasprintf(
		"apiVersion: gateway.networking.k8s.io/v1\nkind: %s\nmetadata: {name: q%u, "
		"namespace: %s, creationTimestamp: \"%s\", resourceVersion: \"1\"}\n"
		"spec: {parentRefs: [{group: \"\", kind: Service, name: s%u, namespace: "
		"default%s}%s],"
		" rules: [{%s, backendRefs: [{name: s%u, port: %u%s}, {name: s%u, namespace: "
		"default, port: 80}]}]}\n",
		kind, name, rnd(3) == 0 ? "shop" : "default",
		(const char *[]){"2026-11-21T20:00:00Z", "2026-11-21T20:00:01Z", ""}[rnd(3)],
		rnd(NAMES), (const char *[]){"", ", port: 80", ", sectionName: b"}[rnd(3)], second,
		match, rnd(NAMES), 80 + rnd(3), rnd(3) == 0 ? ", namespace: shop" : "", rnd(NAMES));
}

/* One object of a small world, in one of several forms. */
static char *
random_object(unsigned kind, unsigned name)
{
	switch (kind) {
	case 0:
		return xasprintf(SERVICE("s%u",
					 "selector: {%s}, clusterIP: %s, "
					 "publishNotReadyAddresses: %s, ipFamilies: %s,"
					 "ports: [{name: a, port: 80, targetPort: %s}, {name: b, "
					 "port: 81}]"),
			name,
			(const char *[]){"app: web", "pod: p1", "app: web, pod: p2", ""}[rnd(4)],
			(const char *[]){"10.96.0.1", "10.96.0.2", "None"}[rnd(3)],
			rnd(2) != 0 ? "true" : "false",
			(const char *[]){"[IPv4]", "[IPv4, IPv6]", "[IPv6, IPv4]", "[]"}[rnd(4)],
			rnd(2) != 0 ? "www" : "8080");
	case 1:
		return xasprintf(
			"apiVersion: v1\nkind: Pod\nmetadata: {name: p%u, labels: {app: %s, pod: "
			"p%u}%s}\n"
			"spec: {nodeName: n%u, hostname: h%u, subdomain: s%u, hostNetwork: %s, "
			"containers: [{ports: [{name: www, containerPort: %u, hostPort: %u}, "
			"{name: http-x, containerPort: %u}]}]}\n"
			"status: {phase: %s, podIP: 10.0.0.%u, hostIP: 192.0.2.%u%s%s}\n",
			name, rnd(2) != 0 ? "web" : "x", name,
			rnd(4) == 0 ? ", deletionTimestamp: \"x\"" : "", rnd(3), rnd(2), rnd(NAMES),
			rnd(4) == 0 ? "true" : "false", 8080 + rnd(2), 1 + rnd(2), 8080 + rnd(3),
			rnd(5) == 0 ? "Failed" : "Running", 1 + rnd(3), 1 + rnd(3),
			(const char *[]){"", ", podIPs: [{ip: fd01::1}]",
				", podIPs: [{ip: fd01::2}]"}[rnd(3)],
			rnd(2) != 0 ? ", hostIPs: [{ip: fd02::1}]" : "");
	case 2:
		if (rnd(2) != 0)
			return xasprintf(SLICE6("l%u", "s%u", "{name: a, port: %u}",
						 "{addresses: [\"fd01::%u\"], nodeName: n%u},"
						 "{addresses: [\"fd01::%u\"], hostname: h%u},"
						 "{addresses: [\"fd01::%u\"], targetRef: "
						 "{kind: Pod, name: p%u}}"),
				name, rnd(3), 8080 + rnd(2), 1 + rnd(3), rnd(3), 1 + rnd(3), rnd(2),
				1 + rnd(3), rnd(4));
		return xasprintf(SLICE("l%u", "s%u", "{name: %s, port: %u}",
					 "{addresses: [10.0.0.%u], nodeName: n%u, hostname: h%u, "
					 "conditions: {ready: %s}},"
					 "{addresses: [10.0.0.%u], hostname: h%u, targetRef: "
					 "{kind: Pod, name: p%u}}"),
			name, rnd(3), rnd(2) != 0 ? "a" : "b", 8080 + rnd(2), 1 + rnd(3), rnd(3),
			rnd(2), rnd(2) != 0 ? "true" : "false", 1 + rnd(3), rnd(2), rnd(4));
	case 3:
		return xasprintf(
			"apiVersion: v1\nkind: Endpoints\nmetadata: {name: s%u}\nsubsets:\n"
			"- {addresses: [{ip: 10.0.0.%u, nodeName: n%u}], ports: [{name: a, port: "
			"9}]}\n",
			name, 1 + rnd(3), rnd(3));
	case 4:
		return xasprintf("apiVersion: networking.istio.io/v1\nkind: "
				 "DestinationRule\nmetadata: {name: "
				 "r%u, creationTimestamp: \"%s\"}\n"
				 "spec: {host: s%u, trafficPolicy: {loadBalancer: {simple: %s}, "
				 "connectionPool: {tcp: {maxConnections: %u}}}}\n",
			name,
			(const char *[]){
				"2026-11-21T20:00:00Z", "2026-11-21T20:00:01Z", ""}[rnd(3)],
			rnd(NAMES), rnd(2) != 0 ? "RANDOM" : "ROUND_ROBIN", 1 + rnd(3));
	case 5:
		return random_route("HTTPRoute",
			(const char *[]){"matches: [{path: {value: /a}}]",
				"matches: [{method: GET}]", "name: all"}[rnd(3)],
			name);
	case 6:
		return random_route("GRPCRoute", "matches: [{method: {service: s}}]", name);
	case 7:
		return xasprintf(
			"apiVersion: gateway.networking.k8s.io/v1\nkind: ReferenceGrant\n"
			"metadata: {name: g%u, namespace: %s}\nspec: {from: [{group: "
			"gateway.networking.k8s.io, kind: %s, namespace: %s}], to: [{group: "
			"\"\", kind: Service%s}]}\n",
			name, rnd(2) != 0 ? "default" : "shop",
			rnd(2) != 0 ? "HTTPRoute" : "GRPCRoute", rnd(2) != 0 ? "default" : "shop",
			rnd(2) != 0 ? "" : ", name: s1");
	default:
		return xasprintf(NODE("n%u", "edgeway.io/site: s%u, edgeway.io/public: \"%s\"",
					 "{type: ExternalIP, address: 198.51.100.%u}%s"),
			name, rnd(2), rnd(2) != 0 ? "true" : "false", 1 + rnd(2),
			(const char *[]){"", ", {type: InternalIP, address: \"fd02::2\"}",
				", {type: ExternalIP, address: \"fd03::1\"}"}[rnd(3)]);
	}
}

/* Views as told so far. */
static void
follow(struct cluster *c, char *views[VIEWS])
{
	struct cluster_change change;

	while (cluster_next_change(c, &change)) {
		unsigned i = (unsigned)(change.name[1] - '0');

		if (change.name[0] == 'h')
			i = (i + 1) * NAMES + (unsigned)(change.name[4] - '0');
		assert_true(i < VIEWS);

		free(views[i]);
		views[i] = take_ptr(&change.json);
		cluster_change_fini(&change);
	}
}

/* --- statuses of routes --------------------------------------------------------------------- */

enum { STATUSES = 2 * 2 * NAMES }; /* by kind, namespace and name */

static char *
status_text(const struct cluster_route *r, size_t *at)
{
	auto_buf struct buf text;

	buf_init(&text, BUF_UNLIMITED);
	for (size_t i = 0; i < r->n_parents; i++) {
		const struct cluster_route_parent *p = &r->parents[i];

		buf_printf(&text, "%s %s %s %s %s;", p->ref->name, p->accepted_reason,
			p->accepted_message, p->resolved_reason, p->resolved_message);
	}
	*at = (size_t)(r->kind == KUBE_GRPCROUTE) * 2 * NAMES +
		(size_t)(strcmp(r->ns, "shop") == 0) * NAMES + (size_t)(r->name[1] - '0');
	return buf_take_str(&text);
}

struct statuses {
	char *told[STATUSES];
	size_t seen;
};

/* What was told last is what would be told now. */
static void
check_status(void *arg, const struct cluster_route *r)
{
	struct statuses *s = arg;
	size_t at;
	auto_free char *text = status_text(r, &at);

	s->seen++;
	if (s->told[at] == NULL || strcmp(s->told[at], text) != 0)
		fail_msg("%s: %s instead of %s", r->name,
			s->told[at] != NULL ? s->told[at] : "nothing", text);
}

static void
follow_statuses(struct cluster *c, struct statuses *s)
{
	struct cluster_route r;

	while (cluster_next_route(c, &r)) {
		size_t at;
		char *text = status_text(&r, &at);

		free(s->told[at]);
		s->told[at] = text;
		cluster_route_fini(&r);
	}
	s->seen = 0;
	cluster_each_route(c, check_status, s);
	assert_int_equal(
		s->seen, cluster_count(c, KUBE_HTTPROUTE) + cluster_count(c, KUBE_GRPCROUTE));
}

static void
compare_with_scratch(char *const texts[CELLS], char *const views[VIEWS])
{
	struct cluster *scratch = cluster_new();
	char *fresh[VIEWS] = {NULL};

	/* In another order than they came. */
	for (size_t i = CELLS; i-- > 0;) {
		auto_free char *source = xasprintf("%zu-%zu", i % SOURCES, i);

		if (texts[i] != NULL)
			kit_say(scratch, source, texts[i]);
	}
	follow(scratch, fresh);
	for (size_t i = 0; i < VIEWS; i++) {
		if (fresh[i] == NULL || views[i] == NULL)
			assert_true(fresh[i] == views[i]);
		else
			assert_string_equal(views[i], fresh[i]);
		free(fresh[i]);
	}
	cluster_free(&scratch);
}

static void
any_sequence_equals_a_join_from_scratch(void **state)
{
	struct cluster *cluster;
	char *texts[CELLS] = {NULL}, *views[VIEWS] = {NULL};
	struct statuses statuses = {.seen = 0};

	(void)state;
	cluster = cluster_new();
	for (int round = 0; round < 6000; round++) {
		unsigned i = rnd(CELLS);
		auto_free char *source = xasprintf("%u-%u", i % SOURCES, i);

		free(take_ptr(&texts[i]));
		if (rnd(3) != 0) {
			texts[i] = random_object(i / SOURCES % KINDS, i / SOURCES / KINDS);
			kit_say(cluster, source, texts[i]);
		} else {
			cluster_replace(cluster, source, NULL);
		}
		/* Sometimes several operations pile up. */
		if (rnd(3) == 0)
			continue;
		follow(cluster, views);
		follow_statuses(cluster, &statuses);
		if (round % 8 == 0)
			compare_with_scratch(texts, views);
	}
	follow(cluster, views);
	compare_with_scratch(texts, views);
	for (size_t i = 0; i < CELLS; i++) {
		auto_free char *source = xasprintf("%zu-%zu", i % SOURCES, i);

		cluster_replace(cluster, source, NULL);
		free(texts[i]);
	}
	follow(cluster, views);
	for (size_t i = 0; i < VIEWS; i++)
		assert_null(views[i]);
	follow_statuses(cluster, &statuses);
	for (size_t i = 0; i < STATUSES; i++)
		free(statuses.told[i]);
	assert_int_equal(cluster_count(cluster, KUBE_POD), 0);
	cluster_free(&cluster);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_sequence_equals_a_join_from_scratch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
