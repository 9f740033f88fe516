#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "lb/proxy/routing.h"

/* The parts of routing that look at structs alone. */

static struct http1_str
text(const char *s)
{
	return (struct http1_str){s, strlen(s)};
}

static void
assert_text(struct http1_str s, const char *wanted)
{
	assert_int_equal(s.len, strlen(wanted));
	assert_memory_equal(s.at, wanted, s.len);
}

static void
targets_in_parts(void **state)
{
	static const struct {
		const char *target, *host, *path, *query, *name;
	} rows[] = {
		{"/a/b?c=d&e", "web:8080", "/a/b", "c=d&e", "web"},
		{"/", "web", "/", NULL, "web"},
		{"/?", "[::1]:80", "/", "", "[::1]"},
		{"?x", "[::1]", "/", "x", "[::1]"},
		{"", "", "/", NULL, ""},
		{"*", "a.b:1", "*", NULL, "a.b"},
		{"/a?b?c", "a", "/a", "b?c", "a"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct http1_head *h = xcalloc(1, sizeof *h);
		struct http_route_target t;

		h->target = text(rows[i].target);
		h->host = text(rows[i].host);
		t = routing_target(h, 81);
		assert_text(t.path, rows[i].path);
		assert_text(t.host, rows[i].name);
		if (rows[i].query != NULL)
			assert_text(t.query, rows[i].query);
		else
			assert_null(t.query.at);
		assert_int_equal(t.port, 81);
		free(h);
	}
}

static void
tokens_of_sessions(void **state)
{
	static const struct http_route_backend backends[] = {
		{.ns = "n", .name = "a", .port = 80, .invalid = true},
		{.ns = "n", .name = "a", .port = 81}};
	struct http_route_session s = {
		.name = "sid", .path = "/a", .absolute_ms = 10000, .permanent = true};
	const struct http_route_rule rule = {.n_backends = 2, .backends = backends};
	struct session_token none = {0}, had, now = {7, session_hash(&backends[1]), 0, 1000};
	struct http1_head *h = xcalloc(1, sizeof *h);
	char cookie[SESSION_FIELD_MAX];
	struct http_route_pair p;

	(void)state;
	assert_true(session_answer(&s, &none, &now, cookie, &p));
	assert_string_equal(p.name, "set-cookie");
	assert_string_equal(cookie + 4 + 16 + 8, "000003e8000003e8; Path=/a; HttpOnly; Max-Age=10");
	h->n_fields = 1;
	h->fields[0].name = text("Cookie");
	h->fields[0].value = text(cookie);
	assert_true(session_find(&s, h, 1009, &had));
	assert_int_equal(had.endpoint, 7);
	assert_ptr_equal(session_backend(&rule, &had), &backends[1]);
	assert_false(session_find(&s, h, 1010, &had)); /* over */
	assert_int_equal(had.endpoint, 0);
	assert_true(session_find(&s, h, 1000, &had));
	now.used_s = 1003;
	assert_false(session_answer(&s, &had, &now, cookie, &p)); /* it goes on as it is */
	s.idle_ms = 5000;
	assert_true(session_find(&s, h, 1004, &had));
	assert_true(session_answer(&s, &had, &now, cookie, &p));
	assert_string_equal(cookie + 4 + 16 + 8, "000003e8000003eb; Path=/a; HttpOnly; Max-Age=7");
	assert_false(session_find(&s, h, 1009, &had)); /* idle since 1003 */
	assert_true(session_find(&s, h, 900, &had)); /* another node's clock */
	had.backend = session_hash(&backends[0]);
	assert_null(session_backend(&rule, &had)); /* invalid */
	free(h);
}

/* A request of a worker whose clock stands at 1000. */
struct bed {
	struct worker *worker;
	struct downstream f;
	struct service service;
	struct group group;
	struct http_route_rule rule;
	struct http_route_backend backend;
	struct exchange ex;
};

static struct bed *
bed_new(void)
{
	struct bed *b = xcalloc(1, sizeof *b);

	b->worker = xcalloc(1, sizeof *b->worker);
	b->worker->now_ms = 1000;
	b->f.worker = b->worker;
	b->group.service = &b->service;
	b->rule.request_ms = b->rule.backend_ms = HTTP_ROUTE_MS_DEFAULT;
	b->ex.downstream = &b->f;
	b->ex.group = &b->group;
	b->ex.rule = &b->rule;
	return b;
}

static void
bed_free(struct bed *b)
{
	free(b->worker);
	free(b);
}

static void
time_of_a_request(void **state)
{
	struct bed *b = bed_new();

	(void)state;
	assert_false(routing_limits(&b->ex));
	assert_int_equal(routing_due_ms(&b->ex), 0);
	b->rule.request_ms = 0; /* said to be endless */
	assert_true(routing_limits(&b->ex));
	assert_int_equal(routing_due_ms(&b->ex), 0);
	b->ex.whole_ms = 5000;
	b->rule.backend_ms = 300;
	assert_int_equal(routing_due_ms(&b->ex), 5000); /* the client still sends */
	b->ex.http.request_done = true;
	assert_int_equal(routing_due_ms(&b->ex), 1300);
	b->worker->now_ms = 1200;
	assert_int_equal(routing_due_ms(&b->ex), 1300);
	assert_false(routing_try_is_over(&b->ex));
	b->worker->now_ms = 1300;
	assert_true(routing_try_is_over(&b->ex));
	b->ex.state = EXCHANGE_ANSWERING;
	assert_int_equal(routing_due_ms(&b->ex), 5000);
	assert_false(routing_try_is_over(&b->ex));
	b->ex.state = EXCHANGE_SENDING;
	b->worker->now_ms = 5000; /* all of the request's time is over, too */
	assert_false(routing_try_is_over(&b->ex));
	b->ex.rule = NULL;
	assert_false(routing_limits(&b->ex));
	bed_free(b);
}

static void
attempts_after_a_status(void **state)
{
	static const uint16_t codes[] = {503, 429};
	static const struct http_route_retry retry = {.n_codes = 2, .codes = codes};
	struct bed *b = bed_new();

	(void)state;
	b->service.lb.retry_on = RETRY_ON_500;
	assert_true(routing_retries(&b->ex, 500, RETRY_ON_500));
	assert_false(routing_retries(&b->ex, 503, RETRY_ON_503));
	assert_false(routing_repeats(&b->ex));
	b->rule.retry = &retry; /* it wins over the annotation */
	assert_false(routing_retries(&b->ex, 500, RETRY_ON_500));
	assert_true(routing_retries(&b->ex, 503, RETRY_ON_503));
	assert_true(routing_retries(&b->ex, 429, 0));
	assert_true(routing_repeats(&b->ex));
	b->ex.rule = NULL;
	b->group.service = NULL;
	assert_false(routing_retries(&b->ex, 500, RETRY_ON_500));
	bed_free(b);
}

static void
response_is_edited(void **state)
{
	static const struct http_route_pair set = {"a", "rule"}, add = {"a", "backend"};
	static const struct http_header_edits of_rule = {.n_set = 1, .set = &set},
					      of_backend = {.n_add = 1, .add = &add};
	struct http1_head *h = xcalloc(1, sizeof *h);
	struct bed *b = bed_new();

	(void)state;
	h->fields[h->n_fields++] = (struct http1_field){.name = text("A"), .value = text("own")};
	assert_int_equal(routing_edit_response(&b->ex, h), 0); /* our own answer has no backend */
	assert_text(h->fields[0].value, "own");
	b->ex.backend = &b->backend;
	b->rule.response = &of_rule;
	b->backend.response = &of_backend;
	assert_int_equal(routing_edit_response(&b->ex, h), 0);
	assert_int_equal(h->n_fields, 2);
	assert_text(h->fields[0].value, "rule");
	assert_text(h->fields[1].value, "backend");
	h->fields[1].name = text("b");
	h->n_fields = HTTP1_FIELDS_MAX;
	assert_int_equal(routing_edit_response(&b->ex, h), -E2BIG);
	free(h);
	bed_free(b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(targets_in_parts),
		cmocka_unit_test(tokens_of_sessions),
		cmocka_unit_test(time_of_a_request),
		cmocka_unit_test(attempts_after_a_status),
		cmocka_unit_test(response_is_edited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
