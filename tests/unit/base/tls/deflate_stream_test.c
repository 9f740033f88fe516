#include "base/tls/deflate_stream.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/core/buf.h"

static void
put(void *arg, const void *data, size_t n)
{
	buf_add(arg, data, n);
}

/* All that waits in `wire`, expanded by small steps, must be what `text` has from `at` on. */
static size_t
expand_all(struct expand *x, struct buf *wire, const unsigned char *text, size_t at)
{
	const void *data = buf_at(wire);
	size_t left = buf_len(wire);
	unsigned char piece[777];
	ssize_t n;

	while ((n = expand_read(x, &data, &left, piece, sizeof piece)) > 0) {
		assert_memory_equal(piece, text + at, n);
		at += (size_t)n;
	}
	assert_int_equal(n, 0);
	assert_int_equal(left, 0);
	assert_false(expand_more(x));
	buf_consume(wire, buf_len(wire));
	return at;
}

/* How many bytes it takes on the wire, written `step` at a time; after each write the reader has it
 * all. */
static size_t
pass(const unsigned char *text, size_t n, size_t step)
{
	struct deflate_stream *q = deflate_stream_new();
	struct expand *x = expand_new();
	struct buf wire;
	size_t sent = 0, told = 0;

	buf_init(&wire, BUF_UNLIMITED);
	for (size_t at = 0; at < n; at += step) {
		deflate_stream_write(q, text + at, MIN(step, n - at), put, &wire);
		sent += buf_len(&wire);
		told = expand_all(x, &wire, text, told);
		assert_int_equal(told, MIN(at + step, n));
	}
	assert_in_range(deflate_stream_memory(q), 1, DEFLATE_STREAM_BYTES);
	deflate_stream_free(&q);
	expand_free(&x);
	buf_fini(&wire);
	return sent;
}

static void
fill_noise(unsigned char *to, size_t n)
{
	uint32_t v = 1;

	for (size_t i = 0; i < n; i++) {
		v = v * 1664525 + 1013904223;
		to[i] = (unsigned char)(v >> 24);
	}
}

static void
fill_text(unsigned char *to, size_t n)
{
	size_t at = 0;

	for (unsigned i = 0; at + 64 < n; i++)
		at += (size_t)sprintf(
			(char *)to + at, "GET /items/%u HTTP/1.1 200 %u\n", i * 7919, i);
	memset(to + at, '.', n - at);
}

static void
test_text(void **state)
{
	enum { N = 1 << 20 };
	unsigned char *text = xmalloc(N);

	(void)state;
	fill_text(text, N);
	assert_in_range(pass(text, N, 32768), 1, N / 3);
	assert_in_range(pass(text, N, 100000), 1, N / 3);
	pass(text, 3000, 1); /* byte by byte, as one types */
	free(text);
}

/* One byte more, whatever follows. */
static void
test_what_is_no_text(void **state)
{
	static const char *const heads[] = {"\x16\x03\x01\x02\x00\x01", "\x1f\x8b\x08\x01\x01",
		"SSH-2.0-OpenSSH_9.2\r\n", "\x28\xb5\x2f\xfd\x04\x01"};
	unsigned char *text = xmalloc(1 << 20);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
		fill_text(text, 1 << 20);
		memcpy(text, heads[i], strlen(heads[i]));
		assert_int_equal(pass(text, 1 << 20, strlen(heads[i])), (1 << 20) + 1);
	}
	free(text);
}

/* Text that turns into noise costs next to nothing more; and text that comes again is small
 * again. */
static void
test_what_changes(void **state)
{
	enum { N = 24 << 20, TEXT = 4 << 20 };
	unsigned char *text = xmalloc(N);
	size_t sent;

	(void)state;
	fill_text(text, N);
	fill_noise(text + 100000, N - TEXT - 100000);
	sent = pass(text, N, 65536);
	assert_in_range(sent, N - TEXT - 100000, N - TEXT / 2);
	free(text);
}

static void
test_garbage(void **state)
{
	static const char *const bad[] = {"\x02", "\x01\xff\xff\xff\xff\xff", "\x01\x03\x01"};
	char to[100];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct expand *x = expand_new();
		const void *data = bad[i];
		size_t left = strlen(bad[i]) + (i == 2);
		ssize_t n;

		while ((n = expand_read(x, &data, &left, to, sizeof to)) > 0)
			;
		assert_int_equal(n, -EBADMSG);
		expand_free(&x);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_what_is_no_text),
		cmocka_unit_test(test_what_changes),
		cmocka_unit_test(test_garbage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
