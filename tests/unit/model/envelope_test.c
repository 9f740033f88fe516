#include "model/envelope.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static int
parse(struct envelope *e, const char *text, struct err *err)
{
	*err = (struct err){0};
	return envelope_parse(e, text, strlen(text), err);
}

static void
reads_what_cloudhub_sends(void **state)
{
	static const char text[] =
		" {\"header\":{\"msg_id\":\"a-1\",\"timestamp\":1700000000123,\"sync\":true,"
		"\"resourceversion\":\"17\",\"extra\":[1,{\"x\":null}]},"
		"\"route\":{\"source\":\"edgecontroller\",\"group\":\"resource\",\"operation\":"
		"\"update\","
		"\"resource\":\"default/service/web\"},\"content\": {\"a\" : [1.50, \"\\u00e9\"]} "
		"}\n";
	struct envelope e;
	struct err err;

	(void)state;
	assert_int_equal(parse(&e, text, &err), 0);
	assert_string_equal(e.id, "a-1");
	assert_string_equal(e.parent_id, "");
	assert_string_equal(e.source, "edgecontroller");
	assert_string_equal(e.group, "resource");
	assert_string_equal(e.resource, "default/service/web");
	assert_string_equal(e.resource_version, "17");
	assert_true(e.timestamp_ms == 1700000000123);
	assert_true(e.sync);
	assert_int_equal(e.operation, OP_UPDATE);
	/* As cJSON writes it, whatever the blanks, escapes and digits were. */
	assert_string_equal(e.content, "{\"a\":[1.5,\"\xc3\xa9\"]}");
	assert_int_equal(e.content_len, strlen(e.content));
	envelope_fini(&e);
	assert_null(e.id);
}

static void
builds_and_reads_back(void **state)
{
	char id[] = "quote \" slash \\ tab \t", resource[] = "node/hello", content[] = "[true]";
	struct envelope e = {
		.id = id, .resource = resource, .operation = OP_ERROR, .timestamp_ms = 5};
	struct envelope back;
	struct err err;
	auto_buf struct buf out;

	(void)state;
	e.content = content;
	e.content_len = strlen(content);
	buf_init(&out, BUF_UNLIMITED);
	envelope_build(&out, &e);
	assert_int_equal(parse(&back, buf_str(&out), &err), 0);
	assert_string_equal(back.id, id);
	assert_string_equal(back.resource, resource);
	assert_string_equal(back.content, content);
	assert_string_equal(back.source, "");
	assert_int_equal(back.operation, OP_ERROR);
	assert_true(back.timestamp_ms == 5);
	assert_false(back.sync);
	envelope_fini(&back);
}

static void
absent_content_and_nulls_are_empty(void **state)
{
	struct envelope e;
	struct err err;

	(void)state;
	assert_int_equal(
		parse(&e,
			"{\"header\":{\"msg_id\":null},\"route\":{\"operation\":\"keepalive\"},"
			"\"content\":null}",
			&err),
		0);
	assert_string_equal(e.id, "");
	assert_string_equal(e.content, "");
	assert_int_equal(e.content_len, 0);
	envelope_fini(&e);
}

static void
unknown_operation_keeps_the_id(void **state)
{
	struct envelope e;
	struct err err;

	(void)state;
	assert_int_equal(
		parse(&e, "{\"header\":{\"msg_id\":\"7\"},\"route\":{\"operation\":\"upload\"}}",
			&err),
		-EOPNOTSUPP);
	assert_non_null(strstr(err.text, "upload"));
	assert_string_equal(e.id, "7");
	envelope_fini(&e);
}

static void
refuses_with_a_reason(void **state)
{
	static const struct {
		const char *text, *reason;
	} cases[] = {
		{"", "not JSON"},
		{"[]", "object expected"},
		{"{\"header\":{},\"route\":{\"operation\":\"query\"}", "ends too early"},
		{"{\"header\":{},\"route\":{\"operation\":\"query\"}} x", "after the value"},
		{"{\"header\":{},\"header\":{},\"route\":{\"operation\":\"query\"}}", "twice"},
		{"{\"route\":{\"operation\":\"query\"}}", "without header"},
		{"{\"header\":{},\"route\":{}}", "without header"},
		{"{\"header\":{\"msg_id\":7},\"route\":{\"operation\":\"query\"}}",
			"string expected"},
		{"{\"header\":{\"timestamp\":-1},\"route\":{\"operation\":\"query\"}}",
			"whole number"},
		{"{\"header\":{\"timestamp\":9223372036854775808},\"route\":{\"operation\":"
		 "\"query\"}}",
			"timestamp: number greater than 9007199254740991"},
		{"{\"header\":{\"sync\":1},\"route\":{\"operation\":\"query\"}}", "true or false"},
		{"{\"header\":{\"msg_id\":\"\\u0000\"},\"route\":{\"operation\":\"query\"}}",
			"NUL"},
		{"{\"header\":{\"msg_id\":\"\xff\"},\"route\":{\"operation\":\"query\"}}", "UTF-8"},
		{"{\"header\":{\"msg_id\":\"\\ud800\"},\"route\":{\"operation\":\"query\"}}",
			"not JSON"},
		{"{\"header\":{},\"route\":{\"operation\":\"query\"},\"content\":{\"a\":01}}",
			"digit too many"},
		{"{\"header\":{},\"route\":{\"operation\":\"query\"},\"content\":[1,]}",
			"not JSON"},
		{"{\"header\":{},\"route\":{\"operation\":\"query\"},\"content\":[1.]}", "digit"},
		{"{\"header\":{},\"route\":{\"operation\":\"query\"},\"content\":\"a\nb\"}",
			"control"},
		{"{\"header\":{},\"route\":{\"operation\":\"query\"},}", "not JSON"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct envelope e;
		struct err err;

		assert_int_equal(parse(&e, cases[i].text, &err), -EBADMSG);
		if (strstr(err.text, cases[i].reason) == NULL)
			fail_msg("%s: '%s' does not say '%s'", cases[i].text, err.text,
				cases[i].reason);
		assert_null(e.id);
	}
}

static void
bounds_depth_and_length(void **state)
{
	auto_free char *deep = xmalloc(200000 + 100);
	struct envelope e;
	struct err err = {0};
	int n = sprintf(deep, "{\"header\":{},\"route\":{\"operation\":\"query\"},\"content\":");

	(void)state;
	memset(deep + n, '[', 200000);
	assert_int_equal(envelope_parse(&e, deep, (size_t)n + 200000, &err), -EBADMSG);
	assert_non_null(strstr(err.text, "too deeply"));
	assert_int_equal(envelope_parse(&e, deep, (size_t)ENVELOPE_MAX_BYTES + 1, &err), -EMSGSIZE);
}

/* Of what is refused as a whole. */
static void
heads_are_read_by_themselves(void **state)
{
	static const char *const texts[] = {
		"{\"header\":{\"msg_id\":\"a-1\",\"parent_msg_id\":\"}{\\\"\\\\\"},\"route\":{"
		"\"operation\":\"update\",\"resource\":\"r\"},"
		"\"content\":[[[",
		" {\"header\":{\"msg_id\":\"a-1\",\"x\":{}},\"route\":{\"operation\":\"explode\","
		"\"resource\":\"r\"}",
	};
	static const char *const not [] = {"", "{", "}}{{}}", "{\"header\":{\"msg_id\":\"a-1\"}",
		"[{},{}]",
		("{\"content\":{},\"header\":{\"msg_id\":\"a-1\"},\"route\":{\"operation\":"
		 "\"update\"}}"),
		"{\"header\":{\"msg_id\":\"\x01\"},\"route\":{\"operation\":\"update\"}}"};
	struct envelope e;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		assert_true(envelope_head(&e, texts[i], strlen(texts[i])));
		assert_string_equal(e.id, "a-1");
		assert_string_equal(e.resource, "r");
		assert_string_equal(e.content, "");
		envelope_fini(&e);
	}
	for (size_t i = 0; i < ARRAY_LEN(not ); i++) {
		assert_false(envelope_head(&e, not [i], strlen(not [i])));
		assert_null(e.id);
	}
}

static void
ids_are_version_4_and_differ(void **state)
{
	char a[37], b[37];

	(void)state;
	envelope_new_id(a);
	envelope_new_id(b);
	assert_int_equal(strlen(a), 36);
	assert_int_equal(a[14], '4');
	assert_non_null(strchr("89ab", a[19]));
	assert_string_not_equal(a, b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_what_cloudhub_sends),
		cmocka_unit_test(builds_and_reads_back),
		cmocka_unit_test(absent_content_and_nulls_are_empty),
		cmocka_unit_test(unknown_operation_keeps_the_id),
		cmocka_unit_test(refuses_with_a_reason),
		cmocka_unit_test(bounds_depth_and_length),
		cmocka_unit_test(heads_are_read_by_themselves),
		cmocka_unit_test(ids_are_version_4_and_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
