/* Joining, and who is let in. */
#include "tests/unit/hub_bed.h"

#include <stdio.h>
#include <string.h>

#include "base/pki.h"

static void
assert_refused(struct bed *b, struct client *c, const char *status)
{
	wait_for(b, c->closed);
	assert_false(c->open);
	if (strstr(c->why, status) == NULL)
		fail_msg("\"%s\" does not say %s", c->why, status);
}

static void
join_gives_a_certificate_of_the_node(void **state)
{
	struct bed *b = *state;
	struct identity id;
	char *name = NULL;
	struct err err = {0};

	bed_start_hub(b);
	id = bed_join(b, "edge-1");
	assert_int_equal(pki_cert_info(id.cert, &name, NULL, NULL, &err), 0);
	assert_string_equal(name, "edge-1");
	assert_int_equal(pki_pair_check(id.cert, id.key, &err), 0);
	free(name);
	bed_connect(b, "edge-1", &id);
	identity_fini(&id);
}

static void
join_refuses_wrong_tokens(void **state)
{
	struct bed *b = *state;
	auto_free char *good = NULL, *other = NULL, *wrong = NULL;
	char *last;

	bed_start_hub(b);
	good = bed_token(b, "", 60);
	other = bed_token(b, "edge-2", 60);
	wrong = xstrdup(good);
	last = wrong + strlen(wrong) - 1;
	*last = *last == '0' ? '1' : '0';
	assert_refused(b, bed_dial_join(b, "edge-1", wrong), "401");
	assert_refused(b, bed_dial_join(b, "edge-1", other), "401");
	wrong[65 + 5] = '\0';
	assert_refused(b, bed_dial_join(b, "edge-1", wrong), "401");
}

static void
join_refuses_an_expired_token(void **state)
{
	struct bed *b = *state;
	auto_free char *token = NULL;

	bed_start_hub(b);
	token = bed_token(b, "", 1);
	bed_idle(b, 2100);
	assert_refused(b, bed_dial_join(b, "edge-1", token), "401");
}

static void
join_refuses_a_name_that_is_taken(void **state)
{
	struct bed *b = *state;
	auto_free char *any = NULL;
	struct identity id, again;

	bed_start_hub(b);
	id = bed_join(b, "edge-1");
	any = bed_token(b, "", 60);
	assert_refused(b, bed_dial_join(b, "edge-1", any), "403");
	again = bed_join(b, "edge-1"); /* by a token made for the name */
	assert_string_not_equal(again.cert, id.cert);
	identity_fini(&id);
	identity_fini(&again);
}

static void
join_answers_a_bad_request(void **state)
{
	struct bed *b = *state;
	auto_free char *token = NULL;
	struct client *c;
	struct envelope *e;

	bed_start_hub(b);
	token = bed_token(b, "", 60);
	c = bed_dial_join(b, "edge-1", token);
	wait_for(b, c->open);
	bed_send(c, OP_INSERT, "certificate/edge-1", "x", "", "{\"csr\":\"nonsense\"}");
	e = bed_next(b, c);
	assert_int_equal(e->operation, OP_ERROR);
	assert_string_equal(e->parent_id, "x");
	wait_for(b, c->closed);
}

static void
a_good_certificate_renews_itself_alone(void **state)
{
	struct bed *b = *state;
	struct identity id;
	struct client *c;

	bed_start_hub(b);
	id = bed_join(b, "edge-1");
	assert_refused(b, bed_dial_renew(b, "edge-2", &id), "401");
	c = bed_dial_renew(b, "edge-1", &id);
	wait_for(b, c->open || c->closed);
	assert_true(c->open);
	bed_request_cert(c, "edge-1", id.key);
	assert_int_equal(bed_next(b, c)->operation, OP_RESPONSE);
	identity_fini(&id);
}

static void
events_need_the_certificate_of_the_name(void **state)
{
	struct bed *b = *state;
	struct identity id;

	bed_start_hub(b);
	id = bed_join(b, "edge-1");
	assert_refused(b, bed_dial_events(b, "edge-2", &id, id.cert), "403");
	assert_refused(b, bed_dial_events(b, "edge-1", &id, NULL), "403");
	b->protocol = "2"; /* of a newer agent: it must not be told half of what it expects */
	assert_refused(b, bed_dial_events(b, "edge-1", &id, id.cert), "426");
	b->protocol = NULL;
	identity_fini(&id);
}

/* CA, tokens and names outlive the process. */
static void
a_restart_keeps_what_matters(void **state)
{
	struct bed *b = *state;
	auto_free char *token = NULL;
	struct identity id;

	bed_start_hub(b);
	id = bed_join(b, "edge-1");
	token = bed_token(b, "", 60);
	hub_stop(&b->hub);
	bed_start_hub(b);
	bed_connect(b, "edge-1", &id);
	assert_refused(b, bed_dial_join(b, "edge-1", token), "403");
	identity_fini(&id);
}

#define case_of(f) cmocka_unit_test_setup_teardown(f, bed_setup, bed_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		case_of(join_gives_a_certificate_of_the_node),
		case_of(join_refuses_wrong_tokens),
		case_of(join_refuses_an_expired_token),
		case_of(join_refuses_a_name_that_is_taken),
		case_of(join_answers_a_bad_request),
		case_of(a_good_certificate_renews_itself_alone),
		case_of(events_need_the_certificate_of_the_name),
		case_of(a_restart_keeps_what_matters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
