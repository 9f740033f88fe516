#include "base/http/http1.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define GET "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
#define OLD "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
#define HEAD "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n"
#define POST "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n"
#define UPGRADE "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"
#define SWITCH "HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"
#define EARLY "HTTP/1.1 103 Early\r\n\r\n"
#define LENGTH "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
#define CHUNKED "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"
#define LOGIN(scheme)                                                                              \
	"HTTP/1.1 401 Who\r\nContent-Length: 0\r\nWWW-Authenticate: " scheme "\r\n\r\n"
#define CLOSE "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"

static struct http1_head head;

/* Which responses pass, and what the client gets in place of their heads. */
static void
heads(void **state)
{
	static const struct {
		const char *request, *answer;
		enum http1_answer what;
		const char *out; /* NULL: nothing, or why not */
		bool keep, chunked_down;
		enum http1_framing down;
	} rows[] = {
		{GET, LENGTH, HTTP1_ANSWER_FINAL, LENGTH, true, false, HTTP1_LENGTH},
		{GET, "HTTP/1.1 20", HTTP1_ANSWER_INCOMPLETE, NULL, true, false, HTTP1_EMPTY},
		{GET, "SSH-2.0-x\r\n\r\n", HTTP1_ANSWER_BAD, "the endpoint's answer is not HTTP",
			true, false, HTTP1_EMPTY},
		{GET, EARLY, HTTP1_ANSWER_INTERIM, EARLY, true, false, HTTP1_EMPTY},
		{OLD, EARLY, HTTP1_ANSWER_HIDDEN, NULL, true, false, HTTP1_EMPTY},
		{UPGRADE, SWITCH, HTTP1_ANSWER_SWITCH, SWITCH, true, false, HTTP1_EMPTY},
		{GET, SWITCH, HTTP1_ANSWER_BAD,
			"the endpoint switched protocols without being asked", true, false,
			HTTP1_EMPTY},
		/* An unknown length: chunks, or until close where the client knows none. */
		{GET, CLOSE, HTTP1_ANSWER_FINAL, CHUNKED "\r\n", true, true, HTTP1_UNTIL_CLOSE},
		{GET, CHUNKED "\r\n", HTTP1_ANSWER_FINAL, CHUNKED "\r\n", true, true,
			HTTP1_CHUNKED},
		{OLD, CHUNKED "\r\n", HTTP1_ANSWER_FINAL, CLOSE, false, false, HTTP1_CHUNKED},
		/* Nothing follows the head, whatever its framing says. */
		{HEAD, CHUNKED "\r\n", HTTP1_ANSWER_FINAL, CHUNKED "\r\n", true, false,
			HTTP1_EMPTY},
		{OLD, LENGTH, HTTP1_ANSWER_FINAL,
			"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\n",
			true, false, HTTP1_LENGTH},
		/* The request's body has not passed yet. */
		{POST, LENGTH, HTTP1_ANSWER_FINAL,
			"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n", false,
			false, HTTP1_LENGTH},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct http1_str data = {rows[i].answer, strlen(rows[i].answer)};
		auto_buf struct buf clean = {.limit = BUF_UNLIMITED};
		struct http1_exchange x = {0};
		enum http1_answer what;
		char out[256];
		size_t used;
		ssize_t n;

		assert_int_equal(
			http1_parse_request(&head, rows[i].request, strlen(rows[i].request)), 0);
		http1_exchange_begin(&x, &head);
		what = http1_exchange_read(&x, &head, data, &clean, &used);
		assert_int_equal(what, rows[i].what);
		if (what == HTTP1_ANSWER_BAD)
			assert_string_equal(head.why, rows[i].out);
		if (what != HTTP1_ANSWER_BAD && rows[i].out != NULL) {
			assert_int_equal(used, data.len);
			n = http1_exchange_emit(&x, &head, out, sizeof out);
			assert_int_equal(n, strlen(rows[i].out));
			assert_memory_equal(out, rows[i].out, (size_t)n);
		}
		assert_int_equal(x.keep, rows[i].keep);
		assert_int_equal(x.chunked_down, rows[i].chunked_down);
		assert_int_equal(x.down.framing, rows[i].down);
		http1_exchange_fini(&x);
	}
}

/* A login that belongs to the connection, asked for or brought along unasked. */
static void
logins(void **state)
{
	static const struct {
		const char *request, *answer;
		bool reusable;
	} rows[] = {
		{GET, LENGTH, true},
		{GET, LOGIN("Basic realm=a"), true},
		{GET, LOGIN("negotiate"), false},
		{GET, LOGIN("NTLM"), false},
		{"GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Basic eA==\r\n\r\n", LENGTH, true},
		{"GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Negotiate eA==\r\n\r\n", LENGTH,
			false},
		{"GET / HTTP/1.1\r\nHost: a\r\nauthorization: ntlm eA==\r\n\r\n", LENGTH, false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct http1_str data = {rows[i].answer, strlen(rows[i].answer)};
		auto_buf struct buf clean = {.limit = BUF_UNLIMITED};
		struct http1_exchange x = {0};
		char out[256];
		size_t used;

		assert_int_equal(
			http1_parse_request(&head, rows[i].request, strlen(rows[i].request)), 0);
		http1_exchange_begin(&x, &head);
		assert_int_equal(
			http1_exchange_read(&x, &head, data, &clean, &used), HTTP1_ANSWER_FINAL);
		assert_true(http1_exchange_emit(&x, &head, out, sizeof out) > 0);
		assert_int_equal(x.reusable, rows[i].reusable);
		http1_exchange_fini(&x);
	}
}

/* Bodies as they go on: plain or in chunks, the end with the trailers that may pass. */
static void
bodies(void **state)
{
	static const char in[] = "2;x=y\r\nab\r\n1\r\nc\r\n0\r\nX-Sum: 1\r\nHost: b\r\n\r\n";
	static const char *const want[] = {"abc", "2\r\nab\r\n1\r\nc\r\n0\r\nX-Sum: 1\r\n\r\n"};

	(void)state;
	for (int chunked = 0; chunked <= 1; chunked++) {
		auto_buf struct buf out = {.limit = BUF_UNLIMITED}, kept = {.limit = BUF_UNLIMITED};
		struct http1_body body;
		struct http1_str piece;
		size_t used;

		http1_body_init(&body, HTTP1_CHUNKED, 0);
		http1_body_keep(&body, &kept);
		for (size_t at = 0; !http1_body_done(&body); at += used) {
			const struct http1_str data = {in + at, strlen(in + at)};

			assert_int_not_equal(
				http1_body_pass(&body, data, &used, &piece, chunked, &out),
				HTTP1_BAD);
		}
		assert_string_equal(buf_str(&out), want[chunked]);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(heads),
		cmocka_unit_test(logins),
		cmocka_unit_test(bodies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
