/* Which addresses endpoints may have: the guard alone, services that are built with it, and those
 * that are looked at again. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "model/check.h"
#include "model/view.h"

static struct in6_addr
ip_of(const char *text)
{
	struct in6_addr ip;

	assert_true(ip_parse(text, &ip));
	return ip;
}

/* allowed, own: separated by blanks. */
static struct dial_guard *
guard_of(const char *allowed, const char *own)
{
	auto_free char *a = xstrdup(allowed), *o = xstrdup(own);
	const char *list[8] = {NULL};
	struct own_address addresses[8] = {0};
	struct dial_guard *bare, *g;
	struct address_list *l;
	size_t n = 0;
	char *save;

	for (char *at = strtok_r(a, " ", &save); at != NULL; at = strtok_r(NULL, " ", &save))
		list[n++] = at;
	assert_int_equal(dial_guard_new(list, &bare, NULL), 0);
	n = 0;
	for (char *at = strtok_r(o, " ", &save); at != NULL; at = strtok_r(NULL, " ", &save))
		addresses[n++].ip = ip_of(at);
	l = address_list_new(addresses, n);
	g = dial_guard_with(bare, l);
	address_list_unref(&l);
	dial_guard_unref(&bare);
	return g;
}

static void
test_table(void **state)
{
	static const struct {
		const char *allowed, *own, *ip;
		bool host_network;
		enum special_addr class;
	} rows[] = {
		{"", "", "10.0.0.1", false, SPECIAL_NONE},
		{"", "", "127.0.0.1", false, SPECIAL_LOOPBACK},
		{"", "", "127.0.0.1", true, SPECIAL_LOOPBACK},
		{"", "", "169.254.169.254", true, SPECIAL_METADATA},
		{"", "", "64:ff9b::a9fe:a9fe", false, SPECIAL_METADATA},
		{"", "10.0.0.1", "10.0.0.1", false, SPECIAL_OWN},
		{"", "10.0.0.1", "10.0.0.1", true, SPECIAL_NONE},
		{"", "10.0.0.1", "10.0.0.2", false, SPECIAL_NONE},
		{"", "10.0.0.1", "::10.0.0.1", false, SPECIAL_OWN},
		{"", "2001:db8::1 10.0.0.1", "2001:db8::1", false, SPECIAL_OWN},
		{"10.0.0.1", "10.0.0.1", "10.0.0.1", false, SPECIAL_NONE},
		{"10.0.0.0/31", "10.0.0.1 10.0.0.2", "10.0.0.1", false, SPECIAL_NONE},
		{"10.0.0.0/31", "10.0.0.1 10.0.0.2", "10.0.0.2", false, SPECIAL_OWN},
		{"127.0.0.1", "", "127.0.0.1", false, SPECIAL_NONE},
		{"127.0.0.1", "", "127.0.0.2", false, SPECIAL_LOOPBACK},
		{"127.0.0.1", "", "2002:7f00:1::", false, SPECIAL_NONE},
		{"169.254.20.0/24", "", "169.254.20.10", false, SPECIAL_NONE},
		{"169.254.20.0/24", "", "169.254.169.254", false, SPECIAL_METADATA},
		{"fe80::/10 ::1", "", "fe80::1", false, SPECIAL_NONE},
		{"fe80::/10 ::1", "", "::1", false, SPECIAL_NONE},
		{"0.0.0.0/0", "", "100.100.100.200", false, SPECIAL_NONE},
		{"0.0.0.0/0", "", "fe80::1", false, SPECIAL_LINK_LOCAL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct dial_guard *g = guard_of(rows[i].allowed, rows[i].own);
		const struct in6_addr ip = ip_of(rows[i].ip);

		if (dial_guard_check(g, &ip, rows[i].host_network) != rows[i].class)
			fail_msg("row %zu: %s is \"%s\"", i, rows[i].ip,
				special_addr_text(dial_guard_check(g, &ip, rows[i].host_network)));
		dial_guard_unref(&g);
	}
}

static void
test_without_guard(void **state)
{
	const struct in6_addr plain = ip_of("10.0.0.1"), loopback = ip_of("127.0.0.1");

	(void)state;
	assert_int_equal(dial_guard_check(NULL, &plain, false), SPECIAL_NONE);
	assert_int_equal(dial_guard_check(NULL, &loopback, false), SPECIAL_LOOPBACK);
}

static void
test_bad_lists(void **state)
{
	static const char *const bad[] = {"", "localhost", "10.0.0.1/33", "10.0.0.1/",
		"10.0.0.1:80", "::1/129", "10.0.0.0/8/8", "10.0.0.0/-1", "10.0.0.0/x", "/8", "*"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		const char *const list[] = {bad[i], NULL};
		struct dial_guard *g;
		struct err err = {0};

		if (dial_guard_new(list, &g, &err) != -EINVAL)
			fail_msg("\"%s\" was taken", bad[i]);
		assert_non_null(strstr(err.text, bad[i]));
	}
}

/* --- services ------------------------------------------------------------------------------- */

static struct service *
build(const char *endpoints, const struct dial_guard *g)
{
	const struct self self = {
		.node = "me", .site = "", .zone = "", .forward = true, .guard = g};
	auto_free char *json = xasprintf(
		"{\"ns\":\"n\",\"name\":\"w\",\"clusterIP\":\"127.0.0.9\",\"externalLocal\":true,"
		"\"ports\":[{\"port\":80,\"mode\":\"tcp\",\"endpoints\":[%s]}]}",
		endpoints);
	struct err err = {0};
	struct service *s;
	struct view *v;

	if (view_parse(&v, json, strlen(json), &err) < 0)
		fail_msg("%s", err.text);
	s = service_build(v, &self, 1, 2);
	view_free(&v);
	return s;
}

static const char *
told(const struct service *s)
{
	static const char *const via[] = {"pod", "host", "given", "tunnel"};
	static char text[512];
	const struct service_port *p = &s->ports[0];
	char to[ADDR_TEXT_MAX];
	size_t at = 0, most = service_port_most(p, true);

	text[0] = '\0';
	for (size_t i = 0; i < most + p->n_refused; i++) {
		const struct endpoint *e = &p->endpoints[i];
		bool refused = i >= most;

		assert_true((e->via == VIA_REFUSED) == refused);
		at += (size_t)snprintf(text + at, sizeof text - at, "%s%s %s", at > 0 ? ", " : "",
			refused ? special_addr_name((enum special_addr)e->tier) : via[e->via],
			endpoint_text(e, to));
	}
	return text;
}

#define GIVEN(ip) "{\"flags\":3,\"givenIP\":\"" ip "\",\"givenPort\":80}"
#define POD(node, ip, host, port, rest)                                                            \
	"{\"node\":\"" node "\",\"pod\":\"p\",\"flags\":3,\"podIP\":\"" ip                         \
	"\",\"podPort\":80,\"hostIP\":\"" host "\",\"hostPort\":" port rest "}"

/* What somebody may write into a Pod, a slice or a message, and what a node whose address is
 * 192.0.2.1 makes of it. */
static const struct {
	const char *endpoints, *told;
} services[] = {
	{GIVEN("169.254.169.254"), "metadata 169.254.169.254:80"},
	{GIVEN("100.100.100.200"), "metadata 100.100.100.200:80"},
	{GIVEN("127.0.0.1"), "loopback 127.0.0.1:80"},
	{GIVEN("::ffff:127.0.0.1"), "loopback 127.0.0.1:80"},
	{GIVEN("fe80::1"), "link_local [fe80::1]:80"},
	{GIVEN("0.1.2.3"), "unspecified 0.1.2.3:80"},
	{GIVEN("224.0.0.251"), "multicast 224.0.0.251:80"},
	{GIVEN("255.255.255.255"), "reserved 255.255.255.255:80"},
	{GIVEN("192.0.2.1"), "own 192.0.2.1:80"},
	{GIVEN("192.0.2.2"), "given 192.0.2.2:80"},
	/* The others serve on, in their order. */
	{GIVEN("10.0.0.1") "," GIVEN("127.0.0.1") "," GIVEN("10.0.0.2"),
		"given 10.0.0.1:80, given 10.0.0.2:80, loopback 127.0.0.1:80"},
	/* Ready and leaving at once: each is told once. */
	{"{\"flags\":7,\"givenIP\":\"127.0.0.1\",\"givenPort\":80},"
	 "{\"flags\":7,\"givenIP\":\"127.0.0.2\",\"givenPort\":80}",
		"loopback 127.0.0.1:80, loopback 127.0.0.2:80"},
	/* A pod's hostPort.hostIP, or status.hostIP: another way is taken where there is one. */
	{POD("you", "172.17.0.5", "169.254.169.254", "80", ""), "tunnel 172.17.0.5:80"},
	{POD("you", "172.17.0.5", "192.0.2.1", "80", ""), "tunnel 172.17.0.5:80"},
	{POD("you", "169.254.169.254", "169.254.169.254", "80", ""), "metadata 169.254.169.254:80"},
	{POD("you", "172.17.0.5", "192.0.2.2", "80", ""), "host 192.0.2.2:80"},
	/* The own pod. */
	{POD("me", "172.17.0.5", "192.0.2.1", "8080", ""), "pod 172.17.0.5:80"},
	{POD("me", "169.254.169.254", "127.0.0.1", "80", ""), "metadata 169.254.169.254:80"},
	/* hostNetwork: said, denied, and not said by an old hub. */
	{POD("me", "192.0.2.1", "192.0.2.1", "80", ",\"hostNetwork\":true"), "pod 192.0.2.1:80"},
	{POD("me", "192.0.2.1", "192.0.2.1", "80", ",\"hostNetwork\":false"), "own 192.0.2.1:80"},
	{POD("me", "192.0.2.1", "192.0.2.1", "80", ""), "pod 192.0.2.1:80"},
	{POD("me", "192.0.2.1", "192.0.2.1", "22", ""), "own 192.0.2.1:80"},
	{POD("me", "127.0.0.1", "127.0.0.1", "80", ",\"hostNetwork\":true"),
		"loopback 127.0.0.1:80"},
	/* Of another node it says nothing about ours. */
	{POD("you", "192.0.2.1", "192.0.2.1", "80", ",\"hostNetwork\":true"),
		"tunnel 192.0.2.1:80"},
	/* Without a pod nothing is one. */
	{"{\"node\":\"me\",\"flags\":3,\"givenIP\":\"192.0.2.1\",\"givenPort\":80,\"hostNetwork\":"
	 "true}",
		"own 192.0.2.1:80"},
};

static void
test_services(void **state)
{
	struct dial_guard *g = guard_of("", "192.0.2.1 172.17.0.1");

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(services); i++) {
		struct service *s = build(services[i].endpoints, g);

		if (strcmp(told(s), services[i].told) != 0)
			fail_msg("row %zu: \"%s\", not \"%s\"", i, told(s), services[i].told);
		assert_int_equal(s->cluster_ip, 0); /* 127.0.0.9 is nobody's to give away */
		service_unref(&s);
	}
	dial_guard_unref(&g);
}

static void
test_exceptions(void **state)
{
	struct dial_guard *g = guard_of("127.0.0.1 192.0.2.1", "192.0.2.1");
	struct service *s =
		build(GIVEN("127.0.0.1") "," GIVEN("192.0.2.1") "," GIVEN("127.0.0.2"), g);

	(void)state;
	assert_string_equal(
		told(s), "given 127.0.0.1:80, given 192.0.2.1:80, loopback 127.0.0.2:80");
	service_unref(&s);
	dial_guard_unref(&g);
}

/* An address becomes our own, and is not any more. */
static void
test_recheck(void **state)
{
	static const char endpoints[] = GIVEN("10.0.0.1") "," GIVEN("10.0.0.2") "," GIVEN(
		"127.0.0.1") "," POD("me", "10.0.0.2", "10.0.0.2", "80", ",\"hostNetwork\":true");
	struct dial_guard *before = guard_of("", "192.0.2.1"),
			  *after = guard_of("", "192.0.2.1 10.0.0.2");
	struct service *s = build(endpoints, before), *next;

	(void)state;
	assert_string_equal(told(s),
		"given 10.0.0.1:80, given 10.0.0.2:80, pod 10.0.0.2:80, loopback 127.0.0.1:80");
	assert_null(service_recheck(s, before));
	next = service_recheck(s, after);
	assert_non_null(next);
	assert_string_equal(told(next),
		"given 10.0.0.1:80, pod 10.0.0.2:80, own 10.0.0.2:80, loopback 127.0.0.1:80");
	assert_string_equal(next->name, s->name);
	assert_int_equal(next->digest, s->digest);
	assert_int_equal(next->fake_ip, s->fake_ip);
	assert_string_equal(next->ports[0].endpoints[1].node, "me");
	assert_null(service_recheck(next, after));
	assert_false(service_refused_in_vain(next, after));
	assert_true(service_refused_in_vain(next, before));
	assert_false(service_refused_in_vain(s, before));
	service_unref(&s);
	assert_string_equal(next->namespace, "n"); /* it has texts of its own */
	service_unref(&next);
	dial_guard_unref(&before);
	dial_guard_unref(&after);
}

/* One that leaves and is for calls from outside alone stays that, or is refused. */
static void
test_recheck_a_leaving_one(void **state)
{
	static const char endpoints[] = GIVEN("10.0.0.1") "," GIVEN(
		"10.0.0.2") ","
			    "{\"node\":\"me\",\"flags\":6,"
			    "\"givenIP\":\"10.0.0.3\",\"givenPort\":80}";
	struct dial_guard *before = guard_of("", "192.0.2.1"), *ready = guard_of("", "10.0.0.1"),
			  *leaving = guard_of("", "10.0.0.3");
	struct service *s = build(endpoints, before), *next;

	(void)state;
	assert_string_equal(told(s), "given 10.0.0.1:80, given 10.0.0.2:80, given 10.0.0.3:80");
	assert_int_equal(s->ports[0].n_endpoints, 2);
	next = service_recheck(s, ready);
	assert_string_equal(told(next), "given 10.0.0.2:80, given 10.0.0.3:80, own 10.0.0.1:80");
	assert_int_equal(next->ports[0].n_endpoints, 1);
	service_unref(&next);
	next = service_recheck(s, leaving);
	assert_string_equal(told(next), "given 10.0.0.1:80, given 10.0.0.2:80, own 10.0.0.3:80");
	assert_int_equal(next->ports[0].n_endpoints, 2);
	service_unref(&next);
	service_unref(&s);
	dial_guard_unref(&before);
	dial_guard_unref(&ready);
	dial_guard_unref(&leaving);
}

/* Of two addresses one becomes our own: the other one stays. */
static void
test_recheck_one_of_two(void **state)
{
	static const char endpoints[] = "{\"flags\":3,\"givenIP\":\"10.0.0.1\",\"otherGivenIP\":"
					"\"fd01::1\",\"givenPort\":80}";
	struct dial_guard *before = guard_of("", "192.0.2.1"), *first = guard_of("", "10.0.0.1"),
			  *both = guard_of("", "10.0.0.1 fd01::1");
	struct service *s = build(endpoints, before), *next, *last;

	(void)state;
	assert_null(service_recheck(s, before));
	next = service_recheck(s, first);
	assert_string_equal(told(next), "given [fd01::1]:80");
	assert_true(IN6_IS_ADDR_UNSPECIFIED(&next->ports[0].endpoints[0].other));
	assert_true(service_refused_in_vain(next, before));
	assert_false(service_refused_in_vain(s, before));
	last = service_recheck(s, both);
	assert_string_equal(told(last), "own 10.0.0.1:80");
	service_unref(&s);
	service_unref(&next);
	service_unref(&last);
	last = build(endpoints, first);
	assert_string_equal(told(last), "given [fd01::1]:80");
	assert_true(service_refused_in_vain(last, before));
	service_unref(&last);
	dial_guard_unref(&before);
	dial_guard_unref(&first);
	dial_guard_unref(&both);
}

/* Whichever route that address was of, and whatever was refused before it. */
static void
test_an_own_address_of_an_earlier_route(void **state)
{
#define HOST(given)                                                                                \
	"{\"node\":\"far\",\"pod\":\"x\",\"flags\":3,\"givenIP\":\"127.0.0.1\"," given             \
	"\"givenPort\":80,\"hostIP\":\"192.0.2.7\",\"hostPort\":8080}"
	struct dial_guard *g = guard_of("", "10.0.0.1");
	struct service *s = build(HOST("\"otherGivenIP\":\"10.0.0.1\","), g);

	(void)state;
	assert_string_equal(told(s), "host 192.0.2.7:8080");
	assert_true(service_refused_in_vain(s, g));
	service_unref(&s);
	s = build(HOST(""), g);
	assert_string_equal(told(s), "host 192.0.2.7:8080");
	assert_false(service_refused_in_vain(s, g));
	service_unref(&s);
	dial_guard_unref(&g);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_without_guard),
		cmocka_unit_test(test_bad_lists),
		cmocka_unit_test(test_services),
		cmocka_unit_test(test_exceptions),
		cmocka_unit_test(test_recheck),
		cmocka_unit_test(test_recheck_a_leaving_one),
		cmocka_unit_test(test_recheck_one_of_two),
		cmocka_unit_test(test_an_own_address_of_an_earlier_route),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
