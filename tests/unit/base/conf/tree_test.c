#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/conf/tree.h"
#include "base/core/buf.h"

static struct tree *
parse(const char *text)
{
	struct tree *t = NULL;
	struct err err = {0};

	if (tree_parse(&t, "f", text, strlen(text), &err) < 0)
		fail_msg("%s", err.text);
	return t;
}

/* The complaint about a text that must not parse. */
static const char *
refuse_bytes(const char *text, size_t len)
{
	static struct err err;
	struct tree *t = NULL;

	err = (struct err){0};
	assert_int_equal(tree_parse(&t, "f", text, len, &err), -EINVAL);
	assert_null(t);
	return err.text;
}

static const char *
refuse(const char *text)
{
	return refuse_bytes(text, strlen(text));
}

static void
reads_yaml_with_lines(void **state)
{
	struct tree *t =
		parse("# head\nname: x\nlist:\n  - one\n  - \"2\"\nmap: {a: 1,\n  b: 2}\n");
	const struct tree_node *root = tree_document(t, 0), *list = tree_get(root, "list");

	(void)state;
	assert_int_equal(tree_count(t), 1);
	assert_string_equal(tree_name(t), "f");
	assert_int_equal(root->kind, TREE_MAP);
	assert_string_equal(tree_text(tree_get(root, "name"), ""), "x");
	assert_int_equal(tree_get(root, "name")->line, 2);
	assert_int_equal(list->kind, TREE_LIST);
	assert_int_equal(list->child->line, 4);
	assert_false(list->child->quoted);
	assert_true(list->child->next->quoted);
	assert_null(list->child->next->next);
	assert_int_equal(tree_path(root, "map.b")->line, 7);
	assert_null(tree_path(root, "map.c"));
	assert_null(tree_path(root, "name.c"));
	tree_free(&t);
	assert_null(t);
}

static void
reads_many_documents(void **state)
{
	struct tree *t = parse("---\na: 1\n---\n---\n# nothing\n---\n- 2\n");

	(void)state;
	assert_int_equal(tree_count(t), 2);
	assert_int_equal(tree_document(t, 0)->kind, TREE_MAP);
	assert_int_equal(tree_document(t, 1)->kind, TREE_LIST);
	assert_null(tree_document(t, 2));
	tree_free(&t);
	t = parse("");
	assert_int_equal(tree_count(t), 0);
	tree_free(&t);
}

static void
reads_json_with_lines_and_digits(void **state)
{
	struct tree *t = parse("{\"a\": 9007199254740993,\n \"b\": [true, null,\n \"x\\n:,\\\"]\", "
			       "{}],\n\"c\":\n1.50}\n");
	const struct tree_node *root = tree_document(t, 0), *b = tree_get(root, "b");
	int64_t v = 0;

	(void)state;
	/* more digits than a double holds */
	assert_int_equal(tree_int(tree_get(root, "a"), 0, INT64_MAX, &v), 0);
	assert_true(v == 9007199254740993);
	assert_int_equal(b->line, 2);
	assert_true(tree_bool(b->child, false));
	assert_true(tree_is_null(b->child->next));
	assert_string_equal(tree_text(b->child->next->next, ""), "x\n:,\"]");
	assert_true(b->child->next->next->quoted);
	assert_int_equal(b->child->next->next->line, 3);
	assert_int_equal(b->child->next->next->next->kind, TREE_MAP);
	assert_int_equal(tree_get(root, "c")->line, 4);
	assert_string_equal(tree_text(tree_get(root, "c"), ""), "1.50");
	tree_free(&t);
}

static void
decodes_json_strings(void **state)
{
	struct tree *t =
		parse("[\"\\ud83d\\ude00\", \"\\u00e9\\/\\t\", \"\xc3\xa9\", \"\", \"\\\\u0000\"]");
	const struct tree_node *n = tree_document(t, 0)->child;

	(void)state;
	assert_string_equal(n->text, "\xf0\x9f\x98\x80");
	assert_string_equal(n->next->text, "\xc3\xa9/\t");
	assert_string_equal(n->next->next->text, "\xc3\xa9");
	assert_string_equal(n->next->next->next->text, "");
	assert_false(tree_is_null(n->next->next->next));
	assert_string_equal(n->next->next->next->next->text, "\\u0000");
	tree_free(&t);
}

static void
reads_several_json_texts_and_flow_yaml(void **state)
{
	struct tree *t = parse("{\"a\":1}\n\n[2]");
	struct err err = {0};

	(void)state;
	assert_int_equal(tree_count(t), 2);
	assert_int_equal(tree_document(t, 1)->line, 3);
	tree_free(&t);
	t = parse("{a: b}\n---\n{\"c\": 1}\n");
	assert_int_equal(tree_count(t), 2);
	assert_string_equal(tree_text(tree_get(tree_document(t, 0), "a"), ""), "b");
	tree_free(&t);
	/* what reads in the end leaves no complaint behind */
	assert_int_equal(tree_parse(&t, "f", "{}#", 3, &err), 0);
	assert_string_equal(err.text, "");
	tree_free(&t);
	t = parse("\xef\xbb\xbf{\"a\":1}");
	assert_int_equal(tree_count(t), 1);
	tree_free(&t);
}

static void
names_the_line_of_an_error(void **state)
{
	(void)state;
	assert_int_equal(strncmp(refuse("a: 1\nb: [\n"), "f:3: ", 5), 0);
	assert_int_equal(strncmp(refuse("a: 1\n  b: 2\n"), "f:2: ", 5), 0);
	assert_string_equal(refuse("{\"a\": 1,\n \"b\" 2}"), "f:2: not JSON at \"2}\"");
	assert_string_equal(refuse("a: 1\nb: 2\nc: 3\na: 4\n"),
		"f:4: the key \"a\" stands here a second time (first on line 1)");
	assert_string_equal(refuse("{\"a\": 1,\n\"a\": 2}"),
		"f:2: the key \"a\" stands here a second time (first on line 1)");
	assert_string_equal(refuse("a:\n  [b]: c\n"), "f:2: a key must be a plain text");
	assert_non_null(strstr(refuse("a: *b\n"), "f:1: *b: no such anchor"));
	assert_non_null(strstr(refuse("x: {c: d}\ny:\n  <<: {a: b}\n"), "f:3: merge keys"));
}

static void
refuses_what_is_not_text(void **state)
{
	(void)state;
	assert_string_equal(refuse_bytes("a: b\n\0c", 7), "f:2: not a text in UTF-8 (byte 0x00)");
	assert_non_null(strstr(refuse("a: \xff\n"), "f:1: not a text in UTF-8 (byte 0xff)"));
	assert_non_null(strstr(refuse("a: \xc0\xaf\n"), "UTF-8")); /* overlong */
	assert_non_null(strstr(refuse("a: \xed\xa0\x80\n"), "UTF-8")); /* surrogate */
	assert_non_null(strstr(refuse("a: \xe2\x82"), "UTF-8")); /* cut off */
	assert_non_null(strstr(refuse("{\"a\":\n\"\\u0000\"}"), "f:2: a text must not contain"));
	assert_non_null(strstr(refuse("\na: \"\\0\""), "f:2: a text must not contain"));
	assert_non_null(strstr(refuse("{\"a\":\"\\ud83d\"}"), "f:1: "));
}

static void
bounds_depth(void **state)
{
	char deep[300];
	struct tree *t;

	(void)state;
	memset(deep, '[', 64);
	memset(deep + 64, ']', 64);
	deep[128] = '\0';
	t = parse(deep);
	tree_free(&t);
	memset(deep, '[', 65);
	memset(deep + 65, ']', 65);
	deep[130] = '\0';
	assert_non_null(strstr(refuse(deep), "nested deeper than 64"));
	for (int i = 0; i < 66; i++)
		snprintf(deep + 3 * i, 4, "%s", "{a:");
	assert_non_null(strstr(refuse(deep), "f:1: "));
}

static void
repeats_aliases_within_bounds(void **state)
{
	struct tree *t = parse("base: &b {k: v, l: [1]}\nuse: *b\nword: &w hello\nagain: *w\n");
	const struct tree_node *root = tree_document(t, 0);

	(void)state;
	assert_string_equal(tree_text(tree_path(root, "use.k"), ""), "v");
	assert_string_equal(tree_get(root, "use")->key, "use");
	assert_string_equal(tree_text(tree_get(root, "again"), ""), "hello");
	assert_int_equal(tree_get(root, "again")->line, 4);
	tree_free(&t);
	assert_non_null(
		strstr(refuse("a: &a [1,1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\n"
			      "c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
			      "d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: [*d,*d]\n"),
			"f:4: *c: aliases repeat more than"));
	assert_non_null(strstr(refuse("a: &a [*a]\n"), "no such anchor"));
	/* an anchor ends with its document */
	assert_non_null(strstr(refuse("a: &a 1\n---\nb: *a\n"), "f:3: *a: no such anchor"));
}

static void
tells_nulls_bools_and_numbers(void **state)
{
	struct tree *t = parse(
		"n: null\ne:\nt: ~\nq: \"\"\nyes: yes\nqt: \"true\"\nno: False\ni: -12\nz: 007\n"
		"f: 1.5\nbig: 99999999999999999999\nqi: \"5\"\ns: !!str 5\nd: !!int \"6\"\nm: "
		"{}\n");
	const struct tree_node *r = tree_document(t, 0);
	int64_t v = 77;

	(void)state;
	assert_true(tree_is_null(tree_get(r, "n")) && tree_is_null(tree_get(r, "e")) &&
		tree_is_null(tree_get(r, "t")));
	assert_true(tree_is_null(tree_get(r, "absent")));
	assert_false(tree_is_null(tree_get(r, "q")));
	assert_int_equal(tree_get(r, "e")->line, 2);
	assert_string_equal(tree_text(tree_get(r, "n"), "other"), "other");
	assert_string_equal(tree_text(tree_get(r, "m"), "other"), "other");
	assert_true(tree_bool(tree_get(r, "yes"), false));
	assert_false(tree_bool(tree_get(r, "qt"), false));
	assert_false(tree_bool(tree_get(r, "no"), true));
	assert_int_equal(tree_int(tree_get(r, "i"), -20, 20, &v), 0);
	assert_int_equal(v, -12);
	assert_int_equal(tree_int(tree_get(r, "i"), 0, 20, &v), -ERANGE);
	assert_int_equal(tree_int(tree_get(r, "z"), 0, 20, &v), -EINVAL);
	assert_int_equal(tree_int(tree_get(r, "f"), 0, 20, &v), -EINVAL);
	assert_int_equal(tree_int(tree_get(r, "big"), 0, 20, &v), -ERANGE);
	assert_int_equal(tree_int(tree_get(r, "qi"), 0, 20, &v), -EINVAL);
	assert_int_equal(tree_int(tree_get(r, "s"), 0, 20, &v), -EINVAL);
	assert_int_equal(tree_int(tree_get(r, "n"), 0, 20, &v), -ENOENT);
	assert_int_equal(tree_int(NULL, 0, 20, &v), -ENOENT);
	assert_int_equal(v, -12); /* untouched by failures */
	assert_int_equal(tree_int(tree_get(r, "d"), 0, 20, &v), 0);
	assert_int_equal(v, 6);
	tree_free(&t);
}

static void
takes_large_maps(void **state)
{
	struct buf b auto_buf;
	struct tree *t;

	(void)state;
	buf_init(&b, BUF_UNLIMITED);
	for (int i = 0; i < 20000; i++)
		buf_printf(&b, "key%d: %d\n", i, i);
	t = parse(buf_str(&b));
	assert_string_equal(tree_text(tree_get(tree_document(t, 0), "key19999"), ""), "19999");
	assert_int_equal(tree_get(tree_document(t, 0), "key19999")->line, 20000);
	tree_free(&t);
	buf_adds(&b, "key7: again\n");
	assert_string_equal(refuse(buf_str(&b)),
		"f:20001: the key \"key7\" stands here a second time (first on line 8)");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_yaml_with_lines),
		cmocka_unit_test(reads_many_documents),
		cmocka_unit_test(reads_json_with_lines_and_digits),
		cmocka_unit_test(decodes_json_strings),
		cmocka_unit_test(reads_several_json_texts_and_flow_yaml),
		cmocka_unit_test(names_the_line_of_an_error),
		cmocka_unit_test(refuses_what_is_not_text),
		cmocka_unit_test(bounds_depth),
		cmocka_unit_test(repeats_aliases_within_bounds),
		cmocka_unit_test(tells_nulls_bools_and_numbers),
		cmocka_unit_test(takes_large_maps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
