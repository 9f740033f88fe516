/* The status of a route: what is written, and when it is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "hub/kube/route_conditions.h"

enum { NOW_S = 1767225600 }; /* 2026-01-01T00:00:00Z */

#define T(text) ((char[]){text})

static struct kube_route_parent refs[] = {
	{.ns = T("n"), .name = T("a"), .section = T(""), .port = 80},
	{.ns = T("m"), .name = T("b"), .section = T("http"), .ns_given = true},
	{.ns = T("n"), .name = T("a"), .section = T(""), .port = 80},
};

static struct cluster_route_parent parents[] = {
	{.ref = &refs[0],
		.accepted = true,
		.resolved = true,
		.accepted_reason = "Accepted",
		.resolved_reason = "ResolvedRefs",
		.accepted_message = T("fine"),
		.resolved_message = T("all")},
	{.ref = &refs[1],
		.accepted = true,
		.resolved = false,
		.accepted_reason = "Accepted",
		.resolved_reason = "BackendNotFound",
		.accepted_message = T("fine"),
		.resolved_message = T("no \"x\""),
		.partly = T("Dropped Rule 1")},
	{.ref = &refs[2],
		.accepted = true,
		.resolved = true,
		.accepted_reason = "Accepted",
		.resolved_reason = "ResolvedRefs",
		.accepted_message = T("fine"),
		.resolved_message = T("all")},
};

#define CONDITION(type, status, reason, generation, since, message)                                \
	"{\"type\":\"" type "\",\"status\":\"" status "\",\"reason\":\"" reason                    \
	"\",\"observedGeneration\":" generation ",\"lastTransitionTime\":\"" since                 \
	"\",\"message\":\"" message "\"}"
#define ENTRY(ref, conditions)                                                                     \
	"{\"parentRef\":{\"group\":\"\",\"kind\":\"Service\"," ref                                 \
	"},\"controllerName\":\"edgeway.io/gateway-controller\",\"conditions\":[" conditions "]}"
#define FIRST(generation, since)                                                                   \
	ENTRY("\"name\":\"a\",\"port\":80",                                                        \
		CONDITION("Accepted", "True", "Accepted", generation, since,                       \
			"fine") "," CONDITION("ResolvedRefs", "True", "ResolvedRefs", generation,  \
			since, "all"))
#define SECOND(generation, since)                                                                  \
	ENTRY("\"namespace\":\"m\",\"name\":\"b\",\"sectionName\":\"http\"",                       \
		CONDITION("Accepted", "True", "Accepted", generation, since,                       \
			"fine") "," CONDITION("ResolvedRefs", "False", "BackendNotFound",          \
			generation, since, "no \\\"x\\\"") "," CONDITION("PartiallyInvalid",       \
			"True", "UnsupportedValue", generation, since, "Dropped Rule 1"))
#define NOW "2026-01-01T00:00:00Z"
#define OLD "2025-01-01T00:00:00Z"
#define OTHER "{\"controllerName\":\"other\"}"

/* What is to be written for an object of this kind with this status; "": nothing. */
static const char *
build_kind(enum kube_kind kind, const char *own, const char *others, size_t n)
{
	static struct buf out;
	const struct kube_route object = {.generation = 7,
		.status_own = (char *)(uintptr_t)own,
		.status_others = (char *)(uintptr_t)others};
	const struct cluster_route route = {
		.kind = kind, .route = &object, .n_parents = n, .parents = parents};

	buf_fini(&out);
	buf_init(&out, BUF_UNLIMITED);
	return route_conditions_build(&out, &route, NOW_S) ? buf_str(&out) : "";
}

static const char *
build(const char *own, const char *others, size_t n)
{
	return build_kind(KUBE_HTTPROUTE, own, others, n);
}

static void
the_first_time(void **state)
{
	(void)state;
	assert_string_equal(build("", "", 1), "[" FIRST("7", NOW) "]");
	/* The third parent is the first one once more. */
	assert_string_equal(
		build("", OTHER, 3), "[" OTHER "," FIRST("7", NOW) "," SECOND("7", NOW) "]");
}

static void
nothing_when_nothing_changes(void **state)
{
	(void)state;
	assert_string_equal(build(FIRST("7", OLD), "", 1), "");
	assert_string_equal(build(FIRST("7", OLD) "," SECOND("7", OLD), OTHER, 3), "");
	/* Order means nothing. */
	assert_string_equal(build(SECOND("7", OLD) "," FIRST("7", OLD), OTHER, 3), "");
}

static void
what_changes(void **state)
{
	static const struct {
		const char *own, *is;
	} rows[] = {
		/* a new generation: conditions stay as long as they were */
		{FIRST("6", OLD), "[" FIRST("7", OLD) "]"},
		/* a parent that is gone */
		{FIRST("7", OLD) "," SECOND("7", OLD), "[" FIRST("7", OLD) "]"},
		/* another parent in its place */
		{SECOND("7", OLD), "[" FIRST("7", NOW) "]"},
		/* the status of one condition */
		{ENTRY("\"name\":\"a\",\"port\":80",
			 CONDITION("Accepted", "False", "Pending", "7", OLD, "fine") "," CONDITION(
				 "ResolvedRefs", "True", "ResolvedRefs", "7", OLD, "all")),
			"[" ENTRY("\"name\":\"a\",\"port\":80",
				CONDITION("Accepted", "True", "Accepted", "7", NOW,
					"fine") "," CONDITION("ResolvedRefs", "True",
					"ResolvedRefs", "7", OLD, "all")) "]"},
		/* a message alone */
		{ENTRY("\"name\":\"a\",\"port\":80",
			 CONDITION("Accepted", "True", "Accepted", "7", OLD, "well") "," CONDITION(
				 "ResolvedRefs", "True", "ResolvedRefs", "7", OLD, "all")),
			"[" FIRST("7", OLD) "]"},
		/* a condition too many */
		{ENTRY("\"name\":\"a\",\"port\":80",
			 CONDITION("Accepted", "True", "Accepted", "7", OLD, "fine") "," CONDITION(
				 "ResolvedRefs", "True", "ResolvedRefs", "7", OLD,
				 "all") "," CONDITION("PartiallyInvalid", "True", "x", "7", OLD,
				 "y")),
			"[" FIRST("7", OLD) "]"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_string_equal(build(rows[i].own, "", 1), rows[i].is);
	assert_string_equal(build(FIRST("7", OLD), OTHER, 0), "[" OTHER "]");
	assert_string_equal(build("", OTHER, 0), "");
}

/* Of a policy the list is called ancestors, and has 16 members at most. */
static void
a_policy(void **state)
{
	static const char fourteen[] =
		OTHER "," OTHER "," OTHER "," OTHER "," OTHER "," OTHER "," OTHER "," OTHER
		      "," OTHER "," OTHER "," OTHER "," OTHER "," OTHER "," OTHER;
	const char *text = build_kind(KUBE_TLS_POLICY, "", fourteen, 2);

	(void)state;
	assert_non_null(strstr(
		text, "{\"ancestorRef\":{\"group\":\"\",\"kind\":\"Service\",\"name\":\"a\""));
	assert_non_null(strstr(text, "\"name\":\"b\""));
	text = build_kind(KUBE_TLS_POLICY, "",
		OTHER "," OTHER "," OTHER "," OTHER "," OTHER "," OTHER "," OTHER "," OTHER
		      "," OTHER "," OTHER "," OTHER "," OTHER "," OTHER "," OTHER "," OTHER,
		2);
	assert_non_null(strstr(text, "\"name\":\"a\""));
	assert_null(strstr(text, "\"name\":\"b\""));
}

/* What an author writes for a name stays text. */
static void
a_name_with_quotes(void **state)
{
	static const char ref[] =
		"\"ancestorRef\":{\"group\":\"\",\"kind\":\"Service\",\"namespace\":\"n\\\"\","
		"\"name\":\"a\\\",\\\"x\\\":\\\"\",\"sectionName\":\"s\\\\\"}";
	struct kube_route_parent hostile = {
		.ns = T("n\""), .name = T("a\",\"x\":\""), .section = T("s\\"), .ns_given = true};
	const char *text;

	(void)state;
	parents[0].ref = &hostile;
	text = build_kind(KUBE_TLS_POLICY, "", "", 1);
	parents[0].ref = &refs[0];
	if (strstr(text, ref) == NULL)
		fail_msg("%s does not have %s", text, ref);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_with_quotes),
		cmocka_unit_test(a_policy),
		cmocka_unit_test(the_first_time),
		cmocka_unit_test(nothing_when_nothing_changes),
		cmocka_unit_test(what_changes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
