/* How a node tells of a service's endpoints, and how that is read: what is said comes out again,
 * and nothing else. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "model/health.h"

#define ONE "{\"port\":80,\"address\":\"192.0.2.1:80\",\"node\":\"a\",\"health\":\"up\"}"

static void
say(struct buf *out, unsigned n)
{
	struct health_text t;

	buf_init(out, BUF_UNLIMITED);
	health_begin(&t, out, true);
	for (unsigned i = 0; i < n; i++)
		health_add(&t, &(struct health_of){80, "192.0.2.1:80", "a", "up"});
	health_end(&t);
}

static void
there_and_back(void **state)
{
	struct health_said said;
	auto_buf struct buf text;

	(void)state;
	say(&text, 2);
	assert_string_equal(
		buf_str(&text), "{\"known\":true,\"endpoints\":[" ONE "," ONE "],\"more\":0}");
	assert_int_equal(health_read(&said, buf_at(&text), buf_len(&text), NULL), 0);
	assert_true(said.known && said.more == 0);
	assert_string_equal(buf_str(&said.list), "[" ONE "," ONE "]");
	health_fini(&said);
}

/* Beyond the bound there is a number, and what is said can be read whatever the names are. */
static void
very_many(void **state)
{
	static char node[254], address[54];
	struct health_said said;
	struct health_text t;
	auto_buf struct buf text;

	(void)state;
	memset(node, 'n', sizeof node - 1);
	memset(address, 'a', sizeof address - 1);
	buf_init(&text, BUF_UNLIMITED);
	health_begin(&t, &text, true);
	for (int i = 0; i < HEALTH_ENDPOINTS_MAX + 7; i++)
		health_add(&t, &(struct health_of){65535, address, node, "ejected"});
	health_end(&t);
	assert_true(buf_len(&text) < HEALTH_BYTES_MAX);
	assert_int_equal(health_read(&said, buf_at(&text), buf_len(&text), NULL), 0);
	assert_int_equal(said.more, 7);
	health_fini(&said);
}

static int
reads(const char *json, const char *list)
{
	struct health_said said;
	struct err err = {0};
	int rc = health_read(&said, json, strlen(json), &err);

	if (rc == 0)
		assert_string_equal(buf_str(&said.list), list);
	else
		assert_true(err.text[0] != '\0');
	health_fini(&said);
	return rc;
}

static void
what_others_say(void **state)
{
	auto_buf struct buf many;

	(void)state;
	assert_int_equal(reads("{\"endpoints\":[" ONE "],\"later\":{}}", "[" ONE "]"), 0);
	assert_int_equal(reads("{}", "[]"), 0);
	assert_int_equal(reads("[]", ""), -EBADMSG);
	assert_int_equal(reads("", ""), -EBADMSG);
	assert_int_equal(reads("{\"endpoints\":[{\"health\":\"<b>\"}]}", ""), -EBADMSG);
	assert_int_equal(reads("{\"endpoints\":[{\"port\":80}]}", ""), -EBADMSG);
	assert_int_equal(
		reads("{\"endpoints\":[{\"port\":65536,\"health\":\"up\"}]}", ""), -EBADMSG);
	assert_int_equal(
		reads("{\"endpoints\":[{\"node\":\"\\u0000\",\"health\":\"up\"}]}", ""), -EBADMSG);
	assert_int_equal(reads("{\"more\":-1}", ""), -EBADMSG);
	buf_init(&many, BUF_UNLIMITED);
	buf_adds(&many, "{\"endpoints\":[" ONE);
	for (int i = 0; i < HEALTH_ENDPOINTS_MAX; i++)
		buf_adds(&many, "," ONE);
	buf_adds(&many, "]}");
	assert_int_equal(reads(buf_str(&many), ""), -EBADMSG);
	buf_consume(&many, buf_len(&many));
	buf_printf(&many, "{\"x\":\"%*s\"}", HEALTH_BYTES_MAX, "");
	assert_int_equal(reads(buf_str(&many), ""), -EBADMSG);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(there_and_back),
		cmocka_unit_test(very_many),
		cmocka_unit_test(what_others_say),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
