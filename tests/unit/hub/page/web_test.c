/*
 * The leaves of the hub's page: which requests are answered, what a viewer wants, and the files
 * that are part of the program.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "hub/page/web_files.h"
#include "hub/page/web_judge.h"
#include "hub/page/web_want.h"

static const char *const names[] = {"hub.test", NULL};
static struct http1_head head;
static char request[1024];

static const struct http1_head *
parse(const char *method, const char *host, const char *fields)
{
	int n = snprintf(request, sizeof request, "%s / HTTP/1.1\r\nHost: %s\r\n%s\r\n", method,
		host, fields);

	assert_int_equal(http1_parse_request(&head, request, (size_t)n), 0);
	return &head;
}

static unsigned
judge(const char *method, const char *host, const char *fields)
{
	const char *why = "";
	unsigned status = web_judge(parse(method, host, fields), names, true, &why);

	assert_true(why[0] != '\0');
	return status;
}

static void
methods(void **state)
{
	(void)state;
	assert_int_equal(judge("GET", "localhost", ""), 0);
	assert_int_equal(judge("HEAD", "localhost", ""), 0);
	assert_int_equal(judge("POST", "localhost", ""), 405);
	assert_int_equal(judge("get", "localhost", ""), 405);
	assert_int_equal(judge("GETS", "localhost", ""), 405);
	assert_int_equal(judge("GET", "localhost", "Content-Length: 0\r\n"), 0);
	assert_int_equal(judge("GET", "localhost", "Content-Length: 3\r\n"), 400);
	assert_int_equal(judge("GET", "localhost", "Transfer-Encoding: chunked\r\n"), 400);
}

static void
hosts(void **state)
{
	static const char *const ours[] = {"localhost", "LOCALHOST:10014", "192.0.2.1",
		"192.0.2.1:443", "[::1]", "[2001:db8::1]:10014", "hub.test", "HUB.test:1"};
	static const char *const others[] = {"localhost.evil.example", "evil.example", "hub.test.x",
		"xhub.test", "192.0.2.1.evil.example", "1.2.3", "0x7f000001", "hub"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(ours); i++)
		assert_int_equal(judge("GET", ours[i], ""), 0);
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		assert_int_equal(judge("GET", others[i], ""), 421);
}

static void
origins(void **state)
{
	const char *why;

	(void)state;
	assert_int_equal(judge("GET", "hub.test:1", "Origin: https://hub.test:1\r\n"), 0);
	assert_int_equal(judge("GET", "hub.test:1", "Origin: https://HUB.test:1\r\n"), 0);
	assert_int_equal(judge("GET", "hub.test:1", "Origin: http://hub.test:1\r\n"), 403);
	assert_int_equal(judge("GET", "hub.test:1", "Origin: https://hub.test\r\n"), 403);
	assert_int_equal(judge("GET", "hub.test:1", "Origin: https://hub.test:1.x\r\n"), 403);
	assert_int_equal(judge("GET", "hub.test:1", "Origin: null\r\n"), 403);
	assert_int_equal(judge("GET", "hub.test:1", "Origin: \r\n"), 403);
	assert_int_equal(web_judge(parse("GET", "localhost:1", "Origin: http://localhost:1\r\n"),
				 NULL, false, &why),
		0);
	assert_int_equal(web_judge(parse("GET", "hub.test", ""), NULL, false, &why), 421);
}

static void
says_secret(const char *field, const char *want)
{
	auto_free char *secret = web_secret(parse("GET", "localhost", field));

	if (want == NULL)
		assert_null(secret);
	else
		assert_string_equal(secret, want);
}

static void
secrets(void **state)
{
	(void)state;
	says_secret("", NULL);
	says_secret("Authorization: Bearer sesame\r\n", "sesame");
	says_secret("Authorization: bearer a b\r\n", "a b");
	says_secret("Authorization: Bearer\r\n", NULL);
	says_secret("Authorization: Basic YW5uOnNlOnNhbWU=\r\n", "se:same"); /* ann:se:same */
	says_secret("Authorization: Basic YW5u\r\n", NULL); /* no colon */
	says_secret("Authorization: Basic ?\r\n", NULL);
	says_secret("Authorization: Digest x\r\n", NULL);
}

static void
wants(void **state)
{
	struct want w;

	(void)state;
	assert_int_equal(want_parse(&w, ""), 0);
	assert_int_equal(w.view, WANT_OVERVIEW);
	assert_int_equal(want_parse(&w, "view=nodes&q=edge%2d1&sort=in&desc=1&from=50&site="), 0);
	assert_true(w.view == WANT_NODES && w.sort == SORT_IN && w.desc && !w.troubled);
	assert_true(w.from == 50 && w.has_site && w.site[0] == '\0');
	assert_string_equal(w.q, "edge-1");
	assert_int_equal(want_parse(&w, "view=service&name=a%2Fb"), 0);
	assert_string_equal(w.name, "a/b");
	assert_int_equal(want_parse(&w, "view=all"), -EINVAL);
	assert_int_equal(want_parse(&w, "view=nodes&sort=size"), -EINVAL);
	assert_int_equal(want_parse(&w, "view=nodes&from=-1"), -EINVAL);
	assert_int_equal(want_parse(&w, "view=nodes&from=99999999"), -EINVAL);
	assert_int_equal(want_parse(&w, "view=nodes&q=%00"), -EINVAL);
	assert_true(w.view == WANT_OVERVIEW && w.q[0] == '\0');
}

static void
files(void **state)
{
	static const char *const paths[] = {"/", "/app.js", "/draw.js", "/style.css", "/icon.svg"};
	const struct web_file *page = web_file_find("/", 1);
	char etag[WEB_ETAG_TEXT], other[WEB_ETAG_TEXT];
	size_t sum = 0;

	(void)state;
	assert_null(web_file_find("", 0));
	assert_null(web_file_find("/app.jsx", 8));
	assert_null(web_file_find("/app.jsx", 6));
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		const struct web_file *f = web_file_find(paths[i], strlen(paths[i]));

		assert_non_null(f);
		assert_true(f->len > 100 && f->data[f->len - 1] == '\n');
		sum += f->len;
	}
	assert_true(sum < 72 * 1024);
	assert_memory_equal(page->data, "<!DOCTYPE html>", 15);
	web_file_etag(page, etag);
	web_file_etag(web_file_find("/app.js", 7), other);
	assert_true(strlen(etag) == 18 && strcmp(etag, other) != 0);
	snprintf(request, sizeof request, "If-None-Match: W/\"x\", %s\r\n", etag);
	{
		auto_free char *field = xstrdup(request);

		assert_true(web_unchanged(parse("GET", "localhost", field), etag));
		assert_false(web_unchanged(parse("GET", "localhost", field), other));
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(methods),
		cmocka_unit_test(hosts),
		cmocka_unit_test(origins),
		cmocka_unit_test(secrets),
		cmocka_unit_test(wants),
		cmocka_unit_test(files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
