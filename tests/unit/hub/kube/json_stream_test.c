/* The cutter of answers: recorded bodies at every border, and what is no JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/conf/tree.h"
#include "hub/kube/json_stream.h"

struct got {
	struct buf text; /* the values, a line each */
	unsigned n, too_large;
	int stop; /* returned at the second value */
};

static int
on_value(void *arg, const char *text, size_t len)
{
	struct got *g = arg;

	if (text == NULL) {
		g->too_large++;
		return 0;
	}
	assert_int_equal(text[len], '\0');
	buf_add(&g->text, text, len);
	buf_adds(&g->text, "\n");
	g->n++;
	return g->n == 2 ? g->stop : 0;
}

/* Feeds the text in two pieces, or, with `piece`, in pieces of that size; the values and the rest
 * of a list. */
static int
run(enum json_stream_mode mode, const char *text, size_t at, size_t piece, struct got *g)
{
	size_t len = strlen(text), n;
	struct json_stream s;
	int rc = 0;

	json_stream_init(&s, mode, on_value, g);
	for (size_t i = 0; i < len && rc == 0; i += n) {
		auto_free char *copy = NULL;

		n = piece != 0 ? MIN(piece, len - i) : i == 0 && at > 0 ? at : len - i;
		copy = xmemdup(text + i, n); /* so that a sanitizer sees what is read beyond */
		rc = json_stream_feed(&s, copy, n);
	}
	if (rc == 0 && !json_stream_whole(&s))
		rc = -EAGAIN;
	if (mode == JSON_STREAM_LIST)
		buf_adds(&g->text, json_stream_rest(&s, &n));
	json_stream_fini(&s);
	return rc;
}

static int
cut(enum json_stream_mode mode, const char *text, size_t at, size_t piece, char **values)
{
	struct got g = {0};
	int rc;

	buf_init(&g.text, BUF_UNLIMITED);
	rc = run(mode, text, at, piece, &g);
	*values = buf_take_str(&g.text);
	buf_fini(&g.text);
	return rc;
}

static void
gives(enum json_stream_mode mode, const char *text, const char *values)
{
	for (size_t at = 0; at < strlen(text); at++) {
		auto_free char *got = NULL;

		assert_int_equal(cut(mode, text, at, 0, &got), 0);
		assert_string_equal(got, values);
	}
}

static void
refuses(enum json_stream_mode mode, const char *text)
{
	auto_free char *got = NULL;

	if (cut(mode, text, 0, 1, &got) != -EBADMSG)
		fail_msg("taken: %s", text);
}

static void
streams(void **state)
{
	(void)state;
	gives(JSON_STREAM_STREAM, "{\"a\":1}\n{\"b\":{\"c\":[1,{}]}}\n",
		"{\"a\":1}\n{\"b\":{\"c\":[1,{}]}}\n");
	gives(JSON_STREAM_STREAM, "{}{}", "{}\n{}\n");
	gives(JSON_STREAM_STREAM, "{\"}\":\"{\\\"\\\\\"}\r\n \t{\n\"x\":\"]\"}",
		"{\"}\":\"{\\\"\\\\\"}\n{\n\"x\":\"]\"}\n");
	gives(JSON_STREAM_STREAM, "\n", "");
}

static void
lists(void **state)
{
	(void)state;
	gives(JSON_STREAM_LIST, "{\"kind\":\"L\",\"metadata\":{\"items\":[{}]},\"items\":[]}\n",
		"{\"kind\":\"L\",\"metadata\":{\"items\":[{}]},\"items\":[]}\n");
	gives(JSON_STREAM_LIST,
		"{\"items\":[{\"items\":[{\"a\":1}]}, {\"b\":[2]}\n],\"metadata\":{\"c\":\"]\"}}",
		"{\"items\":[{\"a\":1}]}\n{\"b\":[2]}\n{\"items\":[],\"metadata\":{\"c\":\"]\"}}");
	gives(JSON_STREAM_LIST, "{\"items\":null,\"x\":[{}]}", "{\"items\":null,\"x\":[{}]}");
	gives(JSON_STREAM_LIST,
		"{\"\\u0069tems\":[{}],\"my-items\":[{}],\"itemsitems\":[{}],\"kind\":\"items\"}",
		"{\"\\u0069tems\":[{}],\"my-items\":[{}],\"itemsitems\":[{}],\"kind\":\"items\"}");
}

static void
no_json(void **state)
{
	auto_free char *deep = xmalloc(2 * JSON_STREAM_DEPTH_MAX + 1), *got = NULL;

	(void)state;
	refuses(JSON_STREAM_STREAM, "Too many requests");
	refuses(JSON_STREAM_STREAM, "[{}]");
	refuses(JSON_STREAM_STREAM, "{}}");
	refuses(JSON_STREAM_STREAM, "{},{}");
	refuses(JSON_STREAM_LIST, "{\"items\":[1]}");
	refuses(JSON_STREAM_LIST, "{\"items\":[[]]}");
	refuses(JSON_STREAM_LIST, "{\"items\":[{}:{}]}");
	refuses(JSON_STREAM_LIST, "{}{}");
	memset(deep, '{', 2 * JSON_STREAM_DEPTH_MAX);
	deep[2 * JSON_STREAM_DEPTH_MAX] = '\0';
	refuses(JSON_STREAM_LIST, deep);
	assert_int_equal(cut(JSON_STREAM_LIST, "{\"items\":[{}", 0, 0, &got), -EAGAIN);
}

/* What a tenant writes into an object of his must not spoil the list for all: the parser takes 64
 * levels, and no NUL. */
static void
objects_of_tenants(void **state)
{
	auto_buf struct buf text, kept;
	struct tree *tree = NULL;
	struct err err = {0};

	(void)state;
	buf_init(&text, BUF_UNLIMITED);
	buf_init(&kept, BUF_UNLIMITED);
	for (int i = 0; i < 20000; i++) {
		buf_adds(&text, "{\"f:a\":");
		buf_adds(&kept,
			i < JSON_STREAM_DEPTH_KEPT            ? "{\"f:a\":"
				: i == JSON_STREAM_DEPTH_KEPT ? "{"
							      : "");
	}
	buf_adds(&text, "[{\"b\":\"}\\\"]\"}]");
	for (int i = 0; i < 20000; i++) {
		buf_adds(&text, ",\"c\":1}");
		buf_adds(&kept, i == 0 ? "}" : i <= JSON_STREAM_DEPTH_KEPT ? ",\"c\":1}" : "");
	}
	buf_adds(&kept, "\n");
	for (size_t piece = 1; piece < 100; piece += 49) {
		struct got g = {0};

		buf_init(&g.text, BUF_UNLIMITED);
		assert_int_equal(run(JSON_STREAM_STREAM, buf_str(&text), 0, piece, &g), 0);
		assert_string_equal(buf_str(&g.text), buf_str(&kept));
		assert_int_equal(
			tree_parse(&tree, "object", buf_str(&g.text), buf_len(&g.text), &err), 0);
		tree_free(&tree);
		buf_fini(&g.text);
	}
	gives(JSON_STREAM_LIST, "{\"items\":[{\"a\":\"\\u0000\\\\u0000\\\\\\u0000\"},{\"b\":1}]}",
		"{\"a\":\"\\ufffd\\\\u0000\\\\\\ufffd\"}\n{\"b\":1}\n{\"items\":[]}");
}

/* Whoever sends without end is held to a bound, and the values behind are still found. */
static void
bounds(void **state)
{
	auto_free char *big = xmalloc(200002);
	struct got g = {0};
	struct json_stream s;

	(void)state;
	memset(big, 'x', 200001);
	big[200001] = '\0';
	buf_init(&g.text, BUF_UNLIMITED);
	json_stream_init(&s, JSON_STREAM_STREAM, on_value, &g);
	s.value_max = 100000;
	assert_int_equal(json_stream_feed(&s, "{\"a\":\"", 6), 0);
	assert_int_equal(json_stream_feed(&s, big, 200001), 0);
	assert_true(s.value.size < 200000);
	assert_int_equal(json_stream_feed(&s, "\"}{\"b\":1}", 9), 0);
	assert_string_equal(buf_str(&g.text), "{\"b\":1}\n");
	assert_int_equal(g.too_large, 1);
	assert_true(json_stream_whole(&s));
	json_stream_fini(&s);
	json_stream_init(&s, JSON_STREAM_LIST, on_value, &g);
	assert_int_equal(json_stream_feed(&s, "{\"a\":\"", 6), 0);
	assert_int_equal(json_stream_feed(&s, big, 200001), -EBADMSG);
	json_stream_fini(&s);
	buf_fini(&g.text);
}

static void
stops(void **state)
{
	struct got g = {.stop = -ESTALE};

	(void)state;
	buf_init(&g.text, BUF_UNLIMITED);
	assert_int_equal(run(JSON_STREAM_STREAM, "{}{}{}", 0, 0, &g), -ESTALE);
	assert_int_equal(g.n, 2);
	buf_fini(&g.text);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(streams),
		cmocka_unit_test(lists),
		cmocka_unit_test(no_json),
		cmocka_unit_test(objects_of_tenants),
		cmocka_unit_test(bounds),
		cmocka_unit_test(stops),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
