/* Who holds the Lease, on a scripted clock. */
#include <stdio.h>
#include <string.h>

#include "hub/kube/lease.h"
#include "tests/fake/clock.h"
#include "tests/unit/hub/kube/api_bed.h"

static unsigned changes;

static void
on_changed(void *arg)
{
	(void)arg;
	changes++;
}

static struct lease *
make(struct api_bed *b)
{
	changes = 0;
	return lease_new(&(struct lease_config){.loop = b->loop,
		.api = b->api,
		.ns = "edgeway",
		.name = "l",
		.rights = "some rights",
		.changed = on_changed});
}

static void
until_asked(struct api_bed *b, size_t n)
{
	for (unsigned turns = 0; (b->n_requests < n || b->answering) && turns < PATIENCE_TURNS;
		turns++)
		api_turn(b);
	assert_int_equal(b->n_requests, n);
	for (unsigned turns = 0; turns < 20; turns++)
		api_turn(b);
}

static bool
gets_it(struct api_bed *b, const struct lease *l)
{
	for (unsigned turns = 0; !lease_held(l) && turns < PATIENCE_TURNS; turns++)
		api_turn(b);
	return lease_held(l);
}

/* The next request, this long from now. */
static void
pass(struct api_bed *b, uint64_t ms, size_t n)
{
	clock_pass(ms * 1000);
	until_asked(b, n);
}

static void
say_lease(struct api_bed *b, int status, const char *holder, const char *version)
{
	auto_free char *body = xasprintf(
		"{\"metadata\":{\"name\":\"l\",\"resourceVersion\":\"%s\"},\"spec\":{"
		"\"holderIdentity\":\"%s\",\"leaseDurationSeconds\":30,\"leaseTransitions\":4}}",
		version, holder);

	api_say_json(b, status, body);
}

static void
expect(const struct api_bed *b, size_t i, const char *method, const char *path)
{
	auto_free char *line = xasprintf(
		"%s /apis/coordination.k8s.io/v1/namespaces/edgeway/leases%s ", method, path);

	/* The body of the one before comes first. */
	if (strstr(b->requests[i], line) == NULL)
		fail_msg("%s instead of %s", b->requests[i], line);
}

/* Nobody has it: it is made, renewed, and lost when it can no longer be renewed. */
static void
made_renewed_and_lost(void **state)
{
	struct api_bed *b = *state;
	struct lease *l = make(b);

	api_say_json(b, 404, "{}");
	say_lease(b, 201, "me", "10");
	say_lease(b, 200, "me", "11");
	pass(b, 100, 0); /* nobody wants it */
	lease_want(l);
	clock_pass(10 * 1000);
	until_asked(b, 1);
	pass(b, 10, 2);
	expect(b, 0, "GET", "/l");
	expect(b, 1, "POST", "");
	assert_true(gets_it(b, l));
	assert_int_equal(changes, 1);
	pass(b, LEASE_RENEW_MS, 3);
	expect(b, 2, "PATCH", "/l");
	assert_true(lease_held(l));
	api_say_json(b, 500, "{}");
	pass(b, LEASE_RENEW_MS, 4);
	assert_true(lease_held(l));
	assert_non_null(strstr(lease_problem(l), "500"));
	api_say_json(b, 500, "{}");
	pass(b, LEASE_DURATION_S * 1000, 5);
	assert_false(lease_held(l));
	assert_int_equal(changes, 2);
	lease_free(&l);
}

/* Another one has it: taken over when its record has not changed for the time that it says. */
static void
taken_over(void **state)
{
	struct api_bed *b = *state;
	struct lease *l = make(b);
	size_t n = 0;

	lease_want(l);
	say_lease(b, 200, "other", "20");
	pass(b, 10, ++n);
	say_lease(b, 200, "other", "20");
	pass(b, LEASE_LOOK_MS, ++n);
	/* It renews: its time begins anew. */
	say_lease(b, 200, "other", "21");
	pass(b, LEASE_LOOK_MS, ++n);
	assert_false(lease_held(l));
	for (uint64_t ms = LEASE_LOOK_MS; ms < LEASE_DURATION_S * 1000; ms += LEASE_LOOK_MS) {
		say_lease(b, 200, "other", "21");
		pass(b, LEASE_LOOK_MS, ++n);
		expect(b, n - 1, "GET", "/l");
		assert_false(lease_held(l));
	}
	say_lease(b, 200, "other", "21");
	pass(b, LEASE_LOOK_MS + 100, ++n);
	/* A replica was faster: no harm is done. */
	api_say_json(b, 409, "{}");
	pass(b, 10, ++n);
	expect(b, n - 1, "PATCH", "/l");
	assert_false(lease_held(l));
	say_lease(b, 200, "", "22");
	pass(b, 1000, ++n);
	expect(b, n - 1, "GET", "/l");
	/* It was given back. */
	say_lease(b, 200, "me", "23");
	pass(b, 10, ++n);
	expect(b, n - 1, "PATCH", "/l");
	assert_true(gets_it(b, l));
	assert_int_equal(changes, 1);
	lease_free(&l);
}

static void
rights_are_named(void **state)
{
	struct api_bed *b = *state;
	struct lease *l = make(b);

	lease_want(l);
	api_say_json(b, 403, "{}");
	pass(b, 10, 1);
	assert_non_null(strstr(lease_problem(l), "some rights"));
	pass(b, LEASE_FORBIDDEN_MS / 2, 1);
	api_say_json(b, 404, "{}");
	pass(b, LEASE_FORBIDDEN_MS, 2);
	lease_free(&l);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(made_renewed_and_lost, api_setup, api_teardown),
		cmocka_unit_test_setup_teardown(taken_over, api_setup, api_teardown),
		cmocka_unit_test_setup_teardown(rights_are_named, api_setup, api_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
