/* Calls of gRPC: which requests are calls, deadlines, statuses, messages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/http/grpc.h"

static struct http1_head head;

static struct http1_str
str(const char *text)
{
	return (struct http1_str){text, strlen(text)};
}

static void
with_field(const char *name, const char *value)
{
	head.n_fields = 2;
	head.fields[0] = (struct http1_field){.name = str("x-first"), .value = str("1")};
	head.fields[1] = (struct http1_field){.name = str(name), .value = str(value)};
}

static void
which_are_calls(void **state)
{
	static const struct {
		const char *type;
		bool call;
	} rows[] = {
		{"application/grpc", true},
		{"application/grpc+proto", true},
		{"application/grpc;charset=utf-8", true},
		{"application/grpc-web", false},
		{"application/grp", false},
		{"application/json", false},
		{"", false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		with_field("content-type", rows[i].type);
		assert_int_equal(grpc_is_call(&head), rows[i].call);
	}
	with_field("accept", "application/grpc");
	assert_false(grpc_is_call(&head));
}

static void
deadlines(void **state)
{
	static const struct {
		const char *text;
		uint64_t ms;
	} rows[] = {
		{"1H", 3600001}, {"2M", 120001}, {"3S", 3001}, {"250m", 251}, {"1500u", 2},
		{"99999999n", 100}, {"0m", 1}, {"", 0}, {"m", 0}, {"5", 0}, {"5x", 0}, {"-5m", 0},
		{"5 m", 0}, {"123456789m", 0}, /* at most eight digits */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		with_field("grpc-timeout", rows[i].text);
		assert_int_equal(grpc_timeout_ms(&head), rows[i].ms);
	}
	head.n_fields = 1;
	assert_int_equal(grpc_timeout_ms(&head), 0);
}

static void
statuses(void **state)
{
	(void)state;
	assert_int_equal(grpc_status_of(503), GRPC_UNAVAILABLE);
	assert_int_equal(grpc_status_of(403), GRPC_PERMISSION_DENIED);
	assert_int_equal(grpc_status_of(418), GRPC_UNKNOWN);
	assert_int_equal(grpc_http_of(GRPC_OK), 200);
	assert_int_equal(grpc_http_of(GRPC_UNAVAILABLE), 503);
	assert_int_equal(grpc_http_of(GRPC_INVALID_ARGUMENT), 400);
	assert_int_equal(grpc_http_of(99), 400);
	assert_int_equal(grpc_status_parse(str("14")), 14);
	assert_int_equal(grpc_status_parse(str("0")), 0);
	assert_int_equal(grpc_status_parse(str("")), -1);
	assert_int_equal(grpc_status_parse(str("014")), -1);
	assert_int_equal(grpc_status_parse(str("1x")), -1);
}

static void
messages(void **state)
{
	char to[GRPC_MESSAGE_MAX], many[2 * GRPC_MESSAGE_MAX];

	(void)state;
	assert_string_equal(grpc_message("100% of \"x\"\n", to), "100%25 of \"x\"%0A");
	assert_string_equal(grpc_message("gr\xc3\xbc\xc3\x9f", to), "gr%C3%BC%C3%9F");
	memset(many, '\n', sizeof many - 1);
	many[sizeof many - 1] = '\0';
	assert_true(strlen(grpc_message(many, to)) < sizeof to);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(which_are_calls),
		cmocka_unit_test(deadlines),
		cmocka_unit_test(statuses),
		cmocka_unit_test(messages),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
