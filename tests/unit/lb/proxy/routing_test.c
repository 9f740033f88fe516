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
		cmocka_unit_test(time_of_a_request),
		cmocka_unit_test(attempts_after_a_status),
		cmocka_unit_test(response_is_edited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
