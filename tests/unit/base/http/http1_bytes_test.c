/*
 * Every byte that means something to somebody, at every place of a message: what is accepted must
 * be what an origin that forgives nothing (http1_strict.h) reads as the same fields, before it goes
 * through and after. Bytes 0 to 31 and 127 to 255 are put in and put in place of another, and so is
 * a CR in front of every byte there is.
 */
#include "base/http/http1.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/base/http/http1_strict.h"

enum { MOST = 512 };

static struct http1_head head, again;
static struct strict_head strict;
static char emitted[2 * HTTP1_HEAD_MAX];
static unsigned long accepted, refused;

static bool
is_part(struct http1_str ours, struct strict_part theirs)
{
	return ours.len == theirs.len && (ours.len == 0 || ours.at == theirs.at);
}

static void
fail_at(const char *what, const char *data, size_t len)
{
	fprintf(stderr, "#   ");
	for (size_t i = 0; i < len; i++)
		fprintf(stderr, data[i] >= ' ' && data[i] <= '~' ? "%c" : "\\x%02x",
			(unsigned char)data[i]);
	fail_msg("\n%s", what);
}

/* `head` is what was read of these bytes. */
static void
check_same(const char *data, size_t len, bool request)
{
	if (!strict_head(&strict, data, len, request))
		fail_at("accepted, but the origin refuses it", data, len);
	if (strict.n != head.n_fields)
		fail_at("the origin reads another number of fields", data, len);
	for (size_t i = 0; i < strict.n; i++)
		if (!is_part(head.fields[i].name, strict.names[i]) ||
			!is_part(head.fields[i].value, strict.values[i]))
			fail_at("the origin reads another field", data, len);
	if (request && !is_part(head.method, strict.line[0]))
		fail_at("the origin reads another method", data, len);
	if (!request && !is_part(head.reason, strict.line[2]))
		fail_at("the origin reads another reason", data, len);
}

/* Is `text` these bytes with each LF that stands alone made CRLF, and nothing else? */
static void
check_line_ends(const char *data, size_t len, struct http1_str text)
{
	char made[2 * MOST];
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		if (data[i] == '\n' && (i == 0 || data[i - 1] != '\r'))
			made[n++] = '\r';
		made[n++] = data[i];
	}
	if (n != text.len || memcmp(made, text.at, n) != 0)
		fail_at("another head than was sent", data, len);
}

static void
check_head(const char *data, size_t len, bool request)
{
	const struct http1_forward forward = {"192.0.2.1", "edgeway", "a", "1", NULL, false};
	struct http1_reply reply = {0};
	auto_buf struct buf clean = {.limit = BUF_UNLIMITED};
	struct http1_str text = {data, 0};
	struct http1_scan scan = {0};
	size_t from = 0;
	ssize_t n = request ? http1_find_end(data, len, &from)
			    : http1_find_answer_end(data, len, &scan, &clean, &text);

	if (n <= 0 ||
		(request ? http1_parse_request(&head, data, (size_t)n)
			 : http1_parse_response(&head, text.at, text.len, false)) != 0) {
		refused++;
		return;
	}
	accepted++;
	if (text.at != data)
		check_line_ends(data, (size_t)n, text);
	check_same(text.at, request ? (size_t)n : text.len, request);
	reply.framing = head.framing;
	n = request ? http1_emit_request(emitted, sizeof emitted, &head, &forward)
		    : http1_emit_response(emitted, sizeof emitted, &head, &reply);
	assert_true(n > 0);
	if (!strict_head(&strict, emitted, (size_t)n, request))
		fail_at("the origin refuses what goes on", data, len);
	assert_int_equal(request ? http1_parse_request(&again, emitted, (size_t)n)
				 : http1_parse_response(&again, emitted, (size_t)n, false),
		0);
	assert_true(again.framing == head.framing && again.length == head.length);
}

static void
check_chunks(const char *data, size_t len)
{
	auto_buf struct buf ours, theirs;
	struct http1_body body;
	struct http1_str piece;
	enum http1_got got;
	size_t at = 0, used, whole;

	buf_init(&ours, BUF_UNLIMITED);
	buf_init(&theirs, BUF_UNLIMITED);
	http1_body_init(&body, HTTP1_CHUNKED, 0);
	while ((got = http1_body_next(&body, data + at, len - at, &used, &piece)) == HTTP1_DATA) {
		at += used;
		buf_add(&ours, piece.at, piece.len);
	}
	if (got != HTTP1_DONE) {
		refused++;
		return;
	}
	accepted++;
	whole = strict_chunks(data, len, &theirs);
	if (whole != at + used)
		fail_at("the origin sees another end of the body", data, len);
	if (buf_len(&ours) != buf_len(&theirs) ||
		(buf_len(&ours) > 0 && memcmp(buf_at(&ours), buf_at(&theirs), buf_len(&ours)) != 0))
		fail_at("the origin reads another body", data, len);
}

static void
check(char kind, const char *data, size_t len)
{
	if (kind == 'c')
		check_chunks(data, len);
	else
		check_head(data, len, kind == '>');
}

/* text with `n` bytes at `at` in place of `gone` of its own. */
static void
check_with(const char *text, size_t at, size_t gone, const char *bytes, size_t n)
{
	char made[MOST];
	size_t len = strlen(text + 1) - gone + n;

	text++;
	assert_true(len <= sizeof made);
	memcpy(made, text, at);
	memcpy(made + at, bytes, n);
	memcpy(made + at + n, text + at + gone, len - at - n);
	check(text[-1], made, len);
}

static void
every_byte_everywhere(const char *text)
{
	size_t len = strlen(text + 1);

	for (size_t at = 0; at <= len; at++)
		for (unsigned c = 0; c < 256; c++) {
			const char pair[2] = {'\r', (char)c};

			check_with(text, at, 0, pair, 2);
			if (c >= 0x20 && c < 0x7f)
				continue;
			check_with(text, at, 0, pair + 1, 1);
			if (at < len)
				check_with(text, at, 1, pair + 1, 1);
		}
}

#define H "Host: a\r\n"

static void
requests(void **state)
{
	static const char *const texts[] = {
		">GET /i HTTP/1.1\r\n" H "X-Some: value\r\n\r\n",
		">POST /i HTTP/1.0\r\n" H "Content-Length: 5\r\nX:\r\nY: \t \r\n\r\n",
		">POST http://a/i?q HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" H
		"Trailer: X-T\r\n\r\n",
		">GET / HTTP/1.1\r\nx: yTransfer-Encoding: chunked\r\n" H
		"Connection: x-drop, close\r\nX-Drop: 1\r\n\r\n",
		">HEAD / HTTP/1.1\r\n" H
		"x:Content-Length: 3\r\nX-Forwarded-For: 192.0.2.9\r\nVia: 1.1 b\r\n\r\n",
	};

	(void)state;
	accepted = refused = 0;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		every_byte_everywhere(texts[i]);
	assert_true(accepted > 1000 && refused > 100000);
}

static void
responses(void **state)
{
	static const char *const texts[] = {
		"<HTTP/1.1 200 OK\r\nX-Some: value\r\nContent-Length: 2\r\n\r\n",
		"<HTTP/1.0 404\r\nx:Transfer-Encoding: chunked\r\nY:\r\n\r\n",
		"<HTTP/1.1 200 All right\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n",
		"<HTTP/1.1 103 Early Hints\r\nLink: </x>\r\nx: ySet-Cookie: a=b\r\n\r\n",
	};

	(void)state;
	accepted = refused = 0;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		every_byte_everywhere(texts[i]);
	assert_true(accepted > 1000 && refused > 50000);
}

static void
chunked_bodies(void **state)
{
	static const char *const texts[] = {
		"c5\r\nhello\r\n0\r\n\r\n",
		("c3;e=1\r\nabc\r\n1F "
		 ";f=\"g;\\\"h\"\r\n0123456789abcdef0123456789abcde\r\n0;z\r\nX-T: "
		 "1\r\nY:\r\n\r\n"),
		"c00\r\nx: yTransfer-Encoding: chunked\r\n\r\n",
	};

	(void)state;
	accepted = refused = 0;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		every_byte_everywhere(texts[i]);
	assert_true(accepted > 1000 && refused > 20000);
}

/* What is payload, and where the message ends, for each framing. What is behind is not taken. */
static void
bodies_end_where_they_say(void **state)
{
	struct http1_str piece;
	struct http1_body b;
	size_t used;

	(void)state;
	http1_body_init(&b, HTTP1_EMPTY, 0);
	assert_true(http1_body_done(&b));
	http1_body_init(&b, HTTP1_LENGTH, 0);
	assert_true(http1_body_done(&b));
	http1_body_init(&b, HTTP1_LENGTH, 10);
	assert_false(http1_body_done(&b));
	assert_int_equal(http1_body_raw(&b), 10);
	assert_int_equal(http1_body_next(&b, "ab", 2, &used, &piece), HTTP1_DATA);
	assert_int_equal(piece.len, 2);
	assert_int_equal(http1_body_next(&b, "", 0, &used, &piece), HTTP1_MORE);
	http1_body_skip(&b, 5);
	assert_false(http1_body_done(&b));
	assert_int_equal(http1_body_raw(&b), 3);
	assert_int_equal(http1_body_next(&b, "cdeGET", 6, &used, &piece), HTTP1_DATA);
	assert_int_equal(used, 3);
	assert_true(http1_body_done(&b));
	assert_int_equal(http1_body_raw(&b), 0);
	assert_int_equal(http1_body_next(&b, "GET", 3, &used, &piece), HTTP1_DONE);
	assert_int_equal(used, 0);
	http1_body_init(&b, HTTP1_LENGTH, 4);
	http1_body_skip(&b, 4);
	assert_true(http1_body_done(&b));

	http1_body_init(&b, HTTP1_UNTIL_CLOSE, 0);
	assert_int_equal(http1_body_raw(&b), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(http1_body_next(&b, "abc", 3, &used, &piece), HTTP1_DATA);
		assert_int_equal(piece.len, 3);
		assert_false(http1_body_done(&b));
	}
}

/* A chunk's line with its CR, and all trailers, may be so long and no longer. */
static void
lines_of_chunks_have_a_limit(void **state)
{
	enum { LINE = 4096 };
	struct http1_str piece;
	struct http1_body b;
	struct buf text;
	size_t used;

	(void)state;
	for (size_t more = 0; more < 2; more++) {
		buf_init(&text, BUF_UNLIMITED);
		buf_adds(&text, "0;");
		for (size_t i = 0; i < LINE - 3 + more; i++)
			buf_adds(&text, "e");
		buf_adds(&text, "\r\n\r\n");
		http1_body_init(&b, HTTP1_CHUNKED, 0);
		assert_int_equal(http1_body_next(&b, buf_at(&text), buf_len(&text), &used, &piece),
			more == 0 ? HTTP1_DONE : HTTP1_BAD);
		buf_fini(&text);
		buf_init(&text, BUF_UNLIMITED);
		buf_adds(&text, "0\r\nX:");
		for (size_t i = 0; i < HTTP1_TRAILERS_MAX - 6 + more; i++)
			buf_adds(&text, "v");
		buf_adds(&text, "\r\n\r\n");
		http1_body_init(&b, HTTP1_CHUNKED, 0);
		assert_int_equal(http1_body_next(&b, buf_at(&text), buf_len(&text), &used, &piece),
			more == 0 ? HTTP1_DONE : HTTP1_BAD);
		buf_fini(&text);
	}
}

static void
heads_by_the_byte(void **state)
{
	static const struct {
		const char *fields;
		int status;
		uint64_t length;
	} rows[] = {
		{"Content-Length: 9223372036854775807\r\n", 0, INT64_MAX},
		{"Content-Length: 9223372036854775808\r\n", 400, 0},
		{"Content-Length: 09223372036854775807\r\n", 400, 0},
		{"Content-Length: 0000000000000000007\r\n", 0, 7},
		{"Content-Length: \r\n", 400, 0},
	};
	struct http1_head h;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_free char *text = xasprintf("POST / HTTP/1.1\r\n" H "%s\r\n", rows[i].fields);

		assert_int_equal(http1_parse_request(&h, text, strlen(text)), rows[i].status);
		if (rows[i].status == 0)
			assert_int_equal(h.length, rows[i].length);
	}
	for (int minor = 0; minor < 2; minor++) { /* RFC 9110 section 10.1.1 */
		auto_free char *text = xasprintf("POST / HTTP/1.%d\r\n" H "Content-Length: 1\r\n"
						 "Expect: 100-continue\r\n\r\n",
			minor);

		assert_int_equal(http1_parse_request(&h, text, strlen(text)), 0);
		assert_int_equal(h.expects, minor == 1);
	}
}

static void
chunk_sizes_have_all_digits(void **state)
{
	static const char digits[] = "0123456789abcdefABCDEF";
	static const char payload[256], end[] = "\r\n0\r\n\r\n";
	struct http1_str piece;
	struct http1_body b;
	size_t used;

	(void)state;
	for (size_t i = 1; digits[i] != '\0'; i++) {
		char line[4] = {digits[i], '\r', '\n', '\0'};
		size_t want = i < 16 ? i : i - 6, got = 0;

		http1_body_init(&b, HTTP1_CHUNKED, 0);
		assert_int_equal(http1_body_next(&b, line, 3, &used, &piece), HTTP1_MORE);
		assert_int_equal(http1_body_raw(&b), 0);
		assert_int_equal(
			http1_body_next(&b, payload, sizeof payload, &got, &piece), HTTP1_DATA);
		assert_int_equal(piece.len, want);
		assert_int_equal(
			http1_body_next(&b, end, sizeof end - 1, &used, &piece), HTTP1_DONE);
		assert_int_equal(used, 7);
	}
	for (const char *bad = "/:`g@G"; *bad != '\0'; bad++) {
		http1_body_init(&b, HTTP1_CHUNKED, 0);
		assert_int_equal(http1_body_next(&b, bad, 1, &used, &piece), HTTP1_BAD);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests),
		cmocka_unit_test(responses),
		cmocka_unit_test(chunked_bodies),
		cmocka_unit_test(bodies_end_where_they_say),
		cmocka_unit_test(chunk_sizes_have_all_digits),
		cmocka_unit_test(lines_of_chunks_have_a_limit),
		cmocka_unit_test(heads_by_the_byte),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
