#include "model/selector.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct kube_label list[] = {{(char[]){"edgeway.io/tier"}, (char[]){"b"}},
	{(char[]){"empty"}, (char[]){""}}, {(char[]){"site"}, (char[]){"lab"}}};
static const struct kube_labels labels = {3, list};

static bool
matches(const char *text)
{
	struct selector *s = NULL;
	struct err err = {0};
	bool yes;

	if (selector_parse(&s, text, &err) < 0)
		fail_msg("%s: %s", text, err.text);
	yes = selector_matches(s, &labels);
	selector_free(&s);
	return yes;
}

static void
requirements_hold_as_in_kubernetes(void **state)
{
	(void)state;
	assert_true(matches(""));
	assert_true(matches("  "));
	assert_true(matches("site"));
	assert_false(matches("!site"));
	assert_true(matches("! nothing"));
	assert_false(matches("nothing"));
	assert_true(matches("site=lab"));
	assert_true(matches(" site == lab "));
	assert_false(matches("site=labs"));
	assert_false(matches("site!=lab"));
	assert_true(matches("site != field"));
	assert_true(matches("nothing!=x"));
	assert_true(matches("edgeway.io/tier in (a, b)"));
	assert_false(matches("edgeway.io/tier in (a,c)"));
	assert_false(matches("edgeway.io/tier notin (a,b)"));
	assert_true(matches("edgeway.io/tier notin(a,c)"));
	assert_true(matches("nothing notin (a)"));
	assert_false(matches("nothing in (a)"));
	assert_true(matches("empty="));
	assert_true(matches("empty in ()"));
	assert_false(matches("site="));
	assert_true(matches("site=lab,edgeway.io/tier=b , !nothing"));
	assert_false(matches("site=lab,edgeway.io/tier=a"));
	assert_true(matches("in notin (x), notin!=y"));
}

static void
refuse(const char *text, const char *why)
{
	struct selector *s = NULL;
	struct err err = {0};

	if (selector_parse(&s, text, &err) != -EINVAL || s != NULL)
		fail_msg("taken: %s", text);
	if (strstr(err.text, why) == NULL)
		fail_msg("%s: %s", text, err.text);
}

static void
anything_else_is_refused(void **state)
{
	auto_free char *value = NULL;
	auto_buf struct buf many;

	(void)state;
	refuse(",", "a label");
	refuse("a,", "a label");
	refuse("a b", "expected at 'b'");
	refuse("a=b c", "a comma");
	refuse("a in b", "( expected");
	refuse("a in (b", ") expected");
	refuse("a in (b;c)", ") expected");
	refuse("!a=b", "a comma");
	refuse("a>1", "expected at '>1'");
	refuse("\xc3\xa9=1", "a label");
	buf_init(&many, BUF_UNLIMITED);
	for (int i = 0; i < SELECTOR_REQUIREMENTS_MAX; i++)
		buf_adds(&many, i > 0 ? ",a" : "a");
	assert_false(matches(buf_str(&many)));
	buf_adds(&many, ",a");
	refuse(buf_str(&many), "more than 32");
	buf_consume(&many, buf_len(&many));
	buf_adds(&many, "a in (b");
	for (int i = 1; i < SELECTOR_VALUES_MAX; i++)
		buf_adds(&many, ",b");
	buf_adds(&many, ",b)");
	refuse(buf_str(&many), "more than 128");
	buf_consume(&many, buf_len(&many));
	for (int i = 0; i < 64; i++)
		buf_adds(&many, "x");
	value = xasprintf("a=%s", buf_str(&many));
	refuse(value, "value of at most 63");
}

static void
labels_are_compared(void **state)
{
	struct kube_label same[] = {{(char[]){"edgeway.io/tier"}, (char[]){"b"}},
		{(char[]){"empty"}, (char[]){""}}, {(char[]){"site"}, (char[]){"lab"}}};
	struct kube_labels other = {3, same}, none = {0}, copy = kube_labels_copy(&labels);

	(void)state;
	assert_true(kube_labels_equal(&labels, &other));
	assert_true(kube_labels_equal(&copy, &other));
	assert_true(kube_labels_equal(NULL, &none));
	assert_false(kube_labels_equal(&labels, NULL));
	same[0].value = (char[]){"a"};
	assert_false(kube_labels_equal(&labels, &other));
	other.n = 2;
	assert_false(kube_labels_equal(&labels, &other));
	kube_labels_free(&copy);
	assert_true(kube_labels_equal(&copy, NULL));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requirements_hold_as_in_kubernetes),
		cmocka_unit_test(anything_else_is_refused),
		cmocka_unit_test(labels_are_compared),
	};

	return cmocka_run_group_tests_name("selector", tests, NULL, NULL);
}
