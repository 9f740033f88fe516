#include "model/bundle.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/core/gzip.h"

static void
add_message(struct buf *lines, unsigned i)
{
	char id[37];
	auto_free char *resource = xasprintf("default/service/s%u", i);
	const struct saying say = {
		.source = "edgeway-hub",
		.operation = OP_UPDATE,
		.resource = resource,
		.content = "{\"a\":\"line\\nfeed\"}",
		.content_len = 18,
	};

	envelope_new_id(id);
	envelope_say(lines, &say, id);
	buf_adds(lines, "\n");
}

static void
messages_come_back_in_order(void **state)
{
	auto_buf struct buf lines, frame, back;
	struct envelope e, inner;
	struct err err = {0};
	const char *text;
	unsigned n = 0;
	size_t len;

	(void)state;
	buf_init(&lines, BUF_UNLIMITED);
	buf_init(&frame, BUF_UNLIMITED);
	for (unsigned i = 0; i < 200; i++)
		add_message(&lines, i);
	bundle_build(&frame, "edgeway-hub", NULL, &lines);
	assert_true(buf_len(&frame) * 3 < buf_len(&lines));
	assert_int_equal(envelope_parse(&e, buf_at(&frame), buf_len(&frame), &err), 0);
	assert_true(bundle_is(&e));
	assert_int_equal(bundle_open(&back, &e, &err), 0);
	while ((text = bundle_next(&back, &len)) != NULL) {
		auto_free char *resource = xasprintf("default/service/s%u", n++);

		assert_int_equal(strlen(text), len);
		assert_int_equal(envelope_parse(&inner, text, len, &err), 0);
		assert_string_equal(inner.resource, resource);
		assert_false(bundle_is(&inner));
		assert_int_not_equal(inner.id[0], '\0');
		free(inner.id);
		inner.id = xstrdup(n % 2 == 0 ? "" : "own");
		bundle_inherit(&inner, &e);
		assert_string_equal(inner.id, n % 2 == 0 ? e.id : "own");
		envelope_fini(&inner);
	}
	assert_int_equal(n, 200);
	envelope_fini(&e);
}

static int
open_content(const char *content, struct err *err)
{
	auto_buf struct buf back;
	struct envelope e = {.content = (char *)(uintptr_t)content, .content_len = strlen(content)};

	return bundle_open(&back, &e, err);
}

/* What a bundle with these bytes inside gives. */
static int
open_bytes(const struct buf *bytes, struct err *err)
{
	auto_buf struct buf content;

	buf_init(&content, BUF_UNLIMITED);
	buf_adds(&content, "\"");
	gzip_text(&content, buf_at(bytes), buf_len(bytes));
	buf_adds(&content, "\"");
	return open_content(buf_str(&content), err);
}

static void
bounds_hold(void **state)
{
	auto_buf struct buf bytes;
	struct err err = {0};

	(void)state;
	assert_int_equal(open_content("", &err), -EBADMSG);
	assert_int_equal(open_content("{}", &err), -EBADMSG);
	assert_int_equal(open_content("\"eJx\"", &err), -EBADMSG);
	buf_init(&bytes, BUF_UNLIMITED);
	buf_adds(&bytes, "{}");
	assert_int_equal(open_bytes(&bytes, &err), -EBADMSG);
	assert_non_null(strstr(err.text, "no end"));
	buf_adds(&bytes, "\n");
	assert_int_equal(open_bytes(&bytes, &err), 0);
	memset(buf_reserve(&bytes, ENVELOPE_MAX_BYTES), 'x', ENVELOPE_MAX_BYTES);
	buf_commit(&bytes, ENVELOPE_MAX_BYTES);
	assert_int_equal(open_bytes(&bytes, &err), -EMSGSIZE);
	assert_string_equal(err.text, "bundle: more than 8388608 bytes once unpacked");
	buf_consume(&bytes, buf_len(&bytes));
	for (unsigned i = 0; i < BUNDLE_LINES_MAX; i++)
		buf_adds(&bytes, "\n");
	assert_int_equal(open_bytes(&bytes, &err), 0);
	buf_adds(&bytes, "\n");
	assert_int_equal(open_bytes(&bytes, &err), -EMSGSIZE);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_come_back_in_order),
		cmocka_unit_test(bounds_hold),
	};

	return cmocka_run_group_tests_name("bundle", tests, NULL, NULL);
}
