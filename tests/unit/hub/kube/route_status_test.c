/* The order in which statuses are written, on a scripted clock. */
#include <stdio.h>
#include <string.h>

#include "hub/kube/route_status.h"
#include "tests/fake/clock.h"
#include "tests/unit/hub/kube/api_bed.h"

#define PATCH(ns, name) "PATCH /api/v1/namespaces/" ns "/services/" name "/status "

/* With the Lease, whose two requests come first. */
static struct route_status *
make(struct api_bed *b)
{
	api_say_json(b, 404, "{}");
	api_say_json(b, 201,
		"{\"metadata\":{\"name\":\"l\",\"resourceVersion\":\"1\"},\"spec\":{"
		"\"holderIdentity\":\"me\",\"leaseDurationSeconds\":30}}");
	return route_status_new(
		&(struct route_status_config){.loop = b->loop, .api = b->api, .ns = "edgeway"});
}

/* How often the request was made; the body of the one before comes first. */
static unsigned
asked(const struct api_bed *b, const char *request)
{
	unsigned n = 0;

	for (size_t i = 0; i < b->n_requests; i++)
		n += strstr(b->requests[i], request) != NULL;
	return n;
}

static void
until_asked(struct api_bed *b, size_t n)
{
	for (unsigned turns = 0; (b->n_requests < n || b->answering) && turns < PATIENCE_TURNS;
		turns++)
		api_turn(b);
	assert_int_equal(b->n_requests, n);
}

/* An object that the server cannot store holds up no other one, and is tried again. */
static void
one_that_fails_holds_up_no_other(void **state)
{
	struct api_bed *b = *state;
	struct route_status *s = make(b);

	api_say_json(b, 500, "{}");
	api_say_json(b, 200, "{}");
	api_say_json(b, 500, "{}");
	api_say_json(b, 200, "{}");
	route_status_tell_gateway(s, "n", "large", "192.0.2.1");
	route_status_tell_gateway(s, "n", "small", "192.0.2.1");
	until_asked(b, 4);
	assert_int_equal(asked(b, PATCH("n", "large")), 1);
	assert_int_equal(asked(b, PATCH("n", "small")), 1);
	until_asked(b, 5);
	assert_non_null(strstr(route_status_problem(s), "500"));
	assert_non_null(strstr(route_status_problem(s), "n/large"));
	until_asked(b, 6);
	assert_int_equal(asked(b, PATCH("n", "large")), 3);
	for (unsigned turns = 0; *route_status_problem(s) != '\0' && turns < PATIENCE_TURNS;
		turns++)
		api_turn(b);
	assert_string_equal(route_status_problem(s), "");
	route_status_free(&s);
}

/* Neither what waits already nor what comes later waits for the rights in one namespace. */
static void
one_namespace_that_is_forbidden_holds_up_no_other(void **state)
{
	struct api_bed *b = *state;
	struct route_status *s = make(b);

	api_say_json(b, 403, "{}");
	api_say_json(b, 200, "{}");
	api_say_json(b, 200, "{}");
	route_status_tell_gateway(s, "closed", "a", "192.0.2.1");
	route_status_tell_gateway(s, "open", "a", "192.0.2.1");
	until_asked(b, 4);
	assert_int_equal(asked(b, PATCH("open", "a")), 1);
	clock_pass(1000 * 1000);
	for (unsigned turns = 0; turns < 20; turns++)
		api_turn(b);
	route_status_tell_gateway(s, "open", "b", "192.0.2.1");
	until_asked(b, 5);
	assert_int_equal(asked(b, PATCH("open", "b")), 1);
	assert_int_equal(asked(b, PATCH("closed", "a")), 1);
	assert_non_null(strstr(route_status_problem(s), "closed/a"));
	assert_non_null(strstr(route_status_problem(s), ROUTE_STATUS_RIGHTS));
	route_status_free(&s);
}

/* Without an answer the server is asked for the same again, and nothing is lost. */
static void
no_answer_changes_no_order(void **state)
{
	struct api_bed *b = *state;
	struct route_status *s = make(b);

	api_say(b, (struct said){.text = "", .len = 0, .cut = true});
	api_say_json(b, 200, "{}");
	api_say_json(b, 200, "{}");
	route_status_tell_gateway(s, "n", "a", "192.0.2.1");
	route_status_tell_gateway(s, "n", "b", "192.0.2.1");
	until_asked(b, 4);
	assert_int_equal(asked(b, PATCH("n", "a")), 2);
	until_asked(b, 5);
	assert_int_equal(asked(b, PATCH("n", "b")), 1);
	route_status_free(&s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			one_that_fails_holds_up_no_other, api_setup, api_teardown),
		cmocka_unit_test_setup_teardown(
			one_namespace_that_is_forbidden_holds_up_no_other, api_setup, api_teardown),
		cmocka_unit_test_setup_teardown(
			no_answer_changes_no_order, api_setup, api_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
