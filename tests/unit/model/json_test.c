#include "model/json.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "model/view.h"

static int
read_all(const char *text, size_t len, struct err *err)
{
	struct json j;

	*err = (struct err){0};
	json_init(&j, text, len);
	return json_finish(&j, err);
}

/* Text as JSON and back. */
static void
strings(void **state)
{
	static const struct {
		const char *json, *text, *again;
	} cases[] = {
		{"\"\"", "", "\"\""},
		{" \"a\\\"\\\\\\/\\b\\f\\n\\r\\t\"\n", "a\"\\/\b\f\n\r\t",
			"\"a\\\"\\\\/\\b\\f\\n\\r\\t\""},
		{"\"\\u0001\\u001F\x7f\"", "\x01\x1f\x7f", "\"\\u0001\\u001f\x7f\""},
		{"\"\\u00e9\\u20AC\\ud83d\\ude00\"", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
			"\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\""},
	};
	auto_buf struct buf out;

	(void)state;
	buf_init(&out, BUF_UNLIMITED);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_free char *text = NULL, *printed = NULL;
		struct json j;
		size_t len;

		json_init(&j, cases[i].json, strlen(cases[i].json));
		assert_true(json_text(&j, &text, 100));
		printed = json_print(&j, &len);
		assert_int_equal(json_finish(&j, NULL), 0);
		assert_string_equal(text, cases[i].text);
		buf_consume(&out, buf_len(&out));
		json_add_text(&out, text);
		assert_string_equal(buf_str(&out), cases[i].again);
		assert_string_equal(printed, cases[i].again);
		assert_int_equal(len, strlen(printed));
	}
	buf_consume(&out, buf_len(&out));
	json_add_text(&out, "a\xff\xc3");
	assert_string_equal(buf_str(&out), "\"a\xef\xbf\xbd\xef\xbf\xbd\"");
	buf_consume(&out, buf_len(&out));
	json_add_text(&out, NULL);
	assert_string_equal(buf_str(&out), "\"\"");
}

static void
too_long_a_string_is_refused(void **state)
{
	auto_free char *text = NULL;
	struct err err = {0};
	struct json j;

	(void)state;
	json_init(&j, "\"abcd\"", 6);
	assert_false(json_text(&j, &text, 3));
	assert_int_equal(json_finish(&j, &err), -EBADMSG);
	assert_string_equal(err.text, "string of 4 bytes, at most 3 are allowed");
	assert_null(text);
}

static void
wrong_texts_are_refused(void **state)
{
	static const char *const bad[] = {"\"\xc0\x80\"", "\"\xc3\"", "\"\xe0\x80\x80\"",
		"\"\xed\xa0\x80\"", "\"\xf0\x80\x80\x80\"", "\"\xf4\x90\x80\x80\"", "\"\x80\"",
		"\"\xe2\x82\"", "\"\\ude00\"", "\"\\ud83dx\"", "\"\\ud83d\\u0041\"", "\"\\u12g4\"",
		"\"\\x\"", "\"", "\"\\", "\"\\\"", "\"\\u00", "\"\\u0000\"", "\"a\nb\"", "\"\t\"",
		"\xef\xbb\xbf{}", "{}\xc3\xa9", "", " ", "{", "[", "]", "{}}", "[}", "{]",
		"{\"1\":1,", "{\"1\":1,]", "{\"1\"}", "{1:1}", "{,}", "[,]", "[1,]", "[1 2]",
		"{} {}", "1 2", "nul", "tRue", "NaN", "Infinity", "0x1", "01", "-01", "1.", ".5",
		"-.5", "-", "+1", "1e", "1e+", "1.e5", "1e999", "-1e301", "--1", "[1]\v", "/**/1",
		"'a'", "[\x01]"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		/* On the heap and without NUL: the sanitizer sees a byte too far. */
		size_t len = strlen(bad[i]);
		auto_free char *text = xmalloc(len + 1), *exact = NULL;
		struct err err;

		memcpy(text, bad[i], len);
		exact = xrealloc(take_ptr(&text), MAX(len, (size_t)1));
		if (read_all(exact, len, &err) != -EBADMSG || err.text[0] == '\0')
			fail_msg("'%s' is taken", bad[i]);
	}
}

static void
nul_bytes_are_refused(void **state)
{
	struct err err;

	(void)state;
	assert_int_equal(read_all("[1]\0", 4, &err), -EBADMSG);
	assert_int_equal(read_all("\0[1]", 4, &err), -EBADMSG);
	assert_int_equal(read_all("[\0"
				  "1]",
				 4, &err),
		-EBADMSG);
	assert_int_equal(read_all("\"\0\"", 3, &err), -EBADMSG);
	assert_int_equal(read_all("[1]\0", 3, &err), 0);
}

static void
right_texts_are_taken(void **state)
{
	static const char *const good[] = {"0", "-0", "-1.5e+10", "1E99", "-1e300", "1e-999",
		"10001e99", "[]", "{}", " [ ] ", "[[],{}]", "null", "true", "false",
		"\t{\"\":{\"a\":[0.5]}}\r\n", "\"[[[,,,\"", "\"\\\\\"", "\"\\\"]\""};
	struct err err;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		if (read_all(good[i], strlen(good[i]), &err) < 0)
			fail_msg("'%s': %s", good[i], err.text);
}

static void
numbers_are_bounded(void **state)
{
	static const struct {
		const char *text;
		uint64_t max;
		bool good;
	} cases[] = {
		{"0", 0, true},
		{"1", 0, false},
		{"65535", 65535, true},
		{"65536", 65535, false},
		{"655350", 65535, false},
		{"9007199254740991", UINT64_MAX, true},
		{"9007199254740992", UINT64_MAX, false},
		{"9007199254740993", UINT64_MAX, false},
		{"18446744073709551616", UINT64_MAX, false},
		{"1e30", UINT64_MAX, false},
		{"7", 7, true},
		{"8", 7, false},
		{"1.5", 10, false},
		{"0.000001", 10, false},
		{"-1", 10, false},
		{"-1e99", 10, false},
		{"\"1\"", 10, false},
		{"true", 10, false},
		{"null", 10, false},
		{"[1]", 10, false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct json j;
		uint64_t v;
		bool good;

		json_init(&j, cases[i].text, strlen(cases[i].text));
		good = json_uint(&j, cases[i].max, &v);
		assert_int_equal(json_finish(&j, NULL), good ? 0 : -EBADMSG);
		if (good != cases[i].good || (good && v != strtoull(cases[i].text, NULL, 10)))
			fail_msg("%s with a limit of %llu", cases[i].text,
				(unsigned long long)cases[i].max);
	}
}

static char *
repeated(const char *open, const char *item, size_t n, const char *close)
{
	struct buf b;

	buf_init(&b, BUF_UNLIMITED);
	buf_adds(&b, open);
	for (size_t i = 0; i < n; i++)
		buf_adds(&b, item);
	buf_adds(&b, close);
	return buf_take_str(&b);
}

static void
depth_is_bounded(void **state)
{
	struct err err;

	(void)state;
	for (size_t n = JSON_DEPTH_MAX; n <= JSON_DEPTH_MAX + 1; n++) {
		auto_free char *open = repeated("", "[{\"a\":", n / 2, n % 2 == 1 ? "[" : "0");
		auto_free char *text = repeated(open, "}]", n / 2, "");

		if (n <= JSON_DEPTH_MAX) {
			assert_int_equal(read_all(text, strlen(text), &err), 0);
		} else {
			assert_int_equal(read_all(text, strlen(text), &err), -EBADMSG);
			assert_non_null(strstr(err.text, "too deeply"));
		}
	}
}

/* Each is refused before cJSON has made a node. */
static void
values_are_bounded(void **state)
{
	static const struct {
		const char *open, *item, *close;
		size_t values; /* of an item */
	} cases[] = {
		{"[0", ",0", "]", 1},
		{"[0", ",[]", "]", 2},
		{"{\"a\":0", ",\"\":0", "}", 1},
	};
	struct err err;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		size_t n = (JSON_VALUES_MAX - 2) / cases[i].values;
		auto_free char *most = repeated(cases[i].open, cases[i].item, n, cases[i].close);
		auto_free char *more =
			repeated(cases[i].open, cases[i].item, n + 1, cases[i].close);

		assert_int_equal(read_all(most, strlen(most), &err), 0);
		assert_int_equal(read_all(more, strlen(more), &err), -EBADMSG);
		assert_non_null(strstr(err.text, "too many values"));
	}
}

struct thing {
	char *text;
	uint16_t number;
	bool yes;
	unsigned items;
};

static void
count_item(struct json *j, void *to)
{
	struct thing *t = to;
	uint64_t v;

	t->items += json_uint(j, 9, &v);
}

static void
read_items(struct json *j, void *to)
{
	json_list(j, count_item, to);
}

static int
read_thing(struct thing *t, const char *text, struct err *err)
{
	static const struct field fields[] = {
		{"text", FIELD_TEXT, offsetof(struct thing, text), 8, NULL, NULL},
		{"number", FIELD_UINT16, offsetof(struct thing, number), UINT16_MAX, NULL, NULL},
		{"yes", FIELD_BOOL, offsetof(struct thing, yes), 0, NULL, NULL},
		{"items", FIELD_CUSTOM, 0, 0, NULL, read_items},
	};
	struct json j;
	int rc;

	*t = (struct thing){0};
	*err = (struct err){0};
	json_init(&j, text, strlen(text));
	json_fields(&j, fields, ARRAY_LEN(fields), t);
	rc = json_finish(&j, err);
	if (rc < 0)
		free(take_ptr(&t->text));
	return rc;
}

static void
fields_are_found_by_their_very_name(void **state)
{
	struct thing t;
	struct err err;

	(void)state;
	assert_int_equal(
		read_thing(&t,
			"{\"TEXT\":1,\"new\":[{}],\"new\":1,\"text\":\"a\",\"number\":65535,"
			"\"yes\":true,\"items\":[1,2,3]}",
			&err),
		0);
	assert_string_equal(t.text, "a");
	assert_int_equal(t.number, 65535);
	assert_true(t.yes);
	assert_int_equal(t.items, 3);
	free(t.text);
	assert_int_equal(read_thing(&t, "{\"text\":null,\"items\":null}", &err), 0);
	assert_null(t.text);
}

static void
wrong_fields_are_named(void **state)
{
	static const struct {
		const char *text, *reason;
	} cases[] = {
		{"[]", "an object expected"},
		{"{\"text\":\"a\",\"text\":\"b\"}", "text: member comes twice"},
		{"{\"text\":7}", "text: a string expected"},
		{"{\"number\":65536}", "number: number greater than 65535"},
		{"{\"yes\":0}", "yes: true or false expected"},
		{"{\"items\":{}}", "items: a list expected"},
		{"{\"items\":[1,10],\"number\":-1}", "items: number greater than 9"},
		{"{\"text\":\"a\"} x", "byte 13: text after the value"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct thing t;
		struct err err;

		assert_int_equal(read_thing(&t, cases[i].text, &err), -EBADMSG);
		assert_string_equal(err.text, cases[i].reason);
	}
}

static char *
printed(const char *text, size_t len)
{
	struct json j;
	struct err err = {0};
	size_t n;
	char *out;

	json_init(&j, text, len);
	out = json_print(&j, &n);
	if (json_finish(&j, &err) < 0)
		fail_msg("%s", err.text);
	return out;
}

/* The digest is over these bytes: what cJSON makes of them on the way must be the same bytes. */
static void
a_view_survives_cjson_byte_for_byte(void **state)
{
	static char odd[] = "quote \" slash / back \\ \b\f\n\r\t \x01\x1f\x7f \xc3\xa9\xe2\x82\xac"
			    "\xf0\x9f\x98\x80",
		    name[] = "n", broken[] = "\xff\xc3(", address[] = "2001:db8::1", empty[] = "";
	struct view_endpoint endpoints[] = {
		{.node = odd,
			.site = broken,
			.zone = empty,
			.hostname = empty,
			.pod = empty,
			.flags = 7,
			.pod_ip = address,
			.pod_port = UINT16_MAX,
			.host_ip = empty,
			.public_ip = empty,
			.given_ip = empty,
			.node_public = true},
		{.node = empty,
			.site = empty,
			.zone = empty,
			.hostname = empty,
			.pod = empty,
			.pod_ip = empty,
			.host_ip = empty,
			.public_ip = empty,
			.given_ip = empty},
	};
	struct view_port ports[] = {
		{.name = odd, .port = 1, .n_endpoints = 2, .endpoints = endpoints},
		{.name = empty, .port = 10},
	};
	struct view v = {.ns = name,
		.name = odd,
		.cluster_ip = empty,
		.external_name = broken,
		.headless = true,
		.lb.affinity_s = UINT32_MAX,
		.n_ports = 2,
		.ports = ports};
	auto_free char *again = NULL;
	auto_buf struct buf out;
	uint64_t digest;

	(void)state;
	buf_init(&out, BUF_UNLIMITED);
	digest = view_build(&out, &v);
	again = printed(buf_at(&out), buf_len(&out));
	assert_string_equal(again, buf_str(&out));
	assert_true(view_digest(again, strlen(again)) == digest);
}

static void
whole_numbers_print_as_such(void **state)
{
	static const char *const numbers[] = {"0", "1", "65535", "86400", "2147483647",
		"2147483648", "4294967295", "1700000000123", "999999999999999"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
		auto_free char *again = printed(numbers[i], strlen(numbers[i]));

		assert_string_equal(again, numbers[i]);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(strings),
		cmocka_unit_test(too_long_a_string_is_refused),
		cmocka_unit_test(wrong_texts_are_refused),
		cmocka_unit_test(nul_bytes_are_refused),
		cmocka_unit_test(right_texts_are_taken),
		cmocka_unit_test(numbers_are_bounded),
		cmocka_unit_test(depth_is_bounded),
		cmocka_unit_test(values_are_bounded),
		cmocka_unit_test(fields_are_found_by_their_very_name),
		cmocka_unit_test(wrong_fields_are_named),
		cmocka_unit_test(a_view_survives_cjson_byte_for_byte),
		cmocka_unit_test(whole_numbers_print_as_such),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
