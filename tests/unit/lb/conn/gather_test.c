/* Bodies from one socket to another, to the byte: which chunks become one, and that none is lost,
 * doubled or out of order at any limit. Found by tests/mutation. */
#include "lb/conn/gather.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static struct {
	struct loop *loop;
	struct peer to;
	int other;
	struct buf in, out, want;
	struct http1_body body;
	struct gather g;
} t;

static void
on_ready(void *arg, int fd, unsigned events)
{
	(void)arg, (void)fd, (void)events;
}

static int
start(void **state)
{
	int fds[2];

	(void)state;
	assert_int_equal(loop_new(&t.loop, NULL), 0);
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
	peer_open(&t.to, t.loop, fds[0], false, on_ready, NULL);
	t.other = fds[1];
	buf_init(&t.in, BUF_UNLIMITED);
	buf_init(&t.out, BUF_UNLIMITED);
	buf_init(&t.want, BUF_UNLIMITED);
	http1_body_init(&t.body, HTTP1_CHUNKED, 0);
	gather_init(&t.g, &t.to);
	return 0;
}

static int
stop(void **state)
{
	(void)state;
	peer_close(&t.to, false);
	close(t.other);
	buf_fini(&t.in);
	buf_fini(&t.out);
	buf_fini(&t.want);
	loop_free(&t.loop);
	return 0;
}

static void
add_chunk_to(struct buf *b, size_t len, char fill)
{
	buf_printf(b, "%zx\r\n", len);
	for (size_t i = 0; i < len; i++)
		buf_add(b, &fill, 1);
	buf_adds(b, "\r\n");
}

/* n chunks of the same length. */
static void
say(unsigned n, size_t len)
{
	for (unsigned i = 0; i < n; i++)
		add_chunk_to(&t.in, len, (char)('a' + i % 26));
}

static void
drain(void)
{
	char bytes[65536];
	ssize_t n;

	do {
		while ((n = recv(t.other, bytes, sizeof bytes, 0)) > 0)
			buf_add(&t.out, bytes, (size_t)n);
		assert_true(peer_flush(&t.to) == 0);
	} while (!peer_is_flushed(&t.to));
	while ((n = recv(t.other, bytes, sizeof bytes, 0)) > 0)
		buf_add(&t.out, bytes, (size_t)n);
}

/* What is in `in`, as if it came at once. */
static enum http1_got
pass(bool chunked_out)
{
	size_t used;
	enum http1_got got =
		gather_body(&t.g, &t.body, chunked_out, buf_at(&t.in), buf_len(&t.in), &used);

	assert_int_equal(gather_flush(&t.g), 0);
	buf_consume(&t.in, used);
	drain();
	return got;
}

static void
check_out(void)
{
	assert_int_equal(buf_len(&t.out), buf_len(&t.want));
	assert_string_equal(buf_str(&t.out), buf_str(&t.want));
}

/* Their payload, in chunks of these lengths. */
static void
want_merged(const size_t *lens)
{
	const char *from = buf_str(&t.in);
	struct http1_body body;
	struct http1_str piece;
	auto_buf struct buf payload;
	size_t used, at = 0, sum = 0;

	buf_init(&payload, BUF_UNLIMITED);
	http1_body_init(&body, HTTP1_CHUNKED, 0);
	while (http1_body_next(&body, from + at, buf_len(&t.in) - at, &used, &piece) ==
		HTTP1_DATA) {
		buf_add(&payload, piece.at, piece.len);
		at += used;
	}
	for (; *lens != 0; sum += *lens++) {
		buf_printf(&t.want, "%zx\r\n", *lens);
		buf_add(&t.want, buf_str(&payload) + sum, *lens);
		buf_adds(&t.want, "\r\n");
	}
	assert_int_equal(sum, buf_len(&payload));
	buf_adds(&t.want, "0\r\n\r\n");
}

static void
test_small_chunks_become_one(void **state)
{
	static const struct {
		unsigned n[2];
		size_t len[2], want[4];
	} rows[] = {
		{{100, 0}, {10, 0}, {1000}},
		{{3, 1}, {5, 600}, {15, 600}}, /* a larger one stays */
		{{1, 1}, {511, 512}, {511, 512}},
		{{20, 0}, {500, 0}, {8000, 2000}}, /* as many as there is room for */
		{{16, 1}, {511, 16}, {8192}},
		{{16, 1}, {511, 17}, {8176, 17}},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (i > 0) {
			stop(state);
			start(state);
		}
		say(rows[i].n[0], rows[i].len[0]);
		say(rows[i].n[1], rows[i].len[1]);
		buf_adds(&t.in, "0\r\n\r\n");
		want_merged(rows[i].want);
		assert_int_equal(pass(true), HTTP1_DONE);
		check_out();
		assert_int_equal(buf_len(&t.in), 0);
		assert_int_equal(
			t.g.payload, rows[i].n[0] * rows[i].len[0] + rows[i].n[1] * rows[i].len[1]);
	}
}

/* More pieces than one write takes, with a head in front. */
static void
test_many_pieces(void **state)
{
	static const char head[] = "HTTP/1.1 200 OK\r\n\r\n";

	(void)state;
	for (int i = 0; i < 200; i++) {
		say(1, 5);
		say(1 + i % 2, 600);
	}
	buf_adds(&t.in, "0\r\nX-After: 1\r\n\r\nnext");
	buf_adds(&t.want, head);
	buf_add(&t.want, buf_at(&t.in), buf_len(&t.in) - strlen("X-After: 1\r\n\r\nnext"));
	buf_adds(&t.want, "\r\n");
	gather_add(&t.g, head, sizeof head - 1);
	gather_add(&t.g, head, 0);
	assert_int_equal(pass(true), HTTP1_DONE);
	check_out();
	assert_string_equal(buf_str(&t.in), "next");
}

/* To one that takes no chunks; and of known length, where nothing behind it is taken. */
static void
test_without_chunks(void **state)
{
	(void)state;
	say(100, 9);
	say(60, 700);
	buf_adds(&t.in, "0\r\n\r\n");
	for (unsigned i = 0; i < 160; i++)
		for (unsigned k = 0; k < (i < 100 ? 9 : 700); k++)
			buf_printf(&t.want, "%c", (int)('a' + (i < 100 ? i : i - 100) % 26));
	assert_int_equal(pass(false), HTTP1_DONE);
	check_out();
	http1_body_init(&t.body, HTTP1_LENGTH, 12);
	buf_adds(&t.in, "a few ");
	assert_int_equal(pass(false), HTTP1_MORE);
	buf_adds(&t.in, "bytes.GET ");
	assert_int_equal(pass(false), HTTP1_DONE);
	buf_adds(&t.want, "a few bytes.");
	check_out();
	assert_string_equal(buf_str(&t.in), "GET ");
}

/* Read and thrown away; and after a write that failed nothing is written any more. */
static void
test_nobody_takes_it(void **state)
{
	size_t used;

	(void)state;
	gather_init(&t.g, NULL);
	say(50, 10);
	say(50, 1000);
	assert_int_equal(pass(true), HTTP1_MORE);
	assert_int_equal(t.g.payload, 50 * 1010);
	check_out();
	gather_init(&t.g, &t.to);
	shutdown(t.other, SHUT_RD);
	say(50, 1000);
	assert_int_equal(
		gather_body(&t.g, &t.body, true, buf_at(&t.in), buf_len(&t.in), &used), HTTP1_MORE);
	assert_int_equal(gather_flush(&t.g), -EPIPE);
	gather_add(&t.g, "x", 1);
	t.to.broken = false;
	assert_int_equal(gather_flush(&t.g), -EPIPE);
	assert_false(t.to.broken); /* it was not asked */
}

#define T(f) cmocka_unit_test_setup_teardown(f, start, stop)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_small_chunks_become_one),
		T(test_many_pieces),
		T(test_without_chunks),
		T(test_nobody_takes_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
