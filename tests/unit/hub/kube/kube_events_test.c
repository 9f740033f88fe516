/* Events on Services, in their order. */
#include <stdio.h>
#include <string.h>

#include "hub/kube/kube_events.h"
#include "tests/fake/clock.h"
#include "tests/unit/hub/kube/api_bed.h"

enum { RESTLESS = 30 };

/* One round of the owner's: what a node refuses with another reason each time, and what the hub
 * found once. */
static void
tell_round(struct kube_events *e, unsigned round)
{
	char name[32], why[64];

	kube_events_begin(e);
	for (unsigned i = 0; i < RESTLESS; i++) {
		snprintf(name, sizeof name, "restless-%u", i);
		snprintf(why, sizeof why, "some nodes refuse it: reason %u", round);
		kube_events_tell(e, "default", name, EVENT_HELD, why);
	}
	kube_events_tell(e, "default", "steady", EVENT_UNREACHABLE, "there is no endpoint");
	kube_events_end(e);
}

static bool
was_asked(const struct api_bed *b, const char *part)
{
	for (size_t i = 0; i < b->n_requests; i++)
		if (strstr(b->requests[i], part) != NULL)
			return true;
	return false;
}

/* Whose reason is always a new one is not said before what has waited for longer. */
static void
who_has_waited_for_longest_is_said_first(void **state)
{
	static const char list[] =
		"{\"kind\":\"ServiceList\",\"items\":[{\"metadata\":{\"uid\":\"u\"}}]}";
	struct api_bed *b = *state;
	struct kube_events *e = kube_events_new(b->loop, b->api);

	for (unsigned i = 0; i < KUBE_EVENTS_BURST; i++) {
		api_say_json(b, 200, list);
		api_say_json(b, 201, "{}");
	}
	tell_round(e, 0);
	clock_pass(1000 * 1000);
	loop_turn(b->loop);
	tell_round(e, 1);
	clock_pass(KUBE_EVENTS_STABLE_MS * 1000);
	loop_turn(b->loop);
	tell_round(e, 1); /* all are due now */
	for (unsigned turns = 0; b->n_requests < 2 && turns < PATIENCE_TURNS; turns++)
		api_turn(b);
	assert_true(was_asked(b, "services?fieldSelector=metadata.name%3Dsteady"));
	assert_false(was_asked(b, "restless"));
	/* And those have their turn, too. */
	for (unsigned turns = 0; !was_asked(b, "restless") && turns < PATIENCE_TURNS; turns++)
		api_turn(b);
	assert_true(was_asked(b, "restless"));
	kube_events_free(&e);
}

/* The Event of a route is on the route, and does not touch that of a Service of the same name. */
static void
routes_have_their_own(void **state)
{
	static const char list[] =
		"{\"kind\":\"HTTPRouteList\",\"items\":[{\"metadata\":{\"uid\":\"u\"}}]}";
	struct api_bed *b = *state;
	struct kube_events *e = kube_events_new(b->loop, b->api);

	for (unsigned i = 0; i < 4; i++) {
		api_say_json(b, 200, list);
		api_say_json(b, 201, "{}");
	}
	for (unsigned round = 0; round < 2; round++) {
		kube_events_begin(e);
		kube_events_tell(e, "default", "web", EVENT_HTTPROUTE, "Service default/web: no");
		kube_events_tell(e, "default", "web", EVENT_GRPCROUTE, "Service default/web: no");
		kube_events_tell(e, "default", "web", EVENT_UNREACHABLE, "");
		kube_events_end(e);
		clock_pass(KUBE_EVENTS_STABLE_MS * 1000);
		loop_turn(b->loop);
	}
	/* The bed keeps an Event's body before the line of the request that follows it. */
	for (unsigned turns = 0; b->n_requests < 4 && turns < PATIENCE_TURNS; turns++) {
		clock_pass(1000);
		api_turn(b);
	}
	assert_true(was_asked(b,
		"GET /apis/gateway.networking.k8s.io/v1/namespaces/default/"
		"httproutes?fieldSelector=metadata.name%3Dweb"));
	assert_true(was_asked(
		b, "\"apiVersion\":\"gateway.networking.k8s.io/v1\",\"kind\":\"HTTPRoute\""));
	assert_true(was_asked(b, "\"reason\":\"HTTPRouteNotFollowed\""));
	assert_false(was_asked(b, "/services?"));
	kube_events_free(&e);
}

static void
tell_two(struct kube_events *e)
{
	kube_events_begin(e);
	kube_events_tell(e, "full", "web", EVENT_UNREACHABLE, "there is no endpoint");
	kube_events_tell(e, "open", "web", EVENT_UNREACHABLE, "there is no endpoint");
	kube_events_end(e);
}

static void
until_asked(struct api_bed *b, const char *part)
{
	for (unsigned turns = 0; !was_asked(b, part) && turns < PATIENCE_TURNS; turns++)
		api_turn(b);
	assert_true(was_asked(b, part));
}

/* A quota or a webhook of one namespace holds up no other one, and is told as what it is. */
static void
a_namespace_that_refuses_holds_up_no_other(void **state)
{
	static const struct {
		const char *body, *told, *untold;
	} cases[] = {{"events \"web.1\" is forbidden: exceeded quota: q", "exceeded quota",
			     "ClusterRole"},
		{"admission webhook \"w\" denied the request", "webhook", "ClusterRole"},
		{"events is forbidden: User \"system:serviceaccount:quota:admission\" cannot "
		 "create resource",
			"ClusterRole", "namespace full"}};
	static const char list[] =
		"{\"kind\":\"ServiceList\",\"items\":[{\"metadata\":{\"uid\":\"u\"}}]}";
	struct api_bed *b = *state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct kube_events *e = kube_events_new(b->loop, b->api);
		auto_buf struct buf out;

		buf_init(&out, BUF_UNLIMITED);
		api_say_json(b, 200, list);
		api_say_json(b, 403, cases[i].body);
		api_say_json(b, 200, list);
		kube_events_begin(e);
		kube_events_tell(e, "full", "web", EVENT_UNREACHABLE, "there is no endpoint");
		kube_events_end(e);
		clock_pass(1000 * 1000);
		loop_turn(b->loop);
		tell_two(e);
		clock_pass(KUBE_EVENTS_STABLE_MS * 1000);
		loop_turn(b->loop);
		tell_two(e);
		until_asked(b, "namespaces/full/services?");
		if (strcmp(cases[i].told, "ClusterRole") != 0)
			until_asked(b, "namespaces/open/services?");
		do {
			api_turn(b);
			buf_consume(&out, buf_len(&out));
			kube_events_state(e, &out);
		} while (strstr(buf_str(&out), cases[i].told) == NULL);
		assert_null(strstr(buf_str(&out), cases[i].untold));
		kube_events_free(&e);
		api_reset(b);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			who_has_waited_for_longest_is_said_first, api_setup, api_teardown),
		cmocka_unit_test_setup_teardown(routes_have_their_own, api_setup, api_teardown),
		cmocka_unit_test_setup_teardown(
			a_namespace_that_refuses_holds_up_no_other, api_setup, api_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
