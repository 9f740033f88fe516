#include "model/service.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "model/view.h"

static const struct self self = {.node = "me", .site = "", .zone = "z"};

/* "3:node 1:zone 2:rest" of the service's only port, seen from node "me" in zone "z"; the number is
 * the address's last byte. */
static const char *
tiers(const char *policy, const char *endpoints)
{
	static const char *const words[] = {"node", "zone", "rest", "tunnel"};
	static char text[256];
	auto_free char *json = xasprintf("{\"ns\":\"n\",\"name\":\"w\",%s\"ports\":[{\"port\":80,"
					 "\"mode\":\"tcp\",\"endpoints\":[%s]}]}",
		policy, endpoints);
	struct err err = {0};
	struct service *s;
	struct view *v;
	size_t at = 0;

	if (view_parse(&v, json, strlen(json), &err) < 0)
		fail_msg("%s: %s", json, err.text);
	s = service_build(v, &self, 1, 1);
	view_free(&v);
	text[0] = '\0';
	for (size_t i = 0; i < s->ports[0].n_endpoints; i++) {
		const struct endpoint *e = &s->ports[0].endpoints[i];

		at += (size_t)snprintf(text + at, sizeof text - at, "%s%u:%s", at > 0 ? " " : "",
			e->ip.s6_addr[15], words[e->tier]);
	}
	if (s->ports[0].n_unreachable > 0)
		snprintf(text + at, sizeof text - at, "+%u", s->ports[0].n_unreachable);
	service_unref(&s);
	return text;
}

/* An endpoint that anyone can dial: 3 ready, 6 serving and terminating, 0 neither. */
#define E(ip, node, zone, flags, rest)                                                             \
	"{\"node\":\"" node "\",\"zone\":\"" zone "\",\"flags\":" flags rest                       \
	",\"givenIP\":\"10.0.0." ip "\",\"givenPort\":1}"
#define ZONES(names) ",\"hintZones\":[" names "]"
#define NODES(names) ",\"hintNodes\":[" names "]"
#define NEXT ","
#define SAME_NODE "\"distribution\":\"node\","
#define SAME_ZONE "\"distribution\":\"zone\","
#define LOCAL "\"localOnly\":true,"

static void
without_a_wish_all_are_alike(void **state)
{
	(void)state;
	assert_string_equal(tiers("", E("1", "a", "y", "3", "") NEXT E("2", "me", "z", "3", "")),
		"1:rest 2:rest");
	assert_string_equal(tiers("", ""), "");
}

/* kube-proxy's CategorizeEndpoints, where it filters: here those that pass come first. */
static void
zone_hints(void **state)
{
	(void)state;
	assert_string_equal(
		tiers("",
			E("1", "a", "y", "3", ZONES("\"y\"")) NEXT E("2", "b", "z", "3",
				ZONES("\"z\"")) NEXT E("3", "c", "x", "3", ZONES("\"x\",\"z\""))),
		"2:zone 3:zone 1:rest");
	/* One ready endpoint without hints: nobody's count. */
	assert_string_equal(
		tiers("", E("1", "a", "y", "3", ZONES("\"z\"")) NEXT E("2", "b", "z", "3", "")),
		"1:rest 2:rest");
	/* One that is not ready may lack them. */
	assert_string_equal(tiers("",
				    E("1", "a", "y", "3", ZONES("\"y\"")) NEXT E("2", "b", "z", "3",
					    ZONES("\"z\"")) NEXT E("3", "b", "z", "0", "")),
		"2:zone 1:rest");
	/* None for our zone, or only one that is not ready. */
	assert_string_equal(tiers("", E("1", "a", "y", "3", ZONES("\"y\""))), "1:rest");
	assert_string_equal(tiers("",
				    E("1", "a", "y", "3", ZONES("\"y\""))
					    NEXT E("2", "b", "z", "0", ZONES("\"z\""))),
		"1:rest");
	/* What hints say goes before where an endpoint is. */
	assert_string_equal(tiers(SAME_ZONE,
				    E("1", "a", "z", "3", ZONES("\"y\""))
					    NEXT E("2", "b", "y", "3", ZONES("\"z\""))),
		"2:zone 1:rest");
}

static void
node_hints(void **state)
{
	(void)state;
	assert_string_equal(tiers("",
				    E("1", "a", "z", "3", NODES("\"a\""))
					    NEXT E("2", "me", "z", "3", NODES("\"me\""))),
		"2:node 1:rest");
	/* Both kinds: node, zone, rest. */
	assert_string_equal(
		tiers("",
			E("1", "a", "y", "3", NODES("\"a\"") ZONES("\"y\""))
				NEXT E("2", "b", "z", "3", NODES("\"b\"") ZONES("\"z\"")) NEXT E(
					"3", "me", "z", "3", NODES("\"me\"") ZONES("\"z\""))),
		"3:node 2:zone 1:rest");
	/* None for this node: the zone's count. */
	assert_string_equal(tiers("",
				    E("1", "a", "y", "3", NODES("\"a\"") ZONES("\"y\"")) NEXT E(
					    "2", "b", "z", "3", NODES("\"b\"") ZONES("\"z\""))),
		"2:zone 1:rest");
	/* Not every ready one has node hints. */
	assert_string_equal(tiers("",
				    E("1", "a", "y", "3", ZONES("\"y\"")) NEXT E(
					    "2", "me", "z", "3", NODES("\"me\"") ZONES("\"z\""))),
		"2:zone 1:rest");
}

static void
distribution_without_hints(void **state)
{
	static const char three[] = E("1", "a", "y", "3", "") NEXT E("2", "b", "z", "3", "")
		NEXT E("3", "me", "z", "3", "") NEXT E("4", "c", "", "3", "");

	(void)state;
	assert_string_equal(tiers(SAME_ZONE, three), "2:zone 3:zone 1:rest 4:rest");
	assert_string_equal(tiers(SAME_NODE, three), "3:node 2:zone 1:rest 4:rest");
	assert_string_equal(
		tiers("\"distribution\":\"of-the-future\",", three), "1:rest 2:rest 3:rest 4:rest");
	/* Hints that do not count leave the wish. */
	assert_string_equal(
		tiers(SAME_NODE,
			E("1", "a", "y", "3", NODES("\"a\"")) NEXT E("2", "me", "z", "3", "")),
		"2:node 1:rest");
}

static void
leaving_ones_have_tiers_too(void **state)
{
	(void)state;
	assert_string_equal(tiers(SAME_ZONE,
				    E("1", "a", "y", "6", "") NEXT E("2", "b", "z", "6", "")
					    NEXT E("3", "b", "z", "0", "")),
		"2:zone 1:rest");
	assert_string_equal(
		tiers(SAME_ZONE, E("1", "a", "y", "3", "") NEXT E("2", "b", "z", "6", "")),
		"1:rest");
}

static void
local_traffic_stays(void **state)
{
	(void)state;
	assert_string_equal(tiers(LOCAL,
				    E("1", "a", "z", "3", "") NEXT E("2", "me", "z", "3", "")
					    NEXT E("3", "me", "z", "6", "")),
		"2:rest");
	/* None ready here: one that leaves, although others are ready elsewhere. */
	assert_string_equal(
		tiers(LOCAL, E("1", "a", "z", "3", "") NEXT E("3", "me", "z", "6", "")), "3:rest");
	assert_string_equal(
		tiers(LOCAL, E("1", "a", "z", "3", "") NEXT E("3", "me", "z", "0", "")), "");
	assert_string_equal(tiers(LOCAL, E("1", "", "z", "3", "")), "");
	/* Those of others do not count as out of reach. */
	assert_string_equal(
		tiers(LOCAL, "{\"node\":\"a\",\"flags\":3,\"podIP\":\"10.0.0.1\",\"podPort\":1}"),
		"");
	assert_string_equal(
		tiers("", "{\"node\":\"a\",\"flags\":3,\"podIP\":\"10.0.0.1\",\"podPort\":1}"),
		"+1");
	/* Topology does not bear on local endpoints. */
	assert_string_equal(tiers(LOCAL,
				    E("2", "me", "z", "3", ZONES("\"y\""))
					    NEXT E("1", "a", "z", "3", ZONES("\"z\""))),
		"2:rest");
}

static void
without_a_zone_of_ours_no_zone_is_near(void **state)
{
	static const struct self nowhere = {.node = "me", .site = "", .zone = ""};
	static const char json[] = "{\"ns\":\"n\",\"name\":\"w\"," SAME_ZONE
				   "\"ports\":[{\"port\":80,\"mode\":\"tcp\","
				   "\"endpoints\":[" E("1", "a", "", "3", "") "]}]}";
	struct service *s;
	struct view *v;

	(void)state;
	assert_int_equal(view_parse(&v, json, strlen(json), NULL), 0);
	s = service_build(v, &nowhere, 1, 1);
	assert_int_equal(s->ports[0].endpoints[0].tier, TIER_REST);
	service_unref(&s);
	view_free(&v);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_wish_all_are_alike),
		cmocka_unit_test(zone_hints),
		cmocka_unit_test(node_hints),
		cmocka_unit_test(distribution_without_hints),
		cmocka_unit_test(leaving_ones_have_tiers_too),
		cmocka_unit_test(local_traffic_stays),
		cmocka_unit_test(without_a_zone_of_ours_no_zone_is_near),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
