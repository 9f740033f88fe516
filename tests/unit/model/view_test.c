#include "model/view.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/core/hash.h"

static const char canonical[] =
	"{\"ns\":\"default\",\"name\":\"web\",\"clusterIP\":\"10.96.0.10\",\"policy\":\"round-"
	"robin\","
	"\"affinity\":10800,\"ports\":[{\"name\":\"http\",\"port\":80,\"mode\":\"http\","
	"\"endpoints\":["
	"{\"node\":\"edge-1\",\"pod\":\"web-0\",\"flags\":3,\"podIP\":\"172.17.0.5\",\"podPort\":"
	"8080,"
	"\"hostIP\":\"192.0.2.7\",\"hostPort\":30080},"
	"{\"node\":\"edge-2\",\"site\":\"b\",\"zone\":\"z\",\"public\":true,\"pod\":\"web-1\","
	"\"hostname\":\"h\",\"flags\":6,\"publicIP\":\"198.51.100.1\"},"
	"{\"node\":\"edge-3\",\"flags\":0,\"givenIP\":\"2001:db8::1\",\"givenPort\":1}]},"
	"{\"port\":80,\"mode\":\"udp\",\"endpoints\":[]}]}";

static const char later[] =
	"{\"ns\":\"n\",\"name\":\"w\",\"hashOn\":\"query:a\",\"datapath\":\"xdp\",\"encrypt\":"
	"\"more\","
	"\"distribution\":\"x\",\"ports\":[{\"port\":1,\"mode\":\"tcp\",\"endpoints\":["
	"{\"hintZones\":[\"b\",\"a\",\"b\"]}]}]}";

static void
canonical_bytes_survive(void **state)
{
	struct view *v;
	struct err err = {0};
	auto_buf struct buf out;
	uint64_t digest;

	(void)state;
	buf_init(&out, BUF_UNLIMITED);
	buf_adds(&out, "before");
	assert_int_equal(view_parse(&v, canonical, strlen(canonical), &err), 0);
	digest = view_build(&out, v);
	assert_string_equal(buf_str(&out) + 6, canonical);
	assert_true(digest == hash64(canonical, strlen(canonical), 0));
	assert_true(digest == view_digest(canonical, strlen(canonical)));
	assert_string_equal(v->external_name, "");
	assert_string_equal(v->ports[0].endpoints[2].node, "edge-3");
	assert_string_equal(v->ports[0].endpoints[2].pod_ip, "");
	assert_int_equal(v->lb.policy, LB_ROUND_ROBIN);
	view_free(&v);
	assert_null(v);
}

/* Said, denied, and not said at all, as by a hub that knows nothing of it. */
static void
whose_network_survives(void **state)
{
	static const char json[] =
		"{\"ns\":\"n\",\"name\":\"w\",\"ports\":[{\"port\":1,\"mode\":\"tcp\","
		"\"endpoints\":["
		"{\"node\":\"a\",\"flags\":3,\"hostIP\":\"192.0.2.7\",\"hostPort\":1,"
		"\"hostNetwork\":true},"
		"{\"node\":\"b\",\"flags\":3,\"hostIP\":\"192.0.2.8\",\"hostPort\":1,"
		"\"hostNetwork\":false},"
		"{\"node\":\"c\",\"flags\":3,\"hostIP\":\"192.0.2.9\",\"hostPort\":1}]}]}";
	auto_buf struct buf out;
	struct view *v;

	(void)state;
	buf_init(&out, BUF_UNLIMITED);
	assert_int_equal(view_parse(&v, json, strlen(json), NULL), 0);
	view_build(&out, v);
	assert_string_equal(buf_str(&out), json);
	assert_int_equal(v->ports[0].endpoints[0].network, NETWORK_HOST);
	assert_int_equal(v->ports[0].endpoints[1].network, NETWORK_POD);
	assert_int_equal(v->ports[0].endpoints[2].network, NETWORK_UNSAID);
	view_free(&v);
}

/* Both families of a dual-stack Service, and the same without one of them. */
static void
both_families_survive(void **state)
{
	static const char json[] =
		"{\"ns\":\"n\",\"name\":\"w\",\"clusterIP\":\"10.96.0.10\",\"clusterIP6\":"
		"\"fd00::10\",\"ports\":[{\"port\":1,\"mode\":\"tcp\",\"endpoints\":["
		"{\"node\":\"a\",\"flags\":3,\"podIP\":\"10.0.0.1\",\"otherPodIP\":\"fd01::1\","
		"\"podPort\":1,\"hostIP\":\"192.0.2.7\",\"otherHostIP\":\"fd02::7\",\"hostPort\":1,"
		"\"publicIP\":\"198.51.100.1\",\"otherPublicIP\":\"2001:db8::1\"},"
		"{\"node\":\"b\",\"flags\":3,\"givenIP\":\"fd01::2\",\"otherGivenIP\":"
		"\"10.0.0.2\",\"givenPort\":1}]}]}";
	auto_buf struct buf out;
	struct view *v;

	(void)state;
	buf_init(&out, BUF_UNLIMITED);
	assert_int_equal(view_parse(&v, json, strlen(json), NULL), 0);
	assert_true(view_build(&out, v) == view_digest(json, strlen(json)));
	assert_string_equal(buf_str(&out), json);
	assert_string_equal(v->ports[0].endpoints[0].other_public_ip, "2001:db8::1");
	view_free(&v);
}

static void
calls_from_outside_survive(void **state)
{
	static const char json[] =
		"{\"ns\":\"n\",\"name\":\"w\",\"externalIPs\":[\"198.51.100.7\",\"2001:db8::1\"],"
		"\"externalLocal\":true,\"healthPort\":31900,\"gateway\":true,\"ports\":[{\"port\":"
		"80,\"mode\":\"tcp\","
		"\"nodePort\":30080,\"endpoints\":[]}]}";
	static const char bad[] =
		"{\"ns\":\"n\",\"name\":\"w\",\"externalIPs\":[\"x\"],\"ports\":[]}";
	auto_buf struct buf out;
	struct view *v;

	(void)state;
	buf_init(&out, BUF_UNLIMITED);
	assert_int_equal(view_parse(&v, json, strlen(json), NULL), 0);
	assert_true(view_build(&out, v) == view_digest(json, strlen(json)));
	assert_string_equal(buf_str(&out), json);
	view_free(&v);
	assert_true(view_parse(&v, bad, strlen(bad), NULL) < 0);
}

/* 0 is said: no limit, to agents of before as well, which had none by default. */
static void
no_limit_is_said(void **state)
{
	static const char json[] = "{\"ns\":\"n\",\"name\":\"w\",\"requestMs\":0,\"ports\":[]}";
	auto_buf struct buf out;
	struct view *v;

	(void)state;
	buf_init(&out, BUF_UNLIMITED);
	assert_int_equal(view_parse(&v, json, strlen(json), NULL), 0);
	assert_int_equal(v->lb.request_ms, 0);
	view_build(&out, v);
	assert_string_equal(buf_str(&out), json);
	view_free(&v);
}

static void
policy_and_hints_survive(void **state)
{
	static const char json[] =
		"{\"ns\":\"n\",\"name\":\"w\",\"policy\":\"consistent-hash\",\"affinity\":60,"
		"\"hashOn\":\"header:X-User\",\"retries\":0,\"connectMs\":250,\"requestMs\":3000,"
		"\"idleMs\":120000,\"maxConnections\":64,\"healthPath\":\"/"
		"ok?a=1\",\"healthMs\":5000,"
		"\"slowStartMs\":30000,\"hashBalance\":125,\"outlier5xx\":5,\"outlierMs\":30000,"
		"\"retryOn\":\"502,503\",\"datapath\":\"kernel\",\"encrypt\":\"site\","
		"\"localOnly\":"
		"true,\"distribution\":\"zone\",\"ports\":["
		"{\"port\":80,\"mode\":\"tcp\",\"endpoints\":[{\"flags\":3,\"hintZones\":[\"a\","
		"\"b\"],"
		"\"hintNodes\":[\"edge-1\"]}]}]}";
	struct view *v;
	struct err err = {0};
	auto_buf struct buf out;

	(void)state;
	buf_init(&out, BUF_UNLIMITED);
	if (view_parse(&v, json, strlen(json), &err) < 0)
		fail_msg("%s", err.text);
	view_build(&out, v);
	assert_string_equal(buf_str(&out), json);
	assert_int_equal(v->lb.hash_on, HASH_ON_HEADER);
	assert_string_equal(v->hash_key, "X-User");
	assert_int_equal(v->lb.retries, 0);
	assert_int_equal(v->lb.idle_ms, 120000);
	assert_int_equal(v->lb.datapath, DATAPATH_KERNEL);
	assert_int_equal(v->lb.encrypt, ENCRYPT_SITE);
	assert_int_equal(v->distribution, DISTRIBUTE_ZONE);
	view_free(&v);
	/* Absent is the default; words of a later version are, too. */
	assert_int_equal(view_parse(&v, later, strlen(later), NULL), 0);
	assert_int_equal(v->lb.retries, RETRIES_DEFAULT);
	assert_int_equal(v->lb.request_ms, REQUEST_MS_DEFAULT);
	assert_int_equal(v->lb.hash_on, HASH_ON_SOURCE_IP);
	assert_int_equal(v->lb.datapath, DATAPATH_DEFAULT);
	assert_int_equal(v->lb.encrypt, ENCRYPT_ALWAYS); /* but it asked for more than none */
	assert_int_equal(v->distribution, DISTRIBUTE_ALL);
	assert_string_equal(v->health_path, "");
	assert_int_equal(v->ports[0].endpoints[0].hint_zones.n, 2);
	assert_string_equal(v->ports[0].endpoints[0].hint_zones.list[0], "a");
	view_free(&v);
}

static void
order_does_not_matter(void **state)
{
	static const char other[] =
		"{\"ports\":[{\"mode\":\"tcp\",\"port\":443},{\"endpoints\":[{\"pod\":\"b\","
		"\"flags\":1},"
		"{\"flags\":3,\"pod\":\"a\",\"new-member\":{}}],\"mode\":\"tcp\",\"port\":80}],"
		"\"name\":\"w\",\"ns\":\"n\",\"policy\":\"of-the-future\",\"headless\":true}";
	struct view *v;
	struct err err = {0};
	auto_buf struct buf out;

	(void)state;
	buf_init(&out, BUF_UNLIMITED);
	assert_int_equal(view_parse(&v, other, strlen(other), &err), 0);
	view_build(&out, v);
	assert_string_equal(buf_str(&out),
		"{\"ns\":\"n\",\"name\":\"w\",\"headless\":true,\"ports\":[{\"port\":80,\"mode\":"
		"\"tcp\","
		"\"endpoints\":[{\"pod\":\"a\",\"flags\":3},{\"pod\":\"b\",\"flags\":1}]},"
		"{\"port\":443,\"mode\":\"tcp\",\"endpoints\":[]}]}");
	view_free(&v);
}

static void
refuses_with_a_reason(void **state)
{
	static const struct {
		const char *text, *reason;
	} cases[] = {
		{"{\"ns\":\"n\"}", "no name"},
		{"{\"ns\":\"N\",\"name\":\"w\"}", "ns: 'N'"},
		{"{\"ns\":\"n\",\"name\":\"a.b.c\"}", "name: 'a.b.c'"},
		{"{\"ns\":\"n\",\"name\":\"a.\"}", "name: 'a.'"},
		{"{\"ns\":\"n.m\",\"name\":\"a\"}", "ns: 'n.m'"},
		{"{\"ns\":\"n\",\"name\":\"w\",\"clusterIP\":\"10.0.0\"}", "clusterIP"},
		{"{\"ns\":\"n\",\"name\":\"w\",\"clusterIP\":\"0.0.0.0\"}", "clusterIP"},
		{"{\"ns\":\"n\",\"name\":\"w\",\"affinity\":86401}", "greater than"},
		{"{\"ns\":\"n\",\"name\":\"w\",\"retries\":11}", "greater than"},
		{"{\"ns\":\"n\",\"name\":\"w\",\"idleMs\":86400001}", "greater than"},
		{"{\"ns\":\"n\",\"name\":\"w\",\"maxConnections\":1000001}", "greater than"},
		{"{\"ns\":\"n\",\"name\":\"w\",\"healthPath\":\"ok\"}", "healthPath"},
		{"{\"ns\":\"n\",\"name\":\"w\",\"healthPath\":\"/a b\"}", "healthPath"},
		{"{\"ns\":\"n\",\"name\":\"w\",\"hashOn\":1}", "hashOn"},
		{"{\"ns\":\"n\",\"name\":\"w\",\"ports\":[{\"port\":1,\"mode\":\"tcp\","
		 "\"endpoints\":[{\"hintZones\":[\"a\",\"b\",\"c\",\"d\",\"e\",\"f\",\"g\",\"h\","
		 "\"i\"]}]}]}",
			"more than 8"},
		{"{\"ns\":\"n\",\"name\":\"w\",\"ports\":[{\"port\":1,\"mode\":\"tcp\","
		 "\"endpoints\":[{\"hintNodes\":[\"\"]}]}]}",
			"is no name"},
		{"{\"ns\":\"n\",\"name\":\"w\",\"ports\":[{\"mode\":\"tcp\"}]}",
			"view: ports: port without number"},
		{"{\"ns\":\"n\",\"name\":\"w\",\"ports\":[{\"port\":1}]}",
			"without number or mode"},
		{"{\"ns\":\"n\",\"name\":\"w\",\"ports\":[{\"port\":65536,\"mode\":\"tcp\"}]}",
			"greater"},
		{"{\"ns\":\"n\",\"name\":\"w\",\"ports\":[{\"port\":1,\"mode\":\"sctp\"}]}",
			"sctp"},
		{"{\"ns\":\"n\",\"name\":\"w\",\"ports\":[{\"port\":1,\"mode\":\"tcp\"},"
		 "{\"port\":1,\"mode\":\"http\"}]}",
			"port 1 twice"},
		{"{\"ns\":\"n\",\"name\":\"w\",\"ports\":[{\"port\":1,\"mode\":\"tcp\","
		 "\"endpoints\":["
		 "{\"podIP\":\"x\"}]}]}",
			"podIP"},
		{"{\"ns\":\"n\",\"name\":\"w\",\"ports\":[{\"port\":1,\"mode\":\"tcp\","
		 "\"endpoints\":["
		 "{\"flags\":8}]}]}",
			"greater"},
		{"{\"ns\":\"n\",\"name\":\"w\",\"ports\":[{\"port\":1,\"mode\":\"tcp\","
		 "\"endpoints\":["
		 "{\"site\":\"a b\"}]}]}",
			"site"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct view *v;
		struct err err = {0};

		assert_int_equal(
			view_parse(&v, cases[i].text, strlen(cases[i].text), &err), -EBADMSG);
		assert_null(v);
		if (strstr(err.text, cases[i].reason) == NULL)
			fail_msg("%s: '%s' does not say '%s'", cases[i].text, err.text,
				cases[i].reason);
	}
}

static int
parse_many(const char *open, const char *item, size_t n, const char *close)
{
	auto_buf struct buf text;
	struct err err = {0};
	struct view *v;
	int rc;

	buf_init(&text, BUF_UNLIMITED);
	buf_adds(&text, open);
	for (size_t i = 0; i < n; i++)
		buf_printf(&text, "%s%s", i == 0 ? "" : ",", item);
	buf_adds(&text, close);
	rc = view_parse(&v, buf_at(&text), buf_len(&text), &err);
	view_free(&v);
	return rc;
}

static void
endpoints_are_bounded(void **state)
{
	static const char open[] =
		"{\"ns\":\"n\",\"name\":\"w\",\"ports\":[{\"port\":1,\"mode\":\"tcp\","
		"\"endpoints\":[";

	(void)state;
	assert_int_equal(parse_many(open, "{}", 5000, "]}]}"), 0);
	assert_int_equal(parse_many(open, "{}", 5001, "]}]}"), -EBADMSG);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(canonical_bytes_survive),
		cmocka_unit_test(policy_and_hints_survive),
		cmocka_unit_test(no_limit_is_said),
		cmocka_unit_test(whose_network_survives),
		cmocka_unit_test(both_families_survive),
		cmocka_unit_test(calls_from_outside_survive),
		cmocka_unit_test(order_does_not_matter),
		cmocka_unit_test(refuses_with_a_reason),
		cmocka_unit_test(endpoints_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
